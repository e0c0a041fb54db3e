"""Captured steps on a GPU: what is replayed is the plain loop, with fresh randomness and the rate of the moment."""

import gc
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from test_engine import TASKS, losses, weights
from test_engine import make_trainer as engine_trainer

from lrga.data.packed import PackedGraphs
from lrga.errors import NonFiniteError
from lrga.tasks import Task
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, continue_run, train
from lrga.training.callbacks.base import Callback
from lrga.training.capture.engine import no_waiting
from lrga.training.capture.graphs import GraphEngine
from lrga.training.determinism import deterministic
from lrga.training.runs.seeds import train_interleaved

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use")]
CONVS = ("gcn", "gat", "gatedgcn", "graphsage", "gin")


def graph(generator, level, nodes):
    x = torch.rand(nodes, 3, generator=generator)
    ends = torch.randint(0, nodes, (2, 4 * nodes), generator=generator)
    y = {"node": (x[:, 0] > 0.5).long(), "graph": x.mean().view(1), "edge": (x[ends[0], 0] > x[ends[1], 1]).long()}[
        level
    ]
    return Data(x=x, edge_index=ends, edge_attr=torch.rand(4 * nodes, 2, generator=generator), y=y)


def make_splits(level="node", sizes=(100, 20, 20), device="cuda"):
    generator = torch.Generator().manual_seed(0)
    splits = {}
    for split, size in zip(("train", "val", "test"), sizes, strict=True):
        data = [graph(generator, level, 10 + i % 17) for i in range(size)]
        splits[split] = PackedGraphs.from_data_list(data, y_level=level).to(device)
    return splits


def make_trainer(splits, engine, *, dtype=torch.float32, model_options=None, **options):
    model_options = {"hidden_channels": 16, "rank": 5} | (model_options or {})
    return engine_trainer(splits, engine, dtype=dtype, model_options=model_options, **({"batch_size": 16} | options))


@pytest.mark.parametrize("rank", [None, 5])
@pytest.mark.parametrize("conv", CONVS)
def test_losses_of_200_steps_in_double_precision_are_those_of_the_plain_loop(conv, rank):
    level = {"gcn": "node", "gat": "graph", "gatedgcn": "edge", "graphsage": "node", "gin": "edge"}[conv]
    options = {"conv": conv, "rank": rank, "heads": 2 if conv == "gat" else 1}
    splits = make_splits(level)
    trainers = [make_trainer(splits, e, level=level, dtype=torch.float64, model_options=options)
                for e in ("plain", "captured")]  # fmt: skip
    plain, captured = (losses(trainer, 200) for trainer in trainers)
    assert trainers[1].engine is not None, trainers[1].checkpointer.notes
    torch.testing.assert_close(captured, plain, rtol=0, atol=1e-8)
    for ours, theirs in zip(trainers[1].checkpointer.records, trainers[0].checkpointer.records, strict=True):
        for key in ("train_metric", "val_loss", "val_metric", "test_loss", "test_metric"):
            assert getattr(ours, key) == pytest.approx(getattr(theirs, key), rel=1e-6)


@pytest.mark.parametrize("fixed_order", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"metric": "roc_auc"},
        {"metric": "weighted_accuracy"},
        {"loss": "weighted_cross_entropy", "label_smoothing": 0.1, "metric": "average_precision"},
        {"kind": "multilabel", "out_channels": 1},
    ],
)
def test_metrics_of_the_set_are_those_of_the_plain_loop(monkeypatch, options, fixed_order):
    task = Task(**({"level": "node", "kind": "classification", "out_channels": 2} | options))
    monkeypatch.setitem(TASKS, "node", task)
    splits, found = make_splits(), []
    with deterministic(fixed_order):
        for engine in ("plain", "captured"):
            trainer = make_trainer(splits, engine, dtype=torch.float64, max_epochs=2)
            trainer.fit()
            assert (trainer.engine is None) == (engine == "plain"), trainer.checkpointer.notes
            found.append(trainer.checkpointer.records)
    for plain, captured in zip(*found, strict=True):
        for key in ("train_loss", "train_metric", "val_loss", "val_metric", "test_loss", "test_metric"):
            assert getattr(captured, key) == pytest.approx(getattr(plain, key), rel=1e-6)


