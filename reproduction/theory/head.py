"""One head of the 2-FWL update, learned with and without LRGA at equal parameters (theorem 1).

Every node of a random graph has features x_i that factorise the tensor Y_ij = ⟨x_i, x_j⟩; the target at
node i is a row sum of one head,

    t_i = (Y^β Y^γ 1)_i / n² = (1/n²) Σ_k ⟨x_i, x_k⟩^β Σ_j ⟨x_k, x_j⟩^γ,

By theorem 1, LRGA computes it with polynomial feature maps. Here the maps are learned, not constructed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from lrga.data.packed.graphs import PackedGraphs
from lrga.models.gnn import GNN
from lrga.tasks.task import Task
from lrga.theory.factorization import head_of
from lrga.theory.trained import HEAD_NETWORKS
from lrga.theory.zoo import random_graph
from lrga.training.config import OptimizerConfig
from lrga.training.evaluate import evaluate
from lrga.training.problems.graphs import GraphProblem
from lrga.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """Graphs of n nodes with D normal features each; training sets of growing size, trained for equal steps."""

    seeds: tuple[int, ...] = (0, 1)
    sizes: tuple[int, ...] = (32, 128, 512)
    test_graphs: int = 256
    nodes: int = 16
    density: float = 0.3
    channels: int = 3
    beta: int = 2
    gamma: int = 1
    hidden_channels: int = 32
    num_layers: int = 3
    rank: int = 16
    conv: str = "gcn"
    steps: int = 400
    batch_size: int = 32
    lr: float = 3e-3


def head_graphs(config: HeadConfig, count: int, seed: int) -> PackedGraphs:
    """Random graphs with features and targets."""
    generator = torch.Generator().manual_seed(seed)
    data = []
    for number in range(count):
        x = torch.randn(config.nodes, config.channels, generator=generator, dtype=torch.float64)
        x /= config.channels**0.5
        target = head_of((x @ x.T).unsqueeze(-1), (config.beta,), (config.gamma,)).sum(dim=1) / config.nodes**2
        graph = random_graph(config.nodes, config.density, seed * 100_003 + number)
        edges = torch.from_numpy(np.stack([graph.source, graph.target]))
        data.append(Data(x=x.float(), edge_index=edges, y=target.float().unsqueeze(1)))
    return PackedGraphs.from_data_list(data, y_level="node")


def head_network(name: str, config: HeadConfig) -> GNN:
    """One of :data:`HEAD_NETWORKS`; the plain one is wider, to have as many parameters."""

    def make(hidden: int, rank: int | None) -> GNN:
        return GNN(config.channels, hidden, 1, config.num_layers, conv=config.conv, rank=rank, task="node")

    augmented = make(config.hidden_channels, config.rank)
    if name == "GNN + LRGA":
        return augmented
    hidden = config.hidden_channels
    while make(hidden + 1, None).num_parameters <= augmented.num_parameters:
        hidden += 1
    return make(hidden, None)


def learn_head(config: HeadConfig, say: Callable[[str], None]) -> dict[str, Any]:
    """Root mean square test errors, relative to the standard deviation of the target, over the training graphs."""
    curves: dict[str, list[list[float]]] = {name: [] for name in HEAD_NETWORKS}
    parameters = {name: head_network(name, config).num_parameters for name in HEAD_NETWORKS}
    for seed in config.seeds:
        train = head_graphs(config, max(config.sizes), 2 * seed + 1)
        test = head_graphs(config, config.test_graphs, 2 * seed + 2)
        for name in HEAD_NETWORKS:
            say(f"one head of 2-FWL, seed {seed}: {name}")
            curves[name].append([_error(config, train[:size], test, name, seed) for size in config.sizes])
    return {"x": list(config.sizes), "curves": curves, "parameters": parameters}


def _error(config: HeadConfig, train: PackedGraphs, test: PackedGraphs, name: str, seed: int) -> float:
    torch.manual_seed(seed)
    network = head_network(name, config)
    epochs = max(1, config.steps // math.ceil(len(train) / config.batch_size))
    options = OptimizerConfig(
        lr=config.lr, max_epochs=epochs, patience=epochs, batch_size=config.batch_size, eval_batch_size=len(test)
    )
    task = Task(level="node", kind="regression", out_channels=1, loss="mse")
    one = test[:1]  # evaluated after every epoch; the result is not used
    Trainer(GraphProblem(network, task, {"train": train, "val": one, "test": one}, options, seed=seed)).fit()
    loss, _ = evaluate(network, test, task, batch_size=len(test))
    assert test.y is not None
    return float((loss / test.y.var()).sqrt())
