import importlib.util
from pathlib import Path

import pytest
import torch

from lrga.distributed.launch import leader_first
from lrga.tasks import Task
from lrga.tasks.losses import weighted_cross_entropy
from lrga.training.parallel import broadcast, checkpointer_class
from lrga.training.problems.graphs import share_of, share_of_loss
from lrga.training.runs.checkpointer import FolderCheckpointer

LAUNCH = Path(__file__).parents[1] / "distributed" / "launch.py"


@pytest.fixture(scope="module", params=[2, 4])
def reports(request, tmp_path_factory):
    spec = importlib.util.spec_from_file_location("launch", LAUNCH)
    launch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launch)
    return launch.run("../training/parallel_ranks.py", request.param, tmp_path_factory.mktemp("parallel"))


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
    assert checkpointer_class() is FolderCheckpointer
    assert broadcast({"a": 1}) == {"a": 1}
    with leader_first():
        entered = True
    assert entered
