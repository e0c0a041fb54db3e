"""The engine computes what the plain loop computes, batch by batch, in batches filled up to a capacity."""

import itertools

import pytest
import torch

import lrga
from lrga.data import with_encodings
from lrga.errors import NonFiniteError
from lrga.tasks import Task
from lrga.training.callbacks.base import Callback
from lrga.training.capture.graphs import GraphEngine
from lrga.training.config import OptimizerConfig
from lrga.training.problems.graphs import GraphProblem
from lrga.training.runs.checkpoint import capture, restore
from lrga.training.trainer import Checkpointer, Trainer

TASKS = {
    "node": Task(
        level="node", kind="classification", out_channels=2, loss="weighted_cross_entropy",
        metric="weighted_accuracy_by_batch",
    ),
    "edge": Task(level="edge", kind="classification", out_channels=2, metric="f1_positive_by_batch"),
    "graph": Task(level="graph", kind="regression", out_channels=1),
}  # fmt: skip


class Records(Checkpointer):
    def __init__(self):
        self.records, self.notes = [], []

    def end_epoch(self, trainer, record):
        self.records.append(record)
        self.save(trainer)

    def log(self, text, facts):
        self.notes.append((text, facts))


def make_trainer(splits, engine, *, level="node", dtype=torch.float64, model_options=None, task=None, **options):
    torch.manual_seed(0)
    task = task or TASKS[level]
    options = {"batch_size": 8, "max_epochs": 100, "lr": 2**-12} | options
    of_model = {"conv": "gcn", "rank": 3, "edge_channels": 2} | (model_options or {})
    model = lrga.GNN(3, 8, task.out_channels, 2, task=level, **of_model).to(dtype)
    problem = GraphProblem(model, task, splits, OptimizerConfig(**options), seed=1)
    return Trainer(problem, checkpointer=Records(), engine=engine)


def losses(trainer, steps):
    """The loss of each of the next steps."""
    found, before = [], 0.0
    for _ in itertools.islice(trainer.steps(), steps):
        total = float(trainer.problem.sums.loss.total)
        found.append(total - (before if trainer.batch > 1 else 0.0))
        before = total
    return torch.tensor(found, dtype=torch.float64)