@pytest.mark.parametrize("level", ["node", "edge", "graph"])
@pytest.mark.parametrize("conv", CONVS)
def test_the_first_step_in_single_precision_agrees_to_rounding(conv, level):
    options = {"conv": conv, "heads": 2 if conv == "gat" else 1}
    splits = make_splits(level)
    plain = make_trainer(splits, "plain", level=level, model_options=options)
    expected = losses(plain, 1)
    trainer = make_trainer(splits, "plain", level=level, model_options=options)
    trainer.model.train()
    engine = GraphEngine(trainer, trainer.problem)
    first = next(iter(engine.rest_of_epoch()))
    step = engine.training_step(first.capacity)
    engine.put(first.graphs)
    step()
    torch.testing.assert_close(trainer.problem.sums.total.cpu(), expected[0], rtol=1e-4, atol=0)
    for p, q in zip(plain.model.parameters(), trainer.model.parameters(), strict=True):
        if p.grad is not None:
            scale = max(float(p.grad.abs().max()), 1e-3)
            torch.testing.assert_close(q.grad / scale, p.grad / scale, rtol=0, atol=2e-3)


def test_recording_changes_nothing():
    """Warm-up runs leave weights, statistics, moments and random states as they were."""
    trainer = make_trainer(make_splits(), "captured", model_options={"dropout": 0.5})
    before, random = weights(trainer), torch.cuda.get_rng_state()
    engine = GraphEngine(trainer, trainer.problem)
    engine.prepare()
    assert all(torch.equal(value, weights(trainer)[name]) for name, value in before.items())
    assert torch.equal(random, torch.cuda.get_rng_state())
    assert all(float(entry["step"]) == 0 for entry in trainer.optimizer.state.values())
    assert float(trainer.problem.sums.total) == 0.0


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"random_features": True}])
def test_every_replay_draws_anew(options):
    trainer = make_trainer(make_splits(), "captured", model_options=options, lr=1e-30)
    trainer.model.train()
    engine = GraphEngine(trainer, trainer.problem)
    work = next(iter(engine.rest_of_epoch()))
    step = engine.training_step(work.capacity)
    engine.put(work.graphs)
    seen = []
    for _ in range(4):
        trainer.problem.sums.reset()
        step()
        seen.append(float(trainer.problem.sums.total))
    assert len(set(seen)) == 4
    torch.cuda.manual_seed(5)
    trainer.problem.sums.reset()
    step()
    first = float(trainer.problem.sums.total)
    torch.cuda.manual_seed(5)
    trainer.problem.sums.reset()
    step()
    assert float(trainer.problem.sums.total) == pytest.approx(first, rel=1e-5)


def test_a_generator_of_the_model_is_drawn_from_anew():
    generator = torch.Generator("cuda").manual_seed(3)
    options = {"random_features": True, "generator": generator}
    trainer = make_trainer(make_splits(), "captured", model_options=options, lr=1e-30)
    found = losses(trainer, 2)
    assert trainer.engine is not None, trainer.checkpointer.notes
    assert found[0] != found[1]


def test_a_run_that_ends_leaves_the_steps_of_another_alone():
    """Scratch memory of matrix products is kept by stream: what one run gives back must not be another's."""
    splits = make_splits()
    expected = losses(make_trainer(splits, "captured", dtype=torch.float64), 40)
    first, second = (make_trainer(splits, "captured", dtype=torch.float64) for _ in range(2))
    mine, other = first.steps(), second.steps()
    found, before = [], 0.0
    for number in range(40):
        next(mine)
        total = float(first.problem.sums.total)
        found.append(total - (before if first.batch > 1 else 0.0))
        before = total
        if number < 10:
            next(other)
        if number == 10:
            other.close()
            del other, second
            gc.collect()
            torch.cuda.empty_cache()
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, rtol=0, atol=1e-10)


def test_the_rate_of_the_moment_is_used():
    trainer = make_trainer(make_splits(), "captured", lr=1e-3)
    trainer.model.train()
    engine = GraphEngine(trainer, trainer.problem)
    work = next(iter(engine.rest_of_epoch()))
    moved = []
    for rate in (1e-3, 1e-3, 1e-6):
        trainer.optimizer.param_groups[0]["lr"] = rate
        weight = trainer.model.head.mlp.lins[0].weight.detach()
        before = weight.clone()
        engine.step(work)
        moved.append(float((weight - before).abs().max()))
    assert moved[1] > 1e-4
    assert moved[2] < 1e-5


@pytest.mark.parametrize("options", [{"clip_gradient": 0.01}, {"recalibrate_norm": 2}, {"eval_batch_size": 7}])
def test_options_of_training_do_the_same(options):
    splits, records = make_splits(), []
    for engine in ("plain", "captured"):
        trainer = make_trainer(splits, engine, dtype=torch.float64, max_epochs=3, **options)
        trainer.fit()
        assert (trainer.engine is None) == (engine == "plain"), trainer.checkpointer.notes
        records.append(trainer.checkpointer.records)
    for plain, captured in zip(*records, strict=True):
        assert captured.train_loss == pytest.approx(plain.train_loss, rel=1e-8)
        assert captured.test_loss == pytest.approx(plain.test_loss, rel=1e-7)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_is_captured(precision):
    trainer = make_trainer(make_splits(), "captured", precision=precision, lr=0.01, max_epochs=5)
    trainer.fit()
    assert trainer.engine is not None, trainer.checkpointer.notes
    assert trainer.checkpointer.records[-1].train_loss < trainer.checkpointer.records[0].train_loss


