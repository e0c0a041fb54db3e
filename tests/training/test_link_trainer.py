import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of

from lrga.errors import NonFiniteError
from lrga.tasks.link import LinkTask
from lrga.training.problems.link_architecture import resolve_link
from lrga.training.problems.link_trainer import LinkTrainer


def trainer_of(data=None, task=None, **options):
    data = communities() if data is None else data
    config = config_of(**options)
    torch.manual_seed(0)
    model = resolve_link(config, data).build()
    return LinkTrainer(model, task or LinkTask(metric="auc", negatives=config.link.negatives), data, config)


@pytest.mark.parametrize("model", ["gcn", "graphsage", "gat", "gin", "gatedgcn"])
@pytest.mark.parametrize("lrga", [True, False])
def test_every_network_learns_communities(model, lrga):
    trainer = trainer_of(model=model, lrga=lrga, max_epochs=30, dropout=0.0, lr=0.01)
    assert trainer.fit() == "max_epochs"
    assert trainer.best.record.val_metric > 0.7
    assert trainer.last.train_metric > 0.75


@pytest.mark.parametrize("model", ["node2vec", "deepwalk", "mf"])
def test_every_embedding_learns_communities(model):
    walks = {"walk_epochs": 40, "walk_length": 10, "walk_context": 5, "walk_lr": 0.05, "walk_batch_size": 20}
    trainer = trainer_of(model=model, max_epochs=40, lr=0.02, dropout=0.0, **({} if model == "mf" else walks))
    trainer.fit()
    assert trainer.last.train_metric > 0.85
    if model != "mf":  # which learns the training edges by heart, here as on ddi
        assert trainer.best.record.val_metric > 0.75


def test_features_and_other_predictors_are_trained_too():
    for predictor in ("dot", "concat"):
        trainer = trainer_of(communities(features=5), predictor=predictor, max_epochs=2)
        assert trainer.fit() == "max_epochs"
        assert math.isfinite(trainer.last.val_loss)


def test_an_epoch_has_every_training_edge_once_and_negatives_that_are_no_edge():
    trainer = trainer_of(batch_size=50)
    seen, negatives = [], []
    for batch in range(trainer.batches):
        trainer.batch = batch
        positive, negative = trainer.pairs()
        assert positive.shape == negative.shape
        seen += positive.t().tolist()
        negatives += negative.t().tolist()
    assert sorted(seen) == sorted(trainer.edges.tolist())
    known = {tuple(sorted(pair)) for pair in trainer.data.edge.tolist()}
    assert not known & {tuple(sorted(pair)) for pair in negatives}
    trainer.epoch = 1
    trainer.batch = 0
    assert trainer.pairs()[0].t().tolist() != seen[:50]


def test_a_step_is_the_protocols_clipping_each_module_by_itself():
    trainer = trainer_of(dropout=0.0, clip_gradient=0.05, batch_size=10_000)
    model = trainer.model
    positive, negative = trainer.pairs()
    model.train()
    h = model.gnn(model.embedding.weight, trainer.data.edge_index)
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
    trainer.step(positive, negative)
    found = [p.grad for part in parts for p in part.parameters()]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_the_best_epoch_is_that_of_validation():
    trainer = trainer_of(max_epochs=6)
    records = []
    trainer.keeper.record = records.append
    trainer.fit()
    assert trainer.best.record.val_metric == max(record.val_metric for record in records)
    assert [record.epoch for record in records] == [1, 2, 3, 4, 5, 6]


def test_a_diverging_run_says_where():
    x = torch.randn(60, 5)
    x[3, 2] = math.nan
    trainer = trainer_of(replace(communities(features=5), x=x), lrga=False)
    with pytest.raises(NonFiniteError, match="epoch 1, batch 1 .* NaN or infinity in the node features"):
        trainer.fit()
    broken = trainer_of()
    with torch.no_grad():
        broken.model.predictor.lins[0].weight[0, 0] = math.inf
    with pytest.raises(NonFiniteError, match="already in predictor.lins.0.weight"):
        broken.fit()


def test_weights_of_edges_are_read_by_gcn_alone_and_only_if_asked():
    data = communities()
    data = replace(data, edge_weight=torch.rand(data.edge.size(0)) + 0.5)
    assert trainer_of(data).messages.weight is not None
    assert trainer_of(data, edge_weights=False).messages.weight is None
    assert trainer_of(data, model="graphsage").messages.weight is None


def test_half_precision_trains():
    trainer = trainer_of(precision="bf16", max_epochs=2)
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
    trainer = trainer_of(communities().to("cuda"), **options)
    trainer = LinkTrainer(trainer.model.to("cuda"), trainer.task, trainer.data, config_of(**options))
    trainer.fit()
    assert trainer.last.train_metric > 0.8
    if model != "mf":  # which learns the training edges by heart
        assert trainer.best.record.val_metric > 0.7