def weights(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


@pytest.mark.parametrize("level", ["node", "edge", "graph"])
@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("conv", ["gcn", "gat", "gatedgcn", "graphsage", "gin"])
def test_losses_are_those_of_the_plain_loop(make_splits, conv, rank, level):
    """20 graphs in batches of 8: the last of an epoch is short. All five networks, with and without LRGA."""
    options = {"conv": conv, "rank": rank, "heads": 2 if conv == "gat" else 1}
    splits = make_splits(level, sizes=(20, 5, 6))
    trainers = [make_trainer(splits, e, level=level, model_options=options) for e in ("plain", "captured")]
    plain, captured = (losses(trainer, 21) for trainer in trainers)
    assert trainers[1].engine is not None
    torch.testing.assert_close(captured, plain, rtol=0, atol=1e-8)
    for ours, theirs in zip(trainers[1].checkpointer.records, trainers[0].checkpointer.records, strict=True):
        for key in ("train_loss", "train_metric", "val_loss", "val_metric", "test_loss", "test_metric", "lr"):
            assert getattr(ours, key) == pytest.approx(getattr(theirs, key), rel=1e-9)


@pytest.mark.parametrize("conv", ["gcn", "gatedgcn"])
def test_losses_of_200_steps_are_those_of_the_plain_loop(make_splits, conv):
    splits = make_splits("node", sizes=(200, 5, 6))
    plain, captured = (
        losses(make_trainer(splits, e, model_options={"conv": conv}), 200) for e in ("plain", "captured")
    )
    assert plain.numel() == 200
    torch.testing.assert_close(captured, plain, rtol=0, atol=1e-8)


@pytest.mark.parametrize("preset", ["2020", "2022"])
@pytest.mark.parametrize("conv", ["gcn", "gat", "gatedgcn", "graphsage", "gin"])
def test_the_first_step_agrees_to_rounding_in_single_precision(make_splits, conv, preset):
    options = {"conv": conv, "preset": preset, "heads": 2 if conv == "gat" else 1}
    splits = make_splits("node")
    gradients, found = [], []
    for engine in ("plain", "captured"):
        trainer = make_trainer(splits, engine, dtype=torch.float32, model_options=options)
        found.append(losses(trainer, 1))
        gradients.append([p.grad for p in trainer.model.parameters()])
    torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=0)
    for ours, theirs in zip(*gradients, strict=True):
        if theirs is None:
            assert ours is None or torch.all(ours == 0)
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"clip_gradient": 0.01},
        {"weight_decay": 0.1},
        {"eval_batch_size": 3},
        {"recalibrate_norm": 2},
        {"patience": 0, "lr_factor": 0.1},
    ],
)
def test_options_of_training_do_the_same(make_splits, options):
    results = []
    for engine in ("plain", "captured"):
        trainer = make_trainer(make_splits("node"), engine, max_epochs=4, **options)
        trainer.fit()
        results.append((trainer.checkpointer.records, weights(trainer)))
    (plain, expected), (captured, got) = results
    assert [r.lr for r in captured] == [r.lr for r in plain]
    assert captured[-1].test_loss == pytest.approx(plain[-1].test_loss, rel=1e-8)
    if "weight_decay" in options:
        return  # a bias before a BatchNorm has no gradient but rounding, and Adam makes steps of it
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("level", ["node", "edge", "graph"])
def test_a_mask_of_the_set_is_kept(make_splits, level):
    splits = make_splits(level, sizes=(20, 5, 6))
    for graphs in splits.values():
        column = graphs.columns["y"]
        mask = torch.arange(column.values.size(0)) % 3 == 0
        mask[: column.values.size(0) // 2] = False  # whole graphs without a target
        graphs.columns["mask"] = type(column)(level, mask, torch.bool)
    tasks = {
        "node": Task(level="node", kind="classification", out_channels=2),
        "edge": Task(level="edge", kind="classification", out_channels=2),
        "graph": Task(level="graph", kind="regression", out_channels=1),
    }
    records = []
    for engine in ("plain", "captured"):
        trainer = make_trainer(splits, engine, level=level, task=tasks[level], max_epochs=3, batch_size=4)
        trainer.fit()
        assert (trainer.engine is None) == (engine == "plain")
        records.append(trainer.checkpointer.records)
    for plain, captured in zip(*records, strict=True):
        for key in ("train_loss", "train_metric", "val_loss", "val_metric", "test_metric"):
            assert getattr(captured, key) == pytest.approx(getattr(plain, key), rel=1e-8)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "task",
    [
        Task(level="graph", kind="classification", out_channels=3),
        Task(level="graph", kind="regression", out_channels=1, metric="mae_by_batch"),
        Task(level="graph", kind="regression", out_channels=1, loss="mse"),
    ],
)
def test_batches_evaluated_at_once_give_the_numbers_of_each(make_splits, task, masked):
    """21 and 34 graphs in batches of 4, four at once: the last step has batches without a graph, the last batch one."""
    splits = make_splits("graph", sizes=(20, 21, 34))
    if task.kind == "classification":
        for graphs in splits.values():
            graphs.columns["y"] = type(graphs.columns["y"])("graph", torch.arange(len(graphs)) % 3, torch.int64)
    if masked:
        for graphs in splits.values():
            mask = torch.arange(len(graphs)) % 3 == 0
            mask[4:8] = False  # a whole batch without a target
            graphs.columns["mask"] = type(graphs.columns["y"])("graph", mask, torch.bool)
    trainers = [
        make_trainer(splits, engine, level="graph", task=task, batch_size=8, eval_batch_size=4, max_epochs=2)
        for engine in ("plain", "captured")
    ]
    for trainer in trainers:
        trainer.fit()
    assert trainers[1].engine.held_out["val"].batch_size == 16
    for plain, captured in zip(*(trainer.checkpointer.records for trainer in trainers), strict=True):
        for key in ("val_loss", "val_metric", "test_loss", "test_metric"):
            assert getattr(captured, key) == pytest.approx(getattr(plain, key), rel=1e-9)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("level", "kind"), [("node", "classification"), ("node", "multilabel"), ("graph", "multilabel")]
)
@pytest.mark.parametrize("metric", ["roc_auc", "average_precision"])
def test_metrics_that_rank_all_scores_are_those_of_the_plain_loop(make_splits, metric, level, kind, masked):
    splits = make_splits(level, sizes=(20, 21, 34))
    for graphs in splits.values():
        column, rows = graphs.columns["y"], graphs.columns["y"].values.size(0)
        if kind == "multilabel":
            labels = (torch.rand(rows, 3) < 0.5).float().masked_fill(torch.rand(rows, 3) < 0.2, float("nan"))
            values = labels.view(rows, 1, 3) if level == "graph" else labels
            graphs.columns["y"] = type(column)(level, values, torch.float32)
        if masked:
            graphs.columns["mask"] = type(column)(level, torch.arange(rows) % 3 > 0, torch.bool)
    task = Task(level=level, kind=kind, out_channels=2 if kind == "classification" else 3, metric=metric)
    trainers = [make_trainer(splits, engine, level=level, task=task, max_epochs=2) for engine in ("plain", "captured")]
    for trainer in trainers:
        trainer.fit()
    assert trainers[1].engine is not None
    for plain, captured in zip(*(trainer.checkpointer.records for trainer in trainers), strict=True):
        for key in ("train_loss", "train_metric", "val_loss", "val_metric", "test_loss", "test_metric"):
            assert getattr(captured, key) == pytest.approx(getattr(plain, key), rel=1e-9)


