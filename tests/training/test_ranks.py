import os

import pytest
import torch

from lrga.training.runs.folder import RunFolder
from lrga.training.runs.ranks import (
    FollowerFolder,
    folder_before_restart,
    forget_folder,
    notes_kept,
    remember_folder,
    run_folder,
)


@pytest.fixture
def torchrun(monkeypatch):
    def setting(rank, restarts):
        variables = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
        for name, value in (variables | {"TORCHELASTIC_RESTART_COUNT": restarts, "TORCHELASTIC_RUN_ID": "x"}).items():
            monkeypatch.setenv(name, str(value))

    return setting


def test_rank_0_alone_has_a_folder(torchrun, tmp_path):
    assert type(run_folder(tmp_path)) is RunFolder
    torchrun(0, 0)
    assert type(run_folder(tmp_path)) is RunFolder
    torchrun(1, 0)
    assert type(run_folder(tmp_path)) is FollowerFolder


def test_a_follower_writes_nothing(tmp_path):
    home = FollowerFolder(tmp_path / "run")
    with home.lock():
        home.create(None, None, None, "")
        home.log("words")
        home.append_metrics(None)
        home.save_checkpoint("0-000001-0000000", {"model": {"a": torch.zeros(1)}}, {})
        home.save_result({}, {})
        home.cut_metrics(3)
        home.add_environment({})
    assert (home.holds_a_run, home.history(), home.checkpoint()) == (False, (), (None, []))
    assert os.listdir(tmp_path) == []


def test_a_restart_finds_the_folder_of_the_first_start(torchrun, tmp_path):
    torchrun(0, 0)
    run, seed = tmp_path / "run", tmp_path / "run-seed1"
    assert folder_before_restart(run) is None
    remember_folder(tmp_path / "run-2", run)
    remember_folder(seed, seed)
    assert folder_before_restart(run) is None  # a first start never takes up another's folder
    torchrun(1, 1)
    remember_folder(tmp_path / "other", run)
    torchrun(0, 1)
    assert folder_before_restart(run) == tmp_path / "run-2"
    assert folder_before_restart(seed) == seed  # every run of a command has its own
    forget_folder(tmp_path / "run-2")
    assert folder_before_restart(run) is None
    assert folder_before_restart(seed) == seed
    with notes_kept([seed]):
        forget_folder(seed)
        assert folder_before_restart(seed) == seed  # it is finished, which a restart of the others must find
    assert os.listdir(tmp_path) == []
