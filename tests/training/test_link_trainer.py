import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, link_trainer

from lrga.errors import NonFiniteError


@pytest.mark.parametrize("model", ["gcn", "graphsage", "gat", "gin", "gatedgcn"])
@pytest.mark.parametrize("lrga", [True, False])
def test_every_network_learns_communities(model, lrga):
    trainer = link_trainer(model=model, lrga=lrga, max_epochs=30, dropout=0.0, lr=0.01)
    assert trainer.fit() == "max_epochs"
    assert trainer.best.record.val_metric > 0.7
    assert trainer.last.train_metric > 0.75


@pytest.mark.parametrize("model", ["node2vec", "deepwalk", "mf"])
def test_every_embedding_learns_communities(model):
    walks = {"walk_epochs": 40, "walk_length": 10, "walk_context": 5, "walk_lr": 0.05, "walk_batch_size": 20}
    trainer = link_trainer(model=model, max_epochs=40, lr=0.02, dropout=0.0, **({} if model == "mf" else walks))
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


def test_the_best_epoch_is_that_of_validation():
    trainer = link_trainer(max_epochs=6)
    records = []
    trainer.checkpointer.record = records.append
    trainer.fit()
    assert trainer.best.record.val_metric == max(record.val_metric for record in records)
    assert [record.epoch for record in records] == [1, 2, 3, 4, 5, 6]


def test_a_diverging_run_says_where():
    x = torch.randn(60, 5)
    x[3, 2] = math.nan
    trainer = link_trainer(replace(communities(features=5), x=x), lrga=False)
    with pytest.raises(NonFiniteError, match="epoch 1, batch 1 .* NaN or infinity in x of the nodes"):
        trainer.fit()
    broken = link_trainer()
    with torch.no_grad():
        broken.model.predictor.lins[0].weight[0, 0] = math.inf
    with pytest.raises(NonFiniteError, match=r"first in the output of layer 'predictor.lins.0'.*whose weight already"):
        broken.fit()


def test_weights_of_edges_are_read_by_gcn_alone_and_only_if_asked():
    data = communities()
    data = replace(data, edge_weight=torch.rand(data.edge.size(0)) + 0.5)
    assert link_trainer(data).problem.messages.weight is not None
    assert link_trainer(data, edge_weights=False).problem.messages.weight is None
    assert link_trainer(data, model="graphsage").problem.messages.weight is None


def test_half_precision_trains():
    trainer = link_trainer(precision="bf16", max_epochs=2)
    trainer.fit()
    assert math.isfinite(trainer.last.test_loss)


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