def test_label_smoothing_is_that_of_the_plain_loop(make_splits):
    task = Task(level="node", kind="classification", out_channels=2, label_smoothing=0.1)
    plain, captured = (losses(make_trainer(make_splits("node"), e, task=task), 6) for e in ("plain", "captured"))
    torch.testing.assert_close(captured, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("level", "change"),
    [("node", {}), ("graph", {"model_options": {"random_features": True}})],
)
def test_batches_are_evaluated_one_by_one_where_they_are_not_independent(make_splits, level, change):
    trainer = make_trainer(make_splits(level, sizes=(20, 21, 34)), "captured", level=level, batch_size=4, **change)
    assert GraphEngine(trainer, trainer.problem).held_out["test"].batch_size == 4


def test_large_batches_are_evaluated_one_by_one(make_splits, monkeypatch):
    trainer = make_trainer(make_splits("graph", sizes=(20, 21, 34)), "captured", level="graph", batch_size=4)
    monkeypatch.setattr("lrga.training.capture.graphs.MAX_ROWS_AT_ONCE", 1000)
    assert GraphEngine(trainer, trainer.problem).held_out["test"].batch_size < 16


def test_a_run_continues_in_the_other_loop(make_splits):
    splits = make_splits("node")
    whole = make_trainer(splits, "plain", max_epochs=4)
    whole.fit()
    for first, second in (("plain", "captured"), ("captured", "plain")):
        begun = make_trainer(splits, first, max_epochs=4)
        losses(begun, 5)  # within the second epoch
        parts, state = capture(begun)
        parts = {part: {name: value.clone() for name, value in own.items()} for part, own in parts.items()}
        after = make_trainer(splits, second, max_epochs=4)
        restore(after, parts, state)
        after.fit()
        assert (after.engine is None) == (second == "plain")
        assert after.last.test_loss == pytest.approx(whole.last.test_loss, rel=1e-8)
        for name, value in weights(whole).items():
            torch.testing.assert_close(weights(after)[name], value, rtol=1e-6, atol=1e-9)


def test_a_run_that_is_taken_up_ends_as_it_would_have_to_the_last_bit(make_splits):
    splits = make_splits("node")
    options = {"model_options": {"dropout": 0.3, "random_features": True}, "dtype": torch.float32, "max_epochs": 3}
    whole = make_trainer(splits, "captured", **options)
    whole.fit()
    begun = make_trainer(splits, "captured", **options)
    losses(begun, 4)
    parts, state = capture(begun)
    parts = {part: {name: value.clone() for name, value in own.items()} for part, own in parts.items()}
    after = make_trainer(splits, "captured", **options)
    restore(after, parts, state)
    after.fit()
    assert all(torch.equal(value, weights(whole)[name]) for name, value in weights(after).items())


