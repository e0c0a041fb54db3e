"""The training loop."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from link_graphs import Records, communities, link_trainer

import lrga
from lrga.data.datasets.spec import SPLITS
from lrga.errors import NonFiniteError, OptionError
from lrga.models.embeddings import DeepWalk, Node2Vec
from lrga.tasks import Task
from lrga.training.callbacks.base import Callback
from lrga.training.config import LinkConfig, OptimizerConfig
from lrga.training.evaluate import evaluate, run_model
from lrga.training.problems.graphs import GraphProblem
from lrga.training.problems.walks import WalkProblem
from lrga.training.trainer import Trainer


def make_trainer(splits, *, task=None, checkpointer=None, model_options=None, **options):
    torch.manual_seed(0)
    task = task or Task(level="node", kind="classification", out_channels=2)
    model = lrga.GNN(3, 16, task.out_channels, 2, conv="gcn", rank=4, task=task.level, **(model_options or {}))
    config = OptimizerConfig(**({"batch_size": 8, "max_epochs": 3} | options))
    return Trainer(GraphProblem(model, task, splits, config, seed=1), checkpointer=checkpointer)


def test_a_model_learns_and_the_best_epoch_is_kept(make_splits):
    checkpointer = Records()
    trainer = make_trainer(make_splits(sizes=(64, 16, 16)), checkpointer=checkpointer, lr=0.02, max_epochs=12)
    assert trainer.fit() == "max_epochs"
    first, last = checkpointer.records[0], checkpointer.records[-1]
    assert last.train_loss < 0.6 * first.train_loss
    assert last.test_metric > 85
    assert [record.epoch for record in checkpointer.records] == list(range(1, 13))
    assert checkpointer.saved == [(epoch, 0) for epoch in range(1, 13)]
    best = max(record.val_metric for record in checkpointer.records)
    assert trainer.best.record.val_metric == best
    assert trainer.best.record.epoch == min(r.epoch for r in checkpointer.records if r.val_metric == best)
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
    assert trainer.problem.sums.means()[0] == pytest.approx(loss.item())


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
    checkpointer = Records()
    trainer = make_trainer(make_splits(), checkpointer=checkpointer, lr=1e-3, patience=1, min_lr=2e-4, max_epochs=100)
    trainer.problem.evaluate = lambda trainer: dict.fromkeys(
        SPLITS, (1.0, 50.0)
    )  # a validation loss that never improves
    assert trainer.fit() == "min_lr"
    # the first epoch sets the mark; after each 2 bad ones (patience 1) the rate halves; it ends below 2e-4
    assert [record.lr for record in checkpointer.records] == [1e-3] * 3 + [5e-4] * 2 + [2.5e-4] * 2
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


def test_reduced_precision_trains_and_keeps_single_precision_weights(make_splits):
    trainer = make_trainer(make_splits(), precision="bf16", lr=0.01, max_epochs=6)
    checkpointer = trainer.checkpointer = Records()
    trainer.fit()
    assert checkpointer.records[-1].train_loss < checkpointer.records[0].train_loss
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    trainer = link_trainer(precision="bf16", max_epochs=2)
    trainer.fit()
    assert math.isfinite(trainer.last.test_loss)


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

    checkpointer = Pausing()
    trainer = make_trainer(make_splits(), checkpointer=checkpointer)
    assert trainer.fit() == "enough"
    assert (trainer.epoch, trainer.batch) == (1, 2)
    assert checkpointer.saved == [(1, 0), (1, 2)]
    checkpointer.pause = lambda trainer: None
    assert trainer.fit() == "max_epochs"
    whole = make_trainer(make_splits())
    whole.fit()
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), trainer.model.parameters(), strict=True))


def test_callbacks_are_called_in_turn_for_batches_evaluation_and_epochs(make_splits):
    calls = []

    class Log(Callback):
        def __init__(self, name):
            self.name = name

        def on_batch_end(self, epoch, batch, batches):
            calls.append((self.name, epoch, batch, batches))

        def on_evaluation_start(self, epoch):
            calls.append((self.name, "evaluating"))

        def on_epoch_end(self, record):
            calls.append((self.name, record.epoch))

    trainer = make_trainer(make_splits(), max_epochs=2)
    trainer.callbacks = [Log("a"), Callback(), Log("b")]
    trainer.fit()
    one = [[*((e, b, 3) for b in (1, 2, 3)), ("evaluating",), (e,)] for e in (1, 2)]
    assert calls == [(name, *event) for event in itertools.chain.from_iterable(one) for name in "ab"]


@pytest.mark.parametrize(
    ("model", "lrga"),
    [("gcn", True), ("gcn", False), ("graphsage", True), ("gat", True), ("gin", False), ("gatedgcn", True)],
)
def test_every_network_learns_communities(model, lrga):
    trainer = link_trainer(model=model, lrga=lrga, max_epochs=20, dropout=0.0, lr=0.02)
    assert trainer.fit() == "max_epochs"
    assert trainer.best.record.val_metric > 0.7
    assert trainer.last.train_metric > 0.75


@pytest.mark.parametrize("model", ["node2vec", "deepwalk", "mf"])
def test_every_embedding_learns_communities(model):
    walks = {"walk_epochs": 20, "walk_length": 10, "walk_context": 5, "walk_lr": 0.05, "walk_batch_size": 20}
    trainer = link_trainer(model=model, max_epochs=20, lr=0.03, dropout=0.0, **({} if model == "mf" else walks))
    trainer.fit()
    assert trainer.last.train_metric > 0.85
    if model != "mf":  # which learns the training edges by heart, here as on ddi
        assert trainer.best.record.val_metric > 0.75


def test_features_and_other_predictors_are_trained_too():
    for predictor in ("dot", "concat"):
        trainer = link_trainer(communities(features=5), predictor=predictor, max_epochs=2)
        assert trainer.fit() == "max_epochs"
        assert math.isfinite(trainer.last.val_loss)


def test_an_epoch_has_every_training_edge_once_and_negatives_that_are_no_edge():
    problem = link_trainer(batch_size=50).problem
    seen, negatives = [], []
    for positive, negative in problem.epoch_batches(0, 0):
        assert positive.shape == negative.shape
        seen += positive.t().tolist()
        negatives += negative.t().tolist()
    assert sorted(seen) == sorted(problem.edges.tolist())
    known = {tuple(sorted(pair)) for pair in problem.data.edge.tolist()}
    assert not known & {tuple(sorted(pair)) for pair in negatives}
    assert next(problem.epoch_batches(1, 0))[0].t().tolist() != seen[:50]
    assert next(problem.epoch_batches(0, 1))[0].t().tolist() == seen[50:100]


def test_a_step_is_the_protocols_clipping_each_module_by_itself():
    trainer = link_trainer(dropout=0.0, clip_gradient=0.05, batch_size=10_000)
    model = trainer.model
    positive, negative = next(trainer.problem.epoch_batches(0, 0))
    model.train()
    h = model.gnn(model.embedding.weight, trainer.problem.data.edge_index)
    pos, neg = (model.predictor(h[p[0]], h[p[1]]) for p in (positive, negative))
    loss = -F.logsigmoid(pos).mean() - F.logsigmoid(-neg).mean()
    parts = [model.gnn, model.predictor, model.embedding]
    grads = torch.autograd.grad(loss, [p for part in parts for p in part.parameters()])
    expected, place = [], 0
    for part in parts:
        own = grads[place : place + len(list(part.parameters()))]
        place += len(own)
        norm = torch.stack([g.norm() for g in own]).norm()
        expected += [g * min(1.0, 0.05 / (float(norm) + 1e-6)) for g in own]
        assert float(norm) > 0.05
    trainer.step((positive, negative))
    found = [p.grad for part in parts for p in part.parameters()]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_a_diverging_run_says_where():
    x = torch.randn(60, 5)
    x[3, 2] = math.nan
    trainer = link_trainer(replace(communities(features=5), x=x), lrga=False)
    with pytest.raises(NonFiniteError, match="epoch 1, batch 1 .* NaN or infinity in x of the nodes"):
        trainer.fit()
    broken = link_trainer()
    with torch.no_grad():
        broken.model.predictor.lins[0].weight[0, 0] = math.inf
    with pytest.raises(NonFiniteError, match=r"first in the output of layer 'predictor.lins.0'.*not finite: weight"):
        broken.fit()


def test_weights_of_edges_are_read_by_gcn_alone_and_only_if_asked():
    data = communities()
    data = replace(data, edge_weight=torch.rand(data.edge.size(0)) + 0.5)
    assert link_trainer(data).problem.messages.weight is not None
    assert link_trainer(data, edge_weights=False).problem.messages.weight is None
    assert link_trainer(data, model="graphsage").problem.messages.weight is None


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["gcn", "graphsage", "mf", "node2vec", "deepwalk"])
def test_a_gpu_learns_as_a_cpu_does(model):
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    walks = {"walk_epochs": 40, "walk_length": 10, "walk_context": 5, "walk_lr": 0.05, "walk_batch_size": 20}
    options = {"model": model, "max_epochs": 40, "lr": 0.02, "dropout": 0.0}
    options |= walks if model in ("node2vec", "deepwalk") else {}
    trainer = link_trainer(communities().to("cuda"), **options)
    trainer.fit()
    assert trainer.last.train_metric > 0.8
    if model != "mf":  # which learns the training edges by heart
        assert trainer.best.record.val_metric > 0.7


OPTIONS = LinkConfig(walk_length=6, walk_context=3, walks_per_node=2, walk_batch_size=16, walk_epochs=2)


def made(kind=Node2Vec, **options):
    data = communities()
    return WalkProblem(kind(data.num_nodes, 8), data, OPTIONS, seed=1, **options), data


def test_walks_begin_in_every_node_and_follow_edges():
    problem, data = made()
    known = {tuple(p) for p in data.edge_index.t().tolist()}
    starts = []
    for walks, false in problem.epoch_batches(0, 0):
        assert walks.shape == false.shape
        assert walks.size(1) == 7
        assert torch.equal(walks[:, 0], false[:, 0])
        assert {tuple(p) for p in walks.unfold(1, 2, 1).flatten(0, 1).tolist()} <= known
        starts += walks[:, 0].tolist()
    assert sorted(starts) == sorted([*range(data.num_nodes)] * 2)


def test_the_loss_of_a_step_is_that_of_all_windows_of_its_walks():
    problem, _ = made()
    batch = next(problem.epoch_batches(0, 0))
    walks, false = (part.unfold(1, 3, 1).flatten(0, 1) for part in batch)
    expected = problem.model.walk_loss(walks, false)
    torch.testing.assert_close(problem.step_loss(batch, 0, 0).value, expected.detach())


def test_training_changes_all_tables_and_nothing_else():
    problem, _ = made(DeepWalk)
    model = problem.model
    before = [p.clone() for p in (model.embedding.weight, model.context.weight)]
    predictor = [p.clone() for p in model.predictor.parameters()]
    assert Trainer(problem).fit() == "max_epochs"
    for old, new in zip(before, (model.embedding.weight, model.context.weight), strict=True):
        assert not torch.equal(old, new)
    assert all(torch.equal(a, b) for a, b in zip(predictor, model.predictor.parameters(), strict=True))


def test_samples_follow_from_seed_epoch_and_batch():
    (first, _), (second, _) = made(), made()
    draws = [next(first.epoch_batches(0, 1)), next(second.epoch_batches(0, 1)), next(second.epoch_batches(1, 1))]
    assert all(torch.equal(a, b) for a, b in zip(draws[0], draws[1], strict=True))
    assert not torch.equal(draws[0][0], draws[2][0])


@pytest.mark.parametrize("option", ["walk_length", "walks_per_node"])
def test_walks_that_no_memory_holds_are_refused_at_once(option):
    data = communities()
    with pytest.raises(OptionError, match="the walks of a batch to fit into memory"):
        WalkProblem(Node2Vec(data.num_nodes, 8), data, replace(OPTIONS, **{option: 10**13}), seed=1)
