"""What cannot be trained in captured steps is trained in the plain loop, and the reason is told once."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import BatchNorm as PyGBatchNorm
from torch_geometric.nn import LayerNorm as PyGLayerNorm

import lrga
from lrga.tasks import Task
from lrga.training.callbacks.events import Listener
from lrga.training.config import OptimizerConfig
from lrga.training.problems.graphs import GraphProblem
from lrga.training.trainer import Checkpointer, Trainer


class Ear(Listener, Checkpointer):
    def __init__(self):
        self.said, self.facts = [], []

    def noted(self, text):
        self.said.append(text)

    def note(self, text, facts):
        self.facts.append(facts)


def make_trainer(splits, wrap=None, engine="captured", **model_options):
    torch.manual_seed(0)
    model = lrga.GNN(3, 16, 2, 2, rank=3, **model_options)
    model = model if wrap is None else wrap(model)
    ear = Ear()
    options = OptimizerConfig(batch_size=8, max_epochs=1)
    task = Task(level="node", kind="classification", out_channels=2)
    return Trainer(GraphProblem(model, task, splits, options), listener=ear, checkpointer=ear, engine=engine)


class Wrapped(nn.Module):
    """A model of somebody else around ours."""

    def __init__(self, model, change):
        super().__init__()
        self.model, self.change = model, change

    def forward(self, x, edges, edge_attr, batch, num_graphs):
        return self.change(self.model(x, edges, edge_attr, batch, num_graphs), batch)


class OwnNorm(nn.Module):
    """Statistics of the batch in training, running ones in evaluation, as people write it."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        if not self.training:
            return x - self.mean
        with torch.no_grad():
            self.mean.lerp_(x.mean(0), 0.1)
        return x - x.mean(0)


class Scaled(nn.Module):
    def forward(self, x):
        return x / x.norm()


class InFront(nn.Module):
    """A module of somebody else before a model of ours, whose dead units may hide what it does."""

    def __init__(self, model, first, dead=False):
        super().__init__()
        self.first, self.model = first, model
        if dead:
            with torch.no_grad():
                model.head.mlp.lins[-1].weight.zero_()

    def forward(self, x, *rest):
        return self.model(self.first(x), *rest)


def with_norm(norm):
    def wrap(model):
        model.layers[0].norm = norm
        return model

    return wrap


@pytest.mark.parametrize(
    ("wrap", "reason"),
    [
        (with_norm(nn.BatchNorm1d(16)), "layers.0.norm (BatchNorm1d) takes statistics over padding too"),
        (with_norm(PyGBatchNorm(16)), "layers.0.norm (BatchNorm) takes statistics over padding too"),
        (with_norm(PyGLayerNorm(16)), "layers.0.norm (LayerNorm) takes statistics over padding too"),
        (lambda m: Wrapped(m, lambda out, batch: out - out.mean(0)), "padding changes what Wrapped computes"),
        (lambda m: InFront(m, OwnNorm(3)), "padding changes what OwnNorm computes"),
        (with_norm(OwnNorm(16)), "padding changes what OwnNorm computes"),
        (lambda m: InFront(m, Scaled(), dead=True), "padding changes what Scaled computes"),
    ],
)
def test_the_plain_loop_trains_and_says_why(make_splits, wrap, reason):
    trainer = make_trainer(make_splits(), wrap)
    trainer.fit()
    assert trainer.engine is None
    assert trainer.listener.said == [f"trains in the plain loop: {reason}"]
    assert trainer.checkpointer.facts == [{"engine": "plain", "why_plain": reason}]
    assert trainer.last is not None


def test_looking_whether_padding_matters_leaves_no_trace(make_splits):
    def wrap(model):
        torch.manual_seed(3)
        return InFront(model, nn.Sequential(OwnNorm(3), nn.Dropout(0.5)))

    found = []
    for engine in ("plain", "captured"):
        trainer = make_trainer(make_splits(), wrap, engine, dropout=0.25)
        assert trainer.model.model.layers[0].base.dropout == 0.25
        trainer.fit()
        assert trainer.engine is None
        assert (trainer.model.first[1].p, trainer.model.model.layers[0].base.dropout) == (0.5, 0.25)
        found.append((trainer.last.train_loss, trainer.last.test_loss, trainer.model.first[0].mean.clone()))
    assert found[0][:2] == found[1][:2]
    assert torch.equal(found[0][2], found[1][2])


@pytest.mark.parametrize(
    "wrap",
    [
        None,
        with_norm(nn.LayerNorm(16)),
        lambda m: Wrapped(m, lambda out, batch: out * 2),
        lambda m: Wrapped(m, lambda out, batch: nn.functional.dropout(out, 0.5)),  # random in evaluation too
    ],
)
def test_what_padding_does_not_change_is_captured(make_splits, wrap):
    trainer = make_trainer(make_splits(), wrap)
    next(trainer.steps())
    assert trainer.engine is not None
    assert trainer.listener.said == []
    assert trainer.checkpointer.facts == [{"engine": "captured"}]


def test_an_error_while_capturing_is_the_reason_in_its_first_line(make_splits, monkeypatch):
    def broken(engine):
        raise RuntimeError("operation not permitted when stream is capturing\nmore of it")

    monkeypatch.setattr("lrga.training.capture.graphs.GraphEngine.prepare", broken)
    trainer = make_trainer(make_splits())
    trainer.fit()
    expected = "the step cannot be captured: RuntimeError: operation not permitted when stream is capturing"
    assert trainer.listener.said == [f"trains in the plain loop: {expected}"]


def test_without_a_gpu_the_plain_loop_is_the_automatic_choice_and_nobody_is_told(make_splits):
    trainer = make_trainer(make_splits(), engine="auto")
    if trainer.device.type == "cuda":
        pytest.skip("there is a GPU")
    trainer.fit()
    assert trainer.engine is None
    assert trainer.listener.said == []
    assert trainer.checkpointer.facts == [{"engine": "plain", "why_plain": "there is no GPU"}]


def test_a_set_without_a_finite_node_is_left_to_the_plain_loop(make_splits):
    splits = make_splits()
    splits["val"].columns["x"].values[:] = float("nan")
    trainer = make_trainer(splits)
    next(trainer.steps())
    assert trainer.listener.said == ["trains in the plain loop: no node has finite features in val"]
