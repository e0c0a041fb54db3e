"""Data-parallel training beside one process, in float64: run by three real processes, never collected by pytest."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch_geometric.data import Data

import lrga
from lrga.data import PackedGraphs
from lrga.distributed.launch import joined
from lrga.errors import OptionError
from lrga.tasks import Task
from lrga.training import OptimizerConfig, Trainer
from lrga.training.memory import peak_of_process, plan_memory
from lrga.training.parallel import ParallelTrainer, tell


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
    for kind in (ParallelTrainer, Trainer):
        torch.manual_seed(5)
        model = lrga.GNN(4, 8, task.out_channels, 2, conv=conv, rank=rank, task=level).double()
        trainers.append(kind(model, task, splits, config))
    ours, whole = trainers
    results = {"gradient": 0.0}
    batches = [trainer.rest_of_epoch() for trainer in trainers]
    for _ in range(3):
        for trainer, shares in zip(trainers, batches, strict=True):
            trainer.model.train()
            trainer.step(next(shares))
        for (name, mine), other in zip(ours.model.named_parameters(), whole.model.parameters(), strict=True):
            assert (mine.grad is None) == (other.grad is None), name
            if mine.grad is not None:
                results["gradient"] = max(results["gradient"], float((mine.grad - other.grad).abs().max()))
    assert [next(shares, None) for shares in batches] == [None, None]
    for trainer in trainers:
        trainer.fit()
    ours, whole = (trainer.last.to_json() for trainer in trainers)
    for key, value in whole.items():
        if key not in ("seconds", "elapsed"):
            results[key] = abs(value - ours[key])
    results["parameters"] = max(
        float((a.double() - b.double()).abs().max())
        for a, b in zip(*(trainer.model.state_dict().values() for trainer in trainers), strict=True)
    )
    return results


def memory_plan():
    """Of ranks that hold different amounts of memory, within a limit that suits the first only as it is."""
    splits = {name: graphs(6, "graph", 1) for name in ("train", "val", "test")}
    held = torch.ones(75_000_000 if dist.get_rank() == 1 else 1)  # 300 MB
    model = lrga.GNN(4, 8, 1, 2, conv="gcn", rank=3, task="graph")
    trainer = ParallelTrainer(
        model, Task(level="graph", kind="regression", out_channels=1), splits, OptimizerConfig(batch_size=4)
    )
    limit = tell(peak_of_process(torch.device("cpu"))[1] + 150_000_000)
    try:
        plan = plan_memory(trainer.model, splits, batch_size=4, limit=limit, ranks=dist.get_world_size())
    except OptionError as error:
        return f"refused {error}"
    finally:
        del held
    return str(plan)


def main():
    torch.set_num_threads(1)
    with joined("cpu"):
        results = {
            "gcn node": compare("gcn", 3, "node"),
            "gatedgcn graph": compare("gatedgcn", 3, "graph", clip_gradient=0.5),
            "gcn labels": compare("gcn", 3, "graph", labels=3),
            "gin plain graph": compare("gin", None, "graph", recalibrate_norm=2),
            "memory": memory_plan(),
        }
        (Path(sys.argv[1]) / f"{dist.get_rank()}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
