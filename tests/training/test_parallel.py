"""Runs of several processes."""

import os
from pathlib import Path

import pytest
import torch

from lrga.distributed.launch import leader_first
from lrga.tasks import Task
from lrga.tasks.losses import weighted_cross_entropy
from lrga.training.parallel import (
    broadcast,
    folder_before_restart,
    forget_folder,
    markers_kept,
    remember_folder,
)
from lrga.training.problems.graphs import share_of, share_of_loss
from lrga.training.runs.folder import RunFolder
from tests.helpers.processes import run

SLOW = [pytest.param(ranks, marks=pytest.mark.slow) for ranks in (2, 4)]


@pytest.fixture(scope="module", params=[3, *SLOW])  # the last batch of two graphs leaves one of three ranks out
def reports(request, tmp_path_factory):
    return run(Path(__file__).with_name("parallel_ranks.py"), request.param, tmp_path_factory.mktemp("parallel"))


LINKS = ["links learned", "links features", "links plain"]


@pytest.mark.parametrize("case", ["gcn node", "gatedgcn graph", "gcn labels", "gin plain graph", *LINKS])
def test_several_ranks_take_the_steps_of_one_process(reports, case):
    """Gradients, losses and metrics; the last batch has fewer graphs than there are ranks."""
    for report in reports:
        for name, difference in report[case].items():
            if case in LINKS:  # whose scores are float32
                assert difference < (1e-5 if name == "parameters" else 2e-6), name
            else:
                assert difference < (1e-7 if name == "parameters" else 1e-10), name


def test_every_rank_reports_the_same(reports):
    assert all(report == reports[0] for report in reports)


def test_shares_hold_every_row_once_and_the_last_may_be_empty():
    for rows in range(7):
        for world in range(1, 5):
            shares = [share_of(torch.arange(rows), rank, world).tolist() for rank in range(world)]
            assert [row for share in shares for row in share] == list(range(rows))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_one_process_has_the_whole_loss():
    scores, labels = torch.randn(9, 3, dtype=torch.float64), torch.randint(3, (9,))
    task = Task(
        level="node", kind="classification", out_channels=3, loss="weighted_cross_entropy", metric="weighted_accuracy"
    )
    assert torch.allclose(share_of_loss(task, scores, labels), weighted_cross_entropy(scores, labels))
    assert share_of_loss(task, scores[:0], labels[:0]) == 0.0
    assert torch.allclose(
        share_of_loss(Task(level="graph", kind="regression", out_channels=1), scores[:, :1], scores[:, 1:2]),
        (scores[:, 0] - scores[:, 1]).abs().mean(),
    )


def test_without_torchrun_nothing_changes():
    assert broadcast({"a": 1}) == {"a": 1}
    with leader_first():
        entered = True
    assert entered


@pytest.fixture
def torchrun(monkeypatch):
    def setting(rank, restarts):
        variables = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
        for name, value in (variables | {"TORCHELASTIC_RESTART_COUNT": restarts, "TORCHELASTIC_RUN_ID": "x"}).items():
            monkeypatch.setenv(name, str(value))

    return setting


def test_only_rank_zero_writes_the_folder(torchrun, tmp_path):
    torchrun(1, 0)
    home = RunFolder(tmp_path / "run")
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
    torchrun(0, 0)
    with home.lock():
        home.log("words")
    assert os.listdir(tmp_path) == ["run"]


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
    with markers_kept([seed]):
        forget_folder(seed)
        assert folder_before_restart(seed) == seed  # it is finished, which a restart of the others must find
    assert os.listdir(tmp_path) == []
