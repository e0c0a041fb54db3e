"""The engine computes what the plain loop computes, batch by batch, in batches filled up to a capacity."""

import itertools
from functools import partial

import pytest
import torch
from link_graphs import Records, continued

import lrga
from lrga.data import with_encodings
from lrga.nn.recompute import recompute_layers
from lrga.tasks import Task
from lrga.training.capture import engine
from lrga.training.capture.graphs import GraphEngine
from lrga.training.config import OptimizerConfig
from lrga.training.determinism import deterministic
from lrga.training.problems.graphs import GraphProblem
from lrga.training.trainer import Trainer

TASKS = {
    "node": Task(
        level="node", kind="classification", out_channels=2, loss="weighted_cross_entropy",
        metric="weighted_accuracy_by_batch",
    ),
    "edge": Task(level="edge", kind="classification", out_channels=2, metric="f1_positive_by_batch"),
    "graph": Task(level="graph", kind="regression", out_channels=1),
}  # fmt: skip


def make_trainer(
    splits, engine, *, level="node", dtype=torch.float64, model_options=None, task=None, wrap=None, **options
):
    """A trainer on the device of the splits; ``wrap`` may change the model."""
    torch.manual_seed(0)
    task = task or TASKS[level]
    options = {"batch_size": 8, "max_epochs": 100, "lr": 2**-12} | options
    of_model = {"hidden_channels": 8, "conv": "gcn", "rank": 3, "edge_channels": 2} | (model_options or {})
    model = lrga.GNN(3, out_channels=task.out_channels, num_layers=2, task=level, **of_model)
    model = model.to(splits["train"].device, dtype)
    model = model if wrap is None else wrap(model)
    problem = GraphProblem(model, task, splits, OptimizerConfig(**options), seed=1)
    return Trainer(problem, checkpointer=Records(), engine=engine)


def losses(trainer, steps):
    """The loss of each of the next steps."""
    found, before = [], 0.0
    for _ in itertools.islice(trainer.steps(), steps):
        total = float(trainer.problem.sums.total)
        found.append(total - (before if trainer.batch > 1 else 0.0))
        before = total
    return torch.tensor(found, dtype=torch.float64)


def weights(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


KEYS = ("train_loss", "train_metric", "val_loss", "val_metric", "test_loss", "test_metric", "lr")


def both(splits, **options):
    """A trainer of each loop."""
    return [make_trainer(splits, engine, **options) for engine in ("plain", "captured")]


def assert_same_records(trainers, rel=1e-9, keys=KEYS):
    """Trains what is not trained yet; both loops then have recorded the same."""
    for trainer in trainers:
        trainer.fit()
    assert [trainer.engine is None for trainer in trainers] == [True, False]
    records = [trainer.checkpointer.records for trainer in trainers]
    assert len(records[0]) > 0
    for plain, captured in zip(*records, strict=True):
        for key in keys:
            assert getattr(captured, key) == pytest.approx(getattr(plain, key), rel=rel), key


@pytest.mark.parametrize(
    ("conv", "rank", "level"),
    [
        ("gcn", 3, "node"), ("gcn", None, "graph"), ("gat", 3, "edge"), ("gatedgcn", 3, "graph"),
        ("gatedgcn", None, "edge"), ("gatedgcn", 3, "node"), ("graphsage", 3, "node"), ("gin", 3, "graph"),
        ("gin", None, "edge"),
    ],
)  # fmt: skip
def test_losses_are_those_of_the_plain_loop(make_splits, conv, rank, level):
    """20 graphs in batches of 8: the last of an epoch is short. All five networks, with and without LRGA."""
    options = {"conv": conv, "rank": rank, "heads": 2 if conv == "gat" else 1}
    splits = make_splits(level, sizes=(20, 5, 6))
    trainers = both(splits, level=level, model_options=options, max_epochs=3)
    plain, captured = (losses(trainer, 7) for trainer in trainers)
    torch.testing.assert_close(captured, plain, rtol=0, atol=1e-8)
    assert_same_records(trainers)


@pytest.mark.parametrize(
    ("conv", "preset"),
    [("gcn", "2020"), ("gat", "2022"), ("gatedgcn", "2020"), ("gatedgcn", "2022"), ("graphsage", "2020"),
     ("gin", "2022")],
)  # fmt: skip
def test_the_first_step_agrees_to_rounding_in_single_precision(make_splits, conv, preset):
    options = {"conv": conv, "preset": preset, "heads": 2 if conv == "gat" else 1}
    splits = make_splits("node")
    gradients, found = [], []
    for trainer in both(splits, dtype=torch.float32, model_options=options):
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
        {"clip_gradient": 0.01, "eval_batch_size": 3},
        {"recalibrate_norm": 2, "patience": 0, "lr_factor": 0.1},
        {"weight_decay": 0.1},
    ],
)
def test_options_of_training_do_the_same(make_splits, options):
    trainers = both(make_splits("node"), max_epochs=4, **options)
    assert_same_records(trainers, rel=1e-8)
    if "weight_decay" in options:
        return  # a bias before a BatchNorm has no gradient but rounding, and Adam makes steps of it
    got = weights(trainers[1])
    for name, value in weights(trainers[0]).items():
        torch.testing.assert_close(got[name], value, rtol=1e-7, atol=1e-9)


def with_mask(splits, level, mask_of):
    """The splits with ``mask_of(rows)`` as their mask."""
    for graphs in splits.values():
        column = graphs.columns["y"]
        graphs.columns["mask"] = type(column)(level, mask_of(column.values.size(0)), torch.bool)
    return splits


