"""Which steps can be captured, and in which capacities."""

import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm as PyGBatchNorm
from torch_geometric.nn import LayerNorm as PyGLayerNorm

import lrga
from lrga.data.packed import PackedGraphs
from lrga.data.packed.padded import Capacity
from lrga.tasks import Task
from lrga.training.callbacks.base import Callback
from lrga.training.capture.capacity import Batches
from lrga.training.capture.engine import Captured, no_waiting, snapshot_of
from lrga.training.config import OptimizerConfig
from lrga.training.problems.graphs import GraphProblem
from lrga.training.trainer import Checkpointer, Trainer


class Ear(Callback, Checkpointer):
    def __init__(self):
        self.said, self.facts = [], []

    def on_log(self, text):
        self.said.append(text)

    def log(self, text, facts):
        self.facts.append(facts)


def make_trainer(splits, wrap=None, engine="captured", **model_options):
    torch.manual_seed(0)
    model = lrga.GNN(3, 16, 2, 2, rank=3, **model_options)
    model = model if wrap is None else wrap(model)
    ear = Ear()
    options = OptimizerConfig(batch_size=8, max_epochs=1)
    task = Task(level="node", kind="classification", out_channels=2)
    return Trainer(GraphProblem(model, task, splits, options), callbacks=[ear], checkpointer=ear, engine=engine)


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
        (with_norm(nn.BatchNorm1d(16)), "layers.0.norm (BatchNorm1d) computes statistics that include padding"),
        (with_norm(PyGBatchNorm(16)), "layers.0.norm (BatchNorm) computes statistics that include padding"),
        (with_norm(PyGLayerNorm(16)), "layers.0.norm (LayerNorm) computes statistics that include padding"),
        (lambda m: Wrapped(m, lambda out, batch: out - out.mean(0)), "padding changes the output of Wrapped"),
        (lambda m: InFront(m, OwnNorm(3)), "padding changes the output of OwnNorm"),
        (with_norm(OwnNorm(16)), "padding changes the output of OwnNorm"),
        (lambda m: InFront(m, Scaled(), dead=True), "padding changes the output of Scaled"),
    ],
)
def test_the_plain_loop_trains_and_says_why(make_splits, wrap, reason):
    trainer = make_trainer(make_splits(), wrap)
    trainer.fit()
    assert trainer.engine is None
    assert trainer.callbacks[0].said == [f"trains in the plain loop: {reason}"]
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
    assert trainer.callbacks[0].said == []
    assert trainer.checkpointer.facts == [{"engine": "captured"}]


def test_an_error_while_capturing_is_the_reason_in_its_first_line(make_splits, monkeypatch):
    def broken(engine):
        raise RuntimeError("operation not permitted when stream is capturing\nmore of it")

    monkeypatch.setattr("lrga.training.capture.graphs.GraphEngine.prepare", broken)
    trainer = make_trainer(make_splits())
    trainer.fit()
    expected = "the step cannot be captured: RuntimeError: operation not permitted when stream is capturing"
    assert trainer.callbacks[0].said == [f"trains in the plain loop: {expected}"]


def test_without_a_gpu_the_plain_loop_is_the_automatic_choice_and_nobody_is_told(make_splits):
    trainer = make_trainer(make_splits(), engine="auto")
    if trainer.device.type == "cuda":
        pytest.skip("there is a GPU")
    trainer.fit()
    assert trainer.engine is None
    assert trainer.callbacks[0].said == []
    assert trainer.checkpointer.facts == [{"engine": "plain", "why_plain": "there is no GPU"}]


def test_a_set_without_a_finite_node_is_left_to_the_plain_loop(make_splits):
    splits = make_splits()
    splits["val"].columns["x"].values[:] = float("nan")
    trainer = make_trainer(splits)
    next(trainer.steps())
    assert trainer.callbacks[0].said == ["trains in the plain loop: no node has finite features in val"]


def test_on_a_cpu_the_function_itself_is_called():
    calls = []
    run = Captured(lambda: calls.append(1), None, snapshot=lambda: lambda: calls.append("restored"))
    assert calls == []
    run()
    run()
    assert calls == [1, 1]


def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    return model, optimizer, torch.amp.GradScaler("cpu", enabled=False), torch.zeros(())


