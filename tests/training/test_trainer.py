"""The loop: it learns, stops when it should, and does what the protocol says."""

import itertools

import pytest
import torch

import lrga
from lrga.tasks import Task
from lrga.training.callbacks.events import Listener
from lrga.training.config import OptimizerConfig
from lrga.training.evaluate import evaluate, run_model
from lrga.training.problems.graphs import GraphProblem
from lrga.training.trainer import Checkpointer, Trainer


class Records(Checkpointer):
    def __init__(self):
        self.records, self.saved = [], []

    def record(self, record):
        self.records.append(record)

    def save(self, trainer):
        self.saved.append((trainer.epoch, trainer.batch))


def make_trainer(splits, *, task=None, keeper=None, model_options=None, **options):
    torch.manual_seed(0)
    task = task or Task(level="node", kind="classification", out_channels=2)
    model = lrga.GNN(3, 16, task.out_channels, 2, conv="gcn", rank=4, task=task.level, **(model_options or {}))
    config = OptimizerConfig(**({"batch_size": 8, "max_epochs": 3} | options))
    return Trainer(GraphProblem(model, task, splits, config, seed=1), checkpointer=keeper)


def test_a_model_learns_and_the_best_epoch_is_kept(make_splits):
    keeper = Records()
    trainer = make_trainer(make_splits(sizes=(64, 16, 16)), keeper=keeper, lr=0.02, max_epochs=12)
    assert trainer.fit() == "max_epochs"
    first, last = keeper.records[0], keeper.records[-1]
    assert last.train_loss < 0.6 * first.train_loss
    assert last.test_metric > 85
    assert [record.epoch for record in keeper.records] == list(range(1, 13))
    assert keeper.saved == [(epoch, 0) for epoch in range(1, 13)]
    best = max(record.val_metric for record in keeper.records)
    assert trainer.best.record.val_metric == best
    assert trainer.best.record.epoch == min(r.epoch for r in keeper.records if r.val_metric == best)
    trainer.model.load_state_dict(trainer.best.weights)
    problem = trainer.problem
    assert evaluate(trainer.model, problem.splits["val"], problem.task, batch_size=8)[1] == pytest.approx(best)


def test_the_reported_numbers_are_the_last_epoch_s_model_s(make_splits):
    trainer = make_trainer(make_splits("graph"), task=Task(level="graph", kind="regression", out_channels=1))
    trainer.fit()
    loss, metric = evaluate(trainer.model, trainer.problem.splits["test"], trainer.problem.task, batch_size=8)
    assert (trainer.last.test_loss, trainer.last.test_metric) == (loss, metric)