def test_no_step_waits_for_the_gpu():
    trainer = make_trainer(make_splits(sizes=(640, 20, 20)), "captured")
    trainer.model.train()
    engine = trainer.engine = GraphEngine(trainer, trainer.problem)
    engine.prepare()
    work = list(engine.rest_of_epoch())
    trainer.guard.every = 200
    with no_waiting():
        for entry in work[:20]:
            engine.step(entry)
    assert trainer.batch == 20


def test_a_loss_that_is_not_finite_names_batch_and_layer():
    class Poison(Callback):
        def on_batch_end(self, epoch, batch, batches):
            if (epoch, batch) == (1, 4):
                with torch.no_grad():
                    trainer.problem.splits["train"].columns["x"].values[:] = float("nan")

    trainer = make_trainer(make_splits(), "captured")
    trainer.callbacks = [Poison()]
    with pytest.raises(NonFiniteError, match="epoch 1, batch"):
        trainer.fit()


@pytest.mark.parametrize(
    ("wrap", "reason"),
    [
        (lambda model: _with_norm(model), "computes statistics that include padding"),
        (lambda model: _Reading(model), "cannot be captured"),
    ],
)
def test_what_cannot_be_captured_trains_in_the_plain_loop(wrap, reason):
    said = []

    class Ear(Callback):
        def on_log(self, text):
            said.append(text)

    trainer = make_trainer(make_splits(), "auto", wrap=wrap, max_epochs=1)
    trainer.callbacks = [Ear()]
    trainer.fit()
    assert trainer.engine is None
    assert len(said) == 1
    assert reason in said[0]
    assert trainer.last is not None


def _with_norm(model):
    model.layers[0].norm = nn.BatchNorm1d(16).cuda()
    return model


class _Reading(nn.Module):
    """Reads a value: what no recording can."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args):
        out = self.model(*args)
        return out if float(out.detach().sum()) > 0 else out * 1.0


def config_of(**options):
    config = TrainingConfig(
        data=DataConfig(name="own graphs"),
        model=ModelConfig(hidden=16, layers=2, rank=5, dropout=0.1),
        optimizer=OptimizerConfig(max_epochs=4, batch_size=16),
        run=RunConfig(seed=7, device="cuda"),
    )
    return config.changed(**options)


def test_a_run_continues_across_loops(tmp_path):
    splits = make_splits(device="cpu")
    whole = train(config_of(dropout=0.0, engine="plain"), tmp_path / "whole", data=splits)
    for first, second in (("plain", "captured"), ("captured", "plain"), ("captured", "captured")):
        folder = tmp_path / f"{first}-{second}"
        train(config_of(dropout=0.0, engine=first, max_epochs=2), folder, data=splits)
        after = continue_run(folder, config_of(dropout=0.0, engine=second), data=splits, max_epochs=4)
        assert after.epochs == 4
        assert after.last.train_loss == pytest.approx(whole.last.train_loss, rel=1e-2)
        assert second in (folder / "environment.json").read_text()


def test_a_deterministic_run_comes_again_to_the_last_bit(tmp_path):
    splits = make_splits(device="cpu")
    runs = [train(config_of(deterministic=True), tmp_path / str(i), data=splits) for i in range(2)]
    for name, value in runs[0].model.state_dict().items():
        assert torch.equal(value, runs[1].model.state_dict()[name]), name


def test_seeds_at_once_are_those_one_after_the_other_to_the_last_bit(tmp_path):
    splits = make_splits(device="cpu")
    configs = [config_of(deterministic=True, seed=seed) for seed in (41, 95, 12, 35)]
    alone = [train(config, tmp_path / f"alone{config.run.seed}", data=splits) for config in configs]
    together = train_interleaved(configs, [tmp_path / f"both{c.run.seed}" for c in configs], data=splits)
    for one, other in zip(alone, together, strict=True):
        assert not isinstance(other, Exception), other
        assert [r.train_loss for r in one.history] == [r.train_loss for r in other.history]
        for name, value in one.model.state_dict().items():
            assert torch.equal(value, other.model.state_dict()[name]), name
    assert together[0].test != together[1].test
