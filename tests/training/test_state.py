"""A trainer taken up in the middle goes on bit for bit."""

import json

import pytest
import torch

import lrga
from lrga.errors import CheckpointError
from lrga.tasks import Task
from lrga.training.config import OptimizerConfig
from lrga.training.runs.state import capture, restore
from lrga.training.trainer import Keeper, Trainer


def make_trainer(splits, keeper=None, hidden=8, metric="accuracy", **options):
    torch.manual_seed(0)
    model = lrga.GNN(3, hidden, 2, 2, conv="gcn", rank=3, dropout=0.3)
    config = OptimizerConfig(**({"batch_size": 8, "max_epochs": 3, "patience": 0} | options))
    task = Task(level="node", kind="classification", out_channels=2, metric=metric)
    return Trainer(model, task, splits, config, seed=1, keeper=keeper)


class StopAt(Keeper):
    def __init__(self, epoch, batch):
        self.at = (epoch, batch)

    def pause(self, trainer):
        return "stop" if (trainer.epoch, trainer.batch) == self.at else None


@pytest.mark.parametrize("at", [(0, 0), (0, 2), (1, 0), (2, 1)])
@pytest.mark.parametrize("options", [{}, {"recalibrate_norm": 2}, {"metric": "roc_auc"}])
def test_a_restored_trainer_ends_with_the_same_weights_and_numbers(make_splits, at, options):
    whole = make_trainer(make_splits(), **options)
    whole.fit()
    first = make_trainer(make_splits(), StopAt(*at), **options)
    assert first.fit() == "stop"
    parts, state = capture(first)
    parts = {part: {name: value.clone() for name, value in tensors.items()} for part, tensors in parts.items()}
    state = json.loads(json.dumps(state, allow_nan=False))
    torch.rand(7)  # another process would have another random state
    second = make_trainer(make_splits(), **options)
    restore(second, parts, state)
    second.fit()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name
    ours, theirs = second.last.to_json(), whole.last.to_json()
    for timing in ("seconds", "elapsed"):
        del ours[timing], theirs[timing]
    assert ours == theirs
    assert second.best.record.epoch == whole.best.record.epoch
    assert all(torch.equal(value, second.best.weights[name]) for name, value in whole.best.weights.items())
    assert second.lr == whole.lr


def test_weights_of_another_model_are_refused(make_splits):
    captured = capture(make_trainer(make_splits()))
    with pytest.raises(CheckpointError, match="weights"):
        restore(make_trainer(make_splits(), hidden=12), *captured)