def step(model, optimizer, total):
    loss = model(torch.rand(4, 3)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()


def held(model, optimizer, scaler):
    """A trainer as far as its state is remembered."""
    return SimpleNamespace(model=model, optimizer=optimizer, scaler=scaler, device=torch.device("cpu"))


def test_a_rehearsal_leaves_no_trace_before_the_first_step_or_later():
    for steps in (0, 2):
        model, optimizer, scaler, total = make()
        twin, its_optimizer, _, its_total = make()
        generator = torch.Generator().manual_seed(1)
        torch.manual_seed(5)
        for _ in range(steps):
            step(model, optimizer, total)
        restore = snapshot_of(held(model, optimizer, scaler), [total], [generator])
        for _ in range(3):
            step(model, optimizer, total)
            torch.rand(1, generator=generator)
        restore()
        torch.manual_seed(5)
        for _ in range(steps):
            step(twin, its_optimizer, its_total)
        torch.manual_seed(9)
        step(model, optimizer, total)
        torch.manual_seed(9)
        step(twin, its_optimizer, its_total)
        assert torch.equal(total, its_total)
        for ours, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
            assert torch.equal(ours, theirs)


def test_random_states_come_back():
    model, optimizer, scaler, total = make()
    generator = torch.Generator().manual_seed(1)
    restore = snapshot_of(held(model, optimizer, scaler), [total], [generator])
    first = torch.rand(3), torch.rand(3, generator=generator)
    restore()
    assert torch.equal(torch.rand(3), first[0])
    assert torch.equal(torch.rand(3, generator=generator), first[1])


def test_the_prototype_warning_of_pytorch_is_not_shown(monkeypatch):
    modes = [0]

    def set_mode(mode):  # as PyTorch does on a GPU
        if mode == "error":
            warnings.warn("Synchronization debug mode is a prototype feature and does not yet detect all", stacklevel=2)
        modes.append(mode)

    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: modes[0])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", set_mode)
    with no_waiting(), pytest.warns(UserWarning, match="of the step"):  # an error in tests, were it shown
        warnings.warn("of the step itself", stacklevel=2)
    assert modes == [0, "error", 0]


@pytest.mark.gpu
def test_a_recording_shows_no_warning_on_a_gpu():
    code = """
import torch
from lrga.training.capture.engine import Captured, no_waiting, recording_stream
total = torch.zeros((), device="cuda")
add = Captured(lambda: total.add_(1), recording_stream(total.device), snapshot=lambda: lambda: None)
add()
try:
    with no_waiting():
        float(total)
except RuntimeError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
    assert "Synchronization debug mode" not in done.stderr


def packed(sizes):
    return PackedGraphs.from_data_list(
        [Data(x=torch.ones(n, 1), edge_index=torch.zeros(2, 5 * n).long(), y=torch.zeros(n)) for n in sizes],
        y_level="node",
    )


SIZES = np.random.default_rng(0).integers(40, 190, 500).tolist()


def test_every_batch_fits_and_few_rows_are_padding():
    batches = Batches(packed(SIZES).padded, 16, "node")
    assert len(batches.capacities) == 3
    nodes = rows = 0
    for seed in range(5):
        order = torch.randperm(500, generator=torch.Generator().manual_seed(seed))
        work = batches.of(order)
        assert len(work) == 32
        assert torch.equal(torch.cat([w.graphs for w in work])[:500], order)
        assert work[-1].graphs.tolist()[4:] == [500] * 12
        for entry in work:
            total = sum(SIZES[g] for g in entry.graphs.tolist() if g < 500)
            assert entry.capacity.holds(total, 5 * total)
            assert entry.valid == total
            nodes, rows = nodes + total, rows + entry.capacity.nodes
    assert rows < 1.15 * nodes


def test_a_batch_larger_than_all_others_gets_a_capacity_of_its_own_whatever_came_before():
    batches = Batches(packed(SIZES).padded, 16, "node")
    largest = batches.capacities[-1]
    grown = batches.choose(largest.nodes, largest.edges + 1)
    assert grown.holds(largest.nodes, largest.edges + 1)
    assert grown.nodes < 1.3 * largest.nodes
    assert batches.choose(largest.nodes + 1, largest.edges + 2) == grown
    first, second = (Batches(packed(SIZES).padded, 16, "node") for _ in range(2))
    first.of(torch.arange(500))
    order = torch.randperm(500)
    assert [w.capacity for w in first.of(order)] == [w.capacity for w in second.of(order)]


def test_numbers_of_nodes_edges_and_graphs_differ():
    edgeless = PackedGraphs.from_data_list(
        [Data(x=torch.ones(3, 1), edge_index=torch.zeros(2, 3).long()) for _ in range(300)]
    )
    for size in (1, 63, 75, 127, 255):
        for capacity in Batches(edgeless.padded, size, "graph").capacities:
            assert len({capacity.nodes, capacity.edges, size + 1}) == 3


def test_batches_in_order_or_of_like_graphs_take_their_own_sizes():
    batches = Batches(packed([10] * 8 + [1000] * 2).padded, 2, "node", shuffled=False)
    work = batches.of(torch.arange(10))
    assert work[0].capacity == Capacity(64, 256)
    assert work[-1].capacity.nodes < 2200
    sizes = np.random.default_rng(0).integers(68, 73, 500).tolist()
    batches = Batches(packed(sizes).padded, 64, "node")
    (capacity,) = batches.capacities
    for entry in batches.of(torch.randperm(500, generator=torch.Generator().manual_seed(0))):
        assert entry.capacity == capacity
        assert capacity.nodes < 1.1 * 64 * 70
