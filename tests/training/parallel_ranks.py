"""Data-parallel training beside one process, in float64: run by real processes, never collected by pytest."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch_geometric.data import Data

import lrga
from lrga.data import PackedGraphs
from lrga.data.links.split import split_edges
from lrga.distributed.launch.process_group import joined
from lrga.tasks import Task
from lrga.tasks.task import LinkTask
from lrga.training import OptimizerConfig, Trainer
from lrga.training.presets import make_config
from lrga.training.problems.architecture import resolve_link
from lrga.training.problems.graphs import GraphProblem, ParallelGraphProblem
from lrga.training.problems.links import LinkProblem, PartitionedLinkProblem
from lrga.training.runs.checkpoint import capture, restore


def graphs(count, level, seed, labels=0):
    generator = torch.Generator().manual_seed(seed)
    data = []
    for number in range(count):
        nodes = int(torch.randint(2, 12, (), generator=generator))
        edge_index = torch.randint(nodes, (2, 3 * nodes), generator=generator)
        x = torch.randn(nodes, 4, generator=generator)
        if level == "node":  # classes of very different size, some absent from a share of a batch
            y = (torch.rand(nodes, generator=generator) < 0.15).long() + (torch.rand(nodes, generator=generator) < 0.1)
        elif labels:  # some graphs, so some shares of a batch, have fewer labels than others
            y = torch.arange(labels).view(1, -1).float() % 2 == number % 2
            y = y.float().masked_fill(torch.rand(1, labels, generator=generator) < 0.3, float("nan"))
        else:
            y = torch.randn(1, generator=generator)
        data.append(Data(x=x, edge_index=edge_index, y=y))
    return PackedGraphs.from_data_list(data, y_level=level)


def compare(conv, rank, level, labels=0, **options):
    """Two epochs of both; batches of 4, 4 and 2 graphs for three ranks, evaluation in batches of 4 and 1."""
    sizes = {"train": 10, "val": 5, "test": 5}
    splits = {name: graphs(size, level, seed, labels) for seed, (name, size) in enumerate(sizes.items(), start=1)}
    if level == "node":
        task = Task(
            level="node",
            kind="classification",
            out_channels=3,
            loss="weighted_cross_entropy",
            metric="weighted_accuracy",
        )
    elif labels:
        task = Task(level="graph", kind="multilabel", out_channels=labels)
    else:
        task = Task(level="graph", kind="regression", out_channels=1)
    config = OptimizerConfig(batch_size=4, max_epochs=2, lr=1e-2, **options)
    trainers = []
    for kind in (ParallelGraphProblem, GraphProblem):
        torch.manual_seed(5)
        model = lrga.GNN(4, 8, task.out_channels, 2, conv=conv, rank=rank, task=level).double()
        trainers.append(Trainer(kind(model, task, splits, config)))
    ours, whole = trainers
    results = {"gradient": 0.0}
    batches = [trainer.problem.epoch_batches(trainer.epoch, trainer.batch) for trainer in trainers]
    for _ in range(3):
        for trainer, shares in zip(trainers, batches, strict=True):
            trainer.model.train()
            trainer.step(next(shares))
        for (name, mine), other in zip(ours.model.named_parameters(), whole.model.parameters(), strict=True):
            assert (mine.grad is None) == (other.grad is None), name
            if mine.grad is not None:
                results["gradient"] = max(results["gradient"], float((mine.grad - other.grad).abs().max()))
    assert [next(shares, None) for shares in batches] == [None, None]
    return results | differences(trainers)


def differences(trainers):
    """Of the last epoch's numbers and of the weights, at the end of training."""
    for trainer in trainers:
        trainer.fit()
    ours, whole = (trainer.last.to_json() for trainer in trainers)
    found = {key: abs(value - ours[key]) for key, value in whole.items() if key not in ("seconds", "elapsed")}
    found["parameters"] = max(
        float((a.double() - b.double()).abs().max())
        for a, b in zip(*(trainer.weights().values() for trainer in trainers), strict=True)
    )
    return found


def compare_links(features, **options):
    """Two epochs of link prediction on a divided graph and on the whole one."""
    edge = torch.randint(40, (150, 2), generator=torch.Generator().manual_seed(3)).numpy()
    data = split_edges(edge[edge[:, 0] != edge[:, 1]], None, seed=1)
    if features:
        generator = torch.Generator().manual_seed(4)
        data = replace(data, x=torch.randn(data.num_nodes, 5, generator=generator, dtype=torch.float64))
    small = {"hidden": 8, "rank": 3, "batch_size": 50, "max_epochs": 2, "device": "cpu", "dropout": 0.0, "lr": 1e-2}
    config = make_config("graph.csv", data_options={"task": "link"}, **(small | options))
    trainers = []
    for kind in (PartitionedLinkProblem, LinkProblem):
        torch.manual_seed(5)
        model = resolve_link(config, data).build().double()
        task = LinkTask(metric="auc", negatives="no_edge")
        trainers.append(Trainer(kind(model, task, data, config.optimizer, config.link, conv=config.model.model)))
    results = differences(trainers)
    parts, state = capture(trainers[0])
    again = Trainer(PartitionedLinkProblem(
        resolve_link(config, data).build().double(), LinkTask(metric="auc", negatives="no_edge"), data,
        config.optimizer, config.link, conv=config.model.model,
    ))  # fmt: skip
    restore(again, parts, state)
    same = [torch.equal(value, again.weights()[name]) for name, value in trainers[0].weights().items()]
    results["restored"] = 0.0 if all(same) else 1.0
    return results


def main():
    torch.set_num_threads(1)
    with joined("cpu"):
        results = {
            "gcn node": compare("gcn", 3, "node"),
            "gatedgcn graph": compare("gatedgcn", 3, "graph", clip_gradient=0.5),
            "gcn labels": compare("gcn", 3, "graph", labels=3),
            "gin plain graph": compare("gin", None, "graph", recalibrate_norm=2),
            "links learned": compare_links(False, clip_gradient=0.5),
            "links features": compare_links(True, model="graphsage"),
            "links plain": compare_links(True, lrga=False, rank=None, validation_edges=True),
        }
        (Path(sys.argv[1]) / f"{dist.get_rank()}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
