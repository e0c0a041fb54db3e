"""Runs of several processes."""

import os
from pathlib import Path

import pytest
import torch

from lrga.distributed.launch.process_group import leader_first
from lrga.tasks import Task
from lrga.tasks.losses import weighted_cross_entropy
from lrga.training.parallel import broadcast
from lrga.training.problems.graphs import share_of, share_of_loss
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import new_folder
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


def test_a_restart_finds_the_folder_of_the_first_start(torchrun, make_config, tmp_path):
    config, other = make_config(), make_config(seed=1)
    first = new_folder(config, tmp_path)
    first.mkdir()  # of an earlier command
    torchrun(0, 0)
    folder = new_folder(config, tmp_path)
    assert folder.name == f"{first.name}-2"
    for started in (folder, new_folder(other, tmp_path)):  # every run of a command has its own
        started.mkdir()
        RunFolder(started).add_environment({})
    assert new_folder(config, tmp_path).name == f"{first.name}-3"  # a first start never takes up another's folder
    for rank in (0, 1):
        torchrun(rank, 1)
        assert new_folder(config, tmp_path) == folder
        assert new_folder(other, tmp_path).is_dir()