@pytest.mark.parametrize("level", ["node", "edge", "graph"])
def test_a_mask_of_the_set_is_kept(make_splits, level):
    def mask(rows):
        kept = torch.arange(rows) % 3 == 0
        kept[: rows // 2] = False  # whole graphs without a target
        return kept

    kind, out = ("regression", 1) if level == "graph" else ("classification", 2)
    splits = with_mask(make_splits(level, sizes=(20, 5, 6)), level, mask)
    task = Task(level=level, kind=kind, out_channels=out)
    keys = ("train_loss", "train_metric", "val_loss", "val_metric", "test_metric")
    assert_same_records(both(splits, level=level, task=task, max_epochs=3, batch_size=4), 1e-8, keys)


@pytest.mark.parametrize(
    ("metric", "level", "kind", "masked"),
    [
        ("roc_auc", "node", "classification", True),
        ("roc_auc", "graph", "multilabel", False),
        ("average_precision", "node", "multilabel", True),
        ("average_precision", "node", "classification", False),
    ],
)
def test_metrics_that_rank_all_scores_are_those_of_the_plain_loop(make_splits, metric, level, kind, masked):
    splits = make_splits(level, sizes=(20, 21, 34))
    if kind == "multilabel":
        for graphs in splits.values():
            column, rows = graphs.columns["y"], graphs.columns["y"].values.size(0)
            labels = (torch.rand(rows, 3) < 0.5).float().masked_fill(torch.rand(rows, 3) < 0.2, float("nan"))
            values = labels.view(rows, 1, 3) if level == "graph" else labels
            graphs.columns["y"] = type(column)(level, values, torch.float32)
    if masked:
        with_mask(splits, level, lambda rows: torch.arange(rows) % 3 > 0)
    task = Task(level=level, kind=kind, out_channels=2 if kind == "classification" else 3, metric=metric)
    assert_same_records(both(splits, level=level, task=task, max_epochs=2))


def test_label_smoothing_is_that_of_the_plain_loop(make_splits):
    task = Task(level="node", kind="classification", out_channels=2, label_smoothing=0.1)
    plain, captured = (losses(trainer, 6) for trainer in both(make_splits("node"), task=task))
    torch.testing.assert_close(captured, plain, rtol=0, atol=1e-10)


def test_a_run_continues_in_the_other_loop(make_splits):
    splits = make_splits("node")
    whole = make_trainer(splits, "plain", max_epochs=4)
    whole.fit()
    for first, second in (("plain", "captured"), ("captured", "plain")):
        begun = make_trainer(splits, first, max_epochs=4)
        losses(begun, 5)  # within the second epoch
        after = continued(begun, partial(make_trainer, splits, second, max_epochs=4))
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
    after = continued(begun, lambda: make_trainer(splits, "captured", **options))
    after.fit()
    assert all(torch.equal(value, weights(whole)[name]) for name, value in weights(after).items())


def test_a_batch_larger_than_any_capacity_is_neither_dropped_nor_cut(make_splits):
    splits = make_splits("node")
    plain, captured = both(splits)
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


def test_empty_graphs_and_graphs_without_edges_are_graphs(make_splits):
    from torch_geometric.data import Data

    from lrga.data.packed import PackedGraphs

    def graph(nodes, edges):
        ends = torch.randint(0, max(nodes, 1), (2, edges))
        return Data(x=torch.rand(nodes, 3), edge_index=ends, edge_attr=torch.rand(edges, 2), y=torch.rand(1))

    data = [graph(n, e) for n, e in ((3, 4), (1, 0), (5, 0), (0, 0), (2, 1), (4, 9), (0, 0))]
    splits = {split: PackedGraphs.from_data_list(data, y_level="graph") for split in ("train", "val", "test")}
    found = [losses(trainer, 9) for trainer in both(splits, level="graph", batch_size=3)]
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


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize(
    "options",
    [
        *({"conv": c, "rank": rank} for c in ("gcn", "gat", "gatedgcn", "graphsage", "gin") for rank in (3, None)),
        {"conv": "gine", "block": "residual", "dropout": 0.1}, {"conv": "gatedgcn", "recompute": True},
        {"conv": "gat", "clip_gradient": 0.01}, {"conv": "graphsage", "preset": "2020"},
    ],
    ids=str,
)  # fmt: skip
def test_parallel_branches_change_no_bit(make_splits, monkeypatch, options, precision):
    splits = {name: graphs.to("cuda") for name, graphs in make_splits("node", sizes=(900, 40, 40)).items()}
    of_model = {"hidden_channels": 48, "heads": 2 if options["conv"] == "gat" else 1} | options
    wrap = recompute_layers if of_model.pop("recompute", False) else None
    training = {"precision": precision, "clip_gradient": of_model.pop("clip_gradient", None)}
    states = []
    for streams in (lambda device: None, engine.Streams):
        monkeypatch.setattr(engine, "Streams", streams)
        trainer = make_trainer(
            splits, "captured", dtype=torch.float32, model_options=of_model, wrap=wrap, batch_size=300, max_epochs=4,
            **training,
        )  # fmt: skip
        with deterministic():
            trainer.fit()
        assert trainer.engine is not None or wrap is not None  # a checkpoint reads the state of the random numbers
        learned = [(name, p.grad) for name, p in trainer.model.named_parameters() if p.grad is not None]
        gradients = {f"gradient of {name}": grad.clone() for name, grad in learned}
        losses_of_epochs = [(record.train_loss, record.val_loss) for record in trainer.checkpointer.records]
        states.append((weights(trainer) | gradients, losses_of_epochs))
    assert states[0][1] == states[1][1]
    for name, value in states[0][0].items():
        assert torch.equal(states[1][0][name], value), name
