import importlib.util
from pathlib import Path

import pytest
import torch

from lrga.distributed.launch import leader_first
from lrga.tasks import Task
from lrga.tasks.losses import weighted_cross_entropy
from lrga.training.parallel import agree, keeper_class, share_of, share_of_loss, tell, trainer_class
from lrga.training.trainer import Trainer

LAUNCH = Path(__file__).parents[1] / "distributed" / "launch.py"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("launch", LAUNCH)
    launch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launch)
    return launch.run("../training/parallel_ranks.py", 3, tmp_path_factory.mktemp("parallel"))


@pytest.mark.parametrize("case", ["gcn node", "gatedgcn graph", "gcn labels", "gin plain graph"])
def test_three_ranks_take_the_steps_of_one_process(reports, case):
    """Gradients, losses and metrics; the last batch has fewer graphs than there are ranks."""
    for report in reports:
        for name, difference in report[case].items():
            assert difference < (1e-7 if name == "parameters" else 1e-10), name


def test_ranks_that_hold_different_amounts_of_memory_decide_alike(reports):
    """Layers computed again on some ranks only would leave the others waiting for BatchNorm's sums."""
    assert reports[0]["memory"].startswith("refused expected a training step that fits")


def test_every_rank_reports_the_same(reports):
    assert reports[0] == reports[1] == reports[2]


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
    assert trainer_class() is Trainer
    assert keeper_class().__name__ == "FolderKeeper"
    assert tell({"a": 1}) == {"a": 1}
    agree(None)
    with leader_first():
        entered = True
    assert entered
