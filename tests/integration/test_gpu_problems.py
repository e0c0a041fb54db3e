"""Captured steps of every problem on a GPU, with every optimiser and schedule, beside the plain loop."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from link_graphs import communities, link_trainer
from test_problems import Confidence
from test_sampled import make_trainer, one_graph

import lrga
from lrga.data import NeighborSampler, PackedGraphs
from lrga.data.datasets.building import load
from lrga.tasks import Task, task_of
from lrga.training import GraphProblem, OptimizerConfig, Trainer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use")]
RECIPES = {
    "adam": {},
    "cosine": {"schedule": "cosine", "optimizer": "adamw", "weight_decay": 0.01, "selective_decay": True},
    "one cycle": {"schedule": "one_cycle", "optimizer": "sgd", "lr": 0.02},
    "average": {"schedule": "constant", "warmup_epochs": 1, "weight_average": 0.9, "clip_gradient": 0.5},
}


def graphs(root, engine, **options):
    splits = {name: part.to("cuda") for name, part in load("CLUSTER", root, sizes=(48, 16, 16)).items()}
    torch.manual_seed(0)
    model = lrga.build_model("CLUSTER", "gcn", hidden=16, layers=2, rank=4).cuda()
    config = OptimizerConfig(**({"batch_size": 8, "max_epochs": 3} | options))
    return Trainer(GraphProblem(model, task_of("CLUSTER"), splits, config), engine=engine)


def links(root, engine, **options):
    data = communities().to("cuda")
    return link_trainer(data, engine=engine, dropout=0.0, batch_size=60, max_epochs=3, **options)


def nodes(root, engine, **options):
    splits = PackedGraphs.move(lrga.data.load_custom(one_graph()).splits, "cuda")
    return make_trainer(splits, GraphProblem, engine=engine, **options)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", [graphs, links, nodes])
def test_captured_steps_train_as_the_plain_loop_does(tmp_path, kind, recipe):
    plain, captured = (kind(tmp_path, engine, **RECIPES[recipe]) for engine in ("plain", "captured"))
    for trainer in (plain, captured):
        trainer.fit()
    assert captured.engine is not None
    for key in ("lr", "train_loss", "val_loss", "test_loss"):
        assert getattr(captured.last, key) == pytest.approx(getattr(plain.last, key), rel=2e-2, abs=1e-4), key


class Both(Confidence):
    def numbers(self):
        return Task.numbers(self) | super().numbers()


def test_captured_steps_log_the_numbers_of_a_task(tmp_path):
    task, found = Both(**vars(task_of("CLUSTER")) | {"log_metrics": ("weighted_accuracy",)}), []
    for engine in ("plain", "captured"):
        made = graphs(tmp_path, engine).problem
        trainer = Trainer(GraphProblem(made.model, task, made.splits, made.options), engine=engine)
        trainer.fit()
        found.append(trainer.last.numbers)
    assert trainer.engine is not None
    assert len(found[1]) == 6
    assert found[1] == pytest.approx(found[0], rel=5e-2)


@pytest.mark.parametrize("model", ["gcn", "graphsage", "gat", "mf", "node2vec"])
def test_every_model_for_links_learns_in_captured_steps(model):
    options = {"model": model, "max_epochs": 30, "lr": 0.02, "dropout": 0.1}
    if model == "node2vec":
        options |= {"walk_epochs": 2, "walk_length": 5, "walk_context": 3, "walk_batch_size": 20}
    trainer = link_trainer(communities().to("cuda"), engine="captured", **options)
    trainer.fit()
    assert trainer.engine is not None
    assert trainer.last.train_metric > 0.6


def test_samples_are_drawn_on_the_gpu_and_train_there():
    splits = PackedGraphs.move(lrga.data.load_custom(one_graph()).splits, "cuda")
    model = lrga.GNN(3, 8, 2, 2, conv="gcn").cuda().eval()
    seeds = torch.tensor([7, 0, 31])
    batch, whole = NeighborSampler(splits["train"], [-1, -1]).sample(seeds), splits["train"].batch(slice(0, 1))
    assert batch.device.type == "cuda"
    found, expected = (model(own.x, own.edges) for own in (batch, whole))
    torch.testing.assert_close(found[:3], expected[seeds.cuda()], rtol=1e-4, atol=1e-5)
    trainer = make_trainer(splits, max_epochs=15)
    trainer.fit()
    assert trainer.best.record.val_metric > 85