def test_one_step_is_adam_s_on_the_loss_of_the_batch(make_splits):
    trainer = make_trainer(make_splits(), weight_decay=0.1, lr=0.01)
    twin = make_trainer(make_splits()).model
    twin.load_state_dict(trainer.model.state_dict())
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01, weight_decay=0.1)
    batch = next(trainer.problem.epoch_batches(trainer.epoch, trainer.batch))
    loss = torch.nn.functional.cross_entropy(run_model(twin.train(), batch), batch.y)
    loss.backward()
    optimizer.step()
    trainer.model.train()
    trainer.step(batch)
    for ours, theirs in zip(trainer.model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    assert trainer.problem.sums.loss.mean() == pytest.approx(loss.item())


def test_every_training_graph_comes_once_in_an_epoch_in_a_new_order(make_splits):
    trainer = make_trainer(make_splits())
    whole = trainer.problem.splits["train"].x

    def seen():
        return torch.cat([batch.x for batch in trainer.problem.epoch_batches(trainer.epoch, trainer.batch)])

    first = seen()
    trainer.epoch = 1
    second = seen()
    assert not torch.equal(first, second)
    for order in (first, second):
        assert torch.equal(order.sort(dim=0).values, whole.sort(dim=0).values)


def test_the_rate_halves_on_plateaus_until_training_ends(make_splits):
    keeper = Records()
    trainer = make_trainer(make_splits(), keeper=keeper, lr=1e-3, patience=1, min_lr=2e-4, max_epochs=100)
    trainer.problem._evaluate = lambda split: (1.0, 50.0)  # a validation loss that never improves
    assert trainer.fit() == "min_lr"
    # the first epoch sets the mark; after each 2 bad ones (patience 1) the rate halves; it ends below 2e-4
    assert [record.lr for record in keeper.records] == [1e-3] * 3 + [5e-4] * 2 + [2.5e-4] * 2
    assert trainer.lr == 1.25e-4


def test_gradients_are_clipped(make_splits):
    norms = []
    for clip in (None, 1e-3):
        trainer = make_trainer(make_splits(), clip_gradient=clip)
        trainer.model.train()
        trainer.step(next(trainer.problem.epoch_batches(trainer.epoch, trainer.batch)))
        norms.append(
            float(torch.nn.utils.get_total_norm([p.grad for p in trainer.model.parameters() if p.grad is not None]))
        )
    assert norms[0] > 1e-2
    assert norms[1] <= 1.001e-3


def test_mixed_precision_trains_and_keeps_single_precision_weights(make_splits):
    trainer = make_trainer(make_splits(), precision="bf16", lr=0.01, max_epochs=6)
    keeper = trainer.checkpointer = Records()
    trainer.fit()
    assert keeper.records[-1].train_loss < keeper.records[0].train_loss
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


def test_recalibrated_statistics_are_used_in_evaluation(make_splits):
    trainer = make_trainer(make_splits(), recalibrate_norm=2, max_epochs=1)
    trainer.fit()
    norm = trainer.model.layers[0].norm
    assert int(norm.num_batches_tracked) == 2


def test_only_masked_nodes_are_trained_on(make_splits):
    splits = make_splits()
    for graphs in splits.values():
        column = graphs.columns["y"]
        graphs.columns["mask"] = type(column)("node", torch.arange(graphs.num_nodes) % 2 == 0, torch.bool)
    trainer = make_trainer(splits, max_epochs=1)
    hidden = {name: graphs.columns["y"].values[1::2] for name, graphs in splits.items()}
    trainer.fit()
    first = {n: v.clone() for n, v in trainer.model.state_dict().items()}
    for values in hidden.values():
        values.copy_(1 - values)  # targets outside the mask must not matter
    again = make_trainer(splits, max_epochs=1)
    again.fit()
    assert all(torch.equal(value, first[name]) for name, value in again.model.state_dict().items())
    assert again.last == type(again.last)(**(trainer.last.to_json() | {
        "seconds": again.last.seconds, "elapsed": again.last.elapsed}))  # fmt: skip


def test_training_pauses_when_asked_and_goes_on(make_splits):
    class Pausing(Records):
        def pause(self, trainer):
            return "enough" if (trainer.epoch, trainer.batch) == (1, 2) and not self.records[1:] else None

    keeper = Pausing()
    trainer = make_trainer(make_splits(), keeper=keeper)
    assert trainer.fit() == "enough"
    assert (trainer.epoch, trainer.batch) == (1, 2)
    assert keeper.saved == [(1, 0), (1, 2)]
    keeper.pause = lambda trainer: None
    assert trainer.fit() == "max_epochs"
    whole = make_trainer(make_splits())
    whole.fit()
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), trainer.model.parameters(), strict=True))


def test_listeners_hear_of_batches_evaluation_and_epochs(make_splits):
    said = []

    class Ear(Listener):
        def batch_done(self, epoch, batch, batches):
            said.append((epoch, batch, batches))

        def evaluating(self, epoch):
            said.append("evaluating")

        def epoch_done(self, record):
            said.append(record.epoch)

    trainer = make_trainer(make_splits(), max_epochs=2)
    trainer.listener = Ear()
    trainer.fit()
    assert said == list(
        itertools.chain.from_iterable([(e, b, 3) for b in (1, 2, 3)] + ["evaluating", e] for e in (1, 2))
    )
