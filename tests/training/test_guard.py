"""A loss that is not finite ends the run, and the batch and layer are named."""

import pytest
import torch
from torch import nn

import lrga
from lrga.errors import NonFiniteError
from lrga.tasks import Task
from lrga.training.callbacks.base import Callback
from lrga.training.callbacks.guard import first_non_finite
from lrga.training.config import OptimizerConfig
from lrga.training.evaluate import run_model
from lrga.training.problems.graphs import GraphProblem
from lrga.training.trainer import Trainer


class Poison(Callback):
    """Ruins a weight after a batch."""

    def __init__(self, epoch, batch, model):
        self.when, self.model = (epoch, batch), model

    def on_batch_end(self, epoch, batch, batches):
        if (epoch, batch) == self.when:
            with torch.no_grad():
                self.model.layers[1].base.lin.bias[0] = float("nan")


def make_trainer(splits, engine="plain", **model_options):
    torch.manual_seed(0)
    model = lrga.GNN(3, 8, 2, 2, conv="gcn", rank=3, **model_options)
    options = OptimizerConfig(batch_size=8, max_epochs=3)
    task = Task(level="node", kind="classification", out_channels=2)
    return Trainer(GraphProblem(model, task, splits, options, seed=1), engine=engine)


NAMED = {
    "plain": r"epoch 2, batch 2 of 3.*'layers\.1\.base\.lin' \(Linear\); parameters that are not finite: bias",
    "captured": r"epoch 2 up to batch 3, got finite losses when the epoch was repeated",  # without the callback
}


@pytest.mark.parametrize("engine", NAMED)
def test_batch_and_layer_are_named(make_splits, engine):
    trainer = make_trainer(make_splits(), engine)
    trainer.callbacks = [Poison(2, 1, trainer.model)]
    with pytest.raises(NonFiniteError, match=NAMED[engine]):
        trainer.fit()


@pytest.mark.parametrize("engine", NAMED)
def test_the_weights_are_not_touched_by_the_bad_batch(make_splits, engine):
    splits = make_splits()
    trainer = make_trainer(splits, engine)
    splits["train"].columns["x"].values[0] = float("inf")
    with pytest.raises(NonFiniteError, match=r"epoch 1, batch \d of 3.*in x of the batch"):
        trainer.fit()
    assert all(bool(p.isfinite().all()) for p in trainer.model.parameters())


def test_the_batch_is_found_again_where_losses_are_looked_at_now_and_then(make_splits):
    """As on a GPU: the epoch is repeated from its start, looking at every loss."""
    splits = make_splits()
    trainer = make_trainer(splits, dropout=0.2)
    trainer.guard.every = 50
    batches = list(trainer.problem.epoch_batches(0, 0))
    order = torch.cat([batch.x[:, 0] for batch in batches])
    worst = next(i for i, batch in enumerate(batches) if (batch.x[:, 0] == order[-1]).any())
    chosen = (splits["train"].columns["x"].values[:, 0] == order[-1]).nonzero()[0]
    splits["train"].columns["x"].values[chosen] = float("nan")
    with pytest.raises(NonFiniteError, match=f"epoch 1, batch {worst + 1} of 3.*in x of the batch"):
        trainer.fit()


def test_a_healthy_run_is_the_same_however_often_losses_are_looked_at(make_splits):
    weights = []
    for every in (1, 50):
        trainer = make_trainer(make_splits(), dropout=0.2)
        trainer.guard.every = every
        trainer.fit()
        weights.append(trainer.model.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_an_evaluation_that_is_not_finite_is_named_too(make_splits):
    splits = make_splits()
    splits["val"].columns["x"].values[-1] = float("nan")
    with pytest.raises(
        NonFiniteError, match=r"evaluating 'val' after epoch 1.*in x of the batch, in batch 1 of 8 graphs each"
    ):
        make_trainer(splits).fit()


def culprit(model, batch):
    inputs = {"x of the batch": batch.x, "edge_attr of the batch": batch.edge_attr}
    return first_non_finite(model, lambda: run_model(model, batch), inputs)


def model_and_batch(make_splits):
    return lrga.GNN(3, 8, 2, 3, conv="gatedgcn", rank=3, edge_channels=2), make_splits()["train"].batch([0, 1])


def test_the_first_layer_that_is_not_finite_is_named_with_its_weight_and_no_hook_kept(make_splits):
    model, batch = model_and_batch(make_splits)
    assert culprit(model, batch) is None
    assert not any(module._forward_hooks for module in model.modules())
    with torch.no_grad():
        model.layers[1].mix.weight[0, 0] = float("nan")
    found = culprit(model, batch)
    assert "'layers.1.mix' (Linear)" in found
    assert "weight" in found
    model, batch = model_and_batch(make_splits)
    model.layers[1].mix = nn.Sequential(model.layers[1].mix, Explode())
    assert "'layers.1.mix.1' (Explode)" in culprit(model, batch)


class Explode(nn.Module):
    def forward(self, x):
        return torch.exp(1e4 * x.abs() + 1e4)


def test_bad_data_are_blamed_before_any_layer(make_splits):
    for name in ("x", "edge_attr"):
        model, batch = model_and_batch(make_splits)
        getattr(batch, name)[1] = float("inf")
        assert f"in {name} of the batch" in culprit(model, batch)
