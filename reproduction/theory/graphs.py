"""Graphs that 1-WL cannot distinguish, classified by a GNN, an RGNN and an RGNN with LRGA.

To 1-WL, and so to every message-passing network without random features, the graphs of a set are equal: a GNN gives
all of them the same output, for any weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from lrga.data.packed.graphs import PackedGraphs
from lrga.models.gnn import GNN
from lrga.tasks.task import Task
from lrga.theory.labelled import LabelledGraph
from lrga.theory.trained import CLASS_NETWORKS, CSL
from lrga.theory.zoo import zoo
from lrga.training.callbacks.base import Callback, EpochRecord
from lrga.training.config import OptimizerConfig
from lrga.training.evaluate import evaluate
from lrga.training.problems.graphs import GraphProblem
from lrga.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class ClassesConfig:
    """Entries of the zoo, each a task of its own: classify copies of its graphs with nodes in random order."""

    seeds: tuple[int, ...] = (0,)
    entries: tuple[str, ...] = (CSL,)
    copies: tuple[int, int] = (40, 20)
    hidden_channels: int = 48
    num_layers: int = 4
    rank: int = 16
    conv: str = "gcn"
    epochs: int = 60
    every: int = 10
    batch_size: int = 40
    lr: float = 2e-3


def pairs_config() -> ClassesConfig:
    """Three pairs of the zoo: two that 2-FWL distinguishes, one that it does not."""
    entries = ("hexagon-triangles", "decalin-bicyclopentyl", "rook-shrikhande")
    # Rings of five (bicyclopentyl) need depth: with three layers and 50 epochs no network learned that pair.
    return ClassesConfig(
        entries=entries, copies=(100, 100), epochs=100, every=20, num_layers=5, hidden_channels=64, lr=1e-3
    )


def network_of(name: str, config: ClassesConfig, classes: int) -> GNN:
    """One of :data:`CLASS_NETWORKS`; those without LRGA are wider, to have as many parameters."""

    def make(hidden: int, rank: int | None) -> GNN:
        return GNN(
            1, hidden, classes, config.num_layers, conv=config.conv, rank=rank, task="graph", readout="mean",
            random_features=name != "GNN",
        )  # fmt: skip

    if name == "RGNN + LRGA":
        return make(config.hidden_channels, config.rank)
    budget = make(config.hidden_channels, config.rank).num_parameters
    hidden = config.hidden_channels
    while make(hidden + 1, None).num_parameters <= budget:
        hidden += 1
    return make(hidden, None)


def copies_of(graphs: Sequence[LabelledGraph], count: int, generator: np.random.Generator) -> PackedGraphs:
    """Copies of each graph with nodes in random order, labelled by the graph; all features are 1."""
    data = []
    for label, graph in enumerate(graphs):
        for _ in range(count):
            copy = graph.permuted(generator.permutation(graph.num_nodes).tolist())
            edges = torch.from_numpy(np.stack([copy.source, copy.target]))
            data.append(Data(x=torch.ones(graph.num_nodes, 1), edge_index=edges, y=torch.tensor([label])))
    return PackedGraphs.from_data_list(data, y_level="graph")


def learn_classes(config: ClassesConfig, say: Callable[[str], None]) -> dict[str, Any]:
    """Accuracies in percent over the epochs on training and test graphs, and parameters of the networks."""
    epochs = list(range(config.every, config.epochs + 1, config.every))
    curves: dict[str, list[list[float]]] = {}
    parameters: dict[str, int] = {}
    known = zoo()
    for entry in config.entries:
        for name in CLASS_NETWORKS:
            say(f"{entry}: {name}")
            for seed in config.seeds:
                network, (train, test) = _learn(config, known[entry].graphs, name, seed)
                parameters[name] = max(network.num_parameters, parameters.get(name, 0))
                curves.setdefault(f"{entry}: {name}, train", []).append(train)
                curves.setdefault(f"{entry}: {name}, test", []).append(test)
    chance = {entry: 100 / len(known[entry].graphs) for entry in config.entries}
    return {"x": epochs, "curves": curves, "parameters": parameters, "chance": chance}


class _Accuracies(Callback):
    """Measures train and test accuracy every few epochs, both with the current weights."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.trainer: Trainer | None = None
        self.train: list[float] = []
        self.test: list[float] = []

    def on_epoch_end(self, record: EpochRecord) -> None:
        if record.epoch % self.every or self.trainer is None:
            return
        self.test.append(record.test_metric)
        problem: Any = self.trainer.problem
        _, metric = evaluate(problem.model, problem.splits["train"], problem.task, batch_size=problem.eval_size)
        self.train.append(metric)


def _learn(
    config: ClassesConfig, graphs: Sequence[LabelledGraph], name: str, seed: int
) -> tuple[GNN, tuple[list[float], list[float]]]:
    generator = np.random.default_rng(seed)
    train, test = (copies_of(graphs, count, generator) for count in config.copies)
    torch.manual_seed(seed)
    network = network_of(name, config, len(graphs))
    # The learning rate is constant and nothing is selected by validation, so the test graphs take its place safely.
    options = OptimizerConfig(
        lr=config.lr, max_epochs=config.epochs, patience=config.epochs, batch_size=config.batch_size,
        eval_batch_size=200,
    )  # fmt: skip
    accuracies = _Accuracies(config.every)
    splits = {"train": train, "val": test[:1], "test": test}
    task = Task(level="graph", kind="classification", out_channels=len(graphs))
    trainer = Trainer(GraphProblem(network, task, splits, options, seed=seed), callbacks=[accuracies])
    accuracies.trainer = trainer
    trainer.fit()
    return network, (accuracies.train, accuracies.test)