def test_a_batch_larger_than_any_capacity_is_neither_dropped_nor_cut(make_splits):
    splits = make_splits("node")
    plain, captured = (make_trainer(splits, engine) for engine in ("plain", "captured"))
    expected = losses(plain, 6)
    captured.engine = GraphEngine(captured, captured.problem)
    captured.engine.train.capacities = captured.engine.train.capacities[:1]
    captured.engine.train.capacities[0] = type(captured.engine.train.capacities[0])(30, 30)
    torch.testing.assert_close(losses(captured, 6), expected, rtol=0, atol=1e-10)


def test_steps_are_given_back_at_the_end_and_recorded_anew_where_it_goes_on(make_splits):
    splits = make_splits("node")
    whole, in_parts = (make_trainer(splits, "captured") for _ in range(2))
    expected = losses(whole, 7)
    engines = []
    for steps in (2, 2, 3):
        found = losses(in_parts, steps)
        torch.testing.assert_close(found[-1], expected[2 * len(engines) + steps - 1], rtol=0, atol=1e-12)
        engines.append(in_parts.engine)
        assert engines[-1] is engines[0]
        assert engines[-1]._ready == {}


def test_a_loss_that_is_not_finite_names_batch_and_layer(make_splits):
    class Poison(Callback):
        def on_batch_end(self, epoch, batch, batches):
            if (epoch, batch) == (2, 1):
                with torch.no_grad():
                    trainer.model.layers[1].base.lin.bias[0] = float("nan")

    trainer = make_trainer(make_splits("node"), "captured", max_epochs=3)
    trainer.callbacks = [Poison()]
    with pytest.raises(NonFiniteError, match=r"epoch 2"):
        trainer.fit()


def test_a_bad_number_in_the_data_is_found(make_splits):
    splits = make_splits("node")
    splits["train"].columns["x"].values[5] = float("nan")
    trainer = make_trainer(splits, "captured")
    with pytest.raises(NonFiniteError, match=r"epoch 1, batch \d of 3.*in x of the batch"):
        trainer.fit()


def test_empty_graphs_and_graphs_without_edges_are_graphs(make_splits):
    from torch_geometric.data import Data

    from lrga.data.packed import PackedGraphs

    def graph(nodes, edges):
        ends = torch.randint(0, max(nodes, 1), (2, edges))
        return Data(x=torch.rand(nodes, 3), edge_index=ends, edge_attr=torch.rand(edges, 2), y=torch.rand(1))

    data = [graph(n, e) for n, e in ((3, 4), (1, 0), (5, 0), (0, 0), (2, 1), (4, 9), (0, 0))]
    splits = {split: PackedGraphs.from_data_list(data, y_level="graph") for split in ("train", "val", "test")}
    found = [losses(make_trainer(splits, e, level="graph", batch_size=3), 9) for e in ("plain", "captured")]
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-10)


def test_mixed_precision_trains(make_splits):
    trainer = make_trainer(
        make_splits("node"), "captured", precision="bf16", lr=0.02, max_epochs=6, dtype=torch.float32
    )
    trainer.fit()
    assert trainer.engine is not None
    assert trainer.checkpointer.records[-1].train_loss < trainer.checkpointer.records[0].train_loss


@pytest.mark.parametrize(("conv", "norm"), [("gine", "batch"), ("gatedgcn", "rms")])
def test_residual_blocks_with_encodings_do_the_same(make_splits, conv, norm):
    splits = {name: with_encodings(own, ["rrwp:4"]) for name, own in make_splits("graph", sizes=(20, 5, 6)).items()}
    options = {"conv": conv, "block": "residual", "norm": norm, "encoding": ["rrwp:4"], "readout": "max"}
    trainers = [make_trainer(splits, e, level="graph", model_options=options) for e in ("plain", "captured")]
    plain, captured = (losses(trainer, 7) for trainer in trainers)
    assert trainers[1].engine is not None
    torch.testing.assert_close(captured, plain, rtol=0, atol=1e-8)


def test_steps_with_flipped_eigenvectors_are_captured(make_splits):
    splits = {name: with_encodings(own, ["lappe:2"]) for name, own in make_splits("graph", sizes=(20, 5, 6)).items()}
    trainer = make_trainer(splits, "captured", level="graph", model_options={"encoding": ["lappe:2"]})
    assert bool(losses(trainer, 4).isfinite().all())
    assert trainer.engine is not None
