"""Proposition 1 as an experiment: DeepSets on [R, AR], trained to count triangles, against constructed weights.

The proposition states that such weights exist; :class:`lrga.theory.TriangleDeepSets` has them. Whether gradient
descent finds good weights is measured here.

Letters: G graphs of n nodes, d random features.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.nn.heads import MLP
from lrga.nn.random_features import rademacher
from lrga.theory.labelled import Array


@dataclass(frozen=True, kw_only=True)
class TriangleConfig:
    """Random features are sampled again at every step and for the test.

    ``families``: "random" has edge probabilities from ``density``, so the number of edges alone is informative;
    "regular" starts as disjoint complete graphs of ``clique`` nodes; up to ``switches`` times two edges ab, cd are
    replaced by ad, cb, so all degrees stay equal and only the triangles differ.
    """

    seeds: tuple[int, ...] = (0, 1)
    families: tuple[str, ...] = ("random", "regular")
    channels: tuple[int, ...] = (4, 16, 64)
    density: tuple[float, float] = (0.2, 0.8)
    clique: int = 5
    cliques: int = 3
    switches: int = 20
    train_graphs: int = 1000
    test_graphs: int = 500
    width: int = 64
    steps: int = 600
    batch_size: int = 100
    lr: float = 2e-3


class SetNetwork(nn.Module):
    """DeepSets, ρ(Σ_i φ(h_i)): ``[G, n, C]`` to ``[G]``; the sum is divided by n, which is fixed here."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.inner, self.outer = MLP([channels, width, width]), MLP([width, width, 1])

    def forward(self, h: Tensor) -> Tensor:
        return self.outer(self.inner(h).mean(dim=1)).squeeze(1)


def learn_triangles(config: TriangleConfig, say: Callable[[str], None]) -> dict[str, Any]:
    """Root mean square test errors relative to the standard deviation of the count, over d."""
    curves: dict[str, list[list[float]]] = {}
    for family in config.families:
        for seed in config.seeds:
            torch.manual_seed(seed)
            generator = np.random.default_rng(seed)
            train, test = (FAMILIES[family](config, n, generator) for n in (config.train_graphs, config.test_graphs))
            built, trained = [], []
            for d in config.channels:
                say(f"triangles of {family} graphs, seed {seed}, d = {d}")
                built.append(constructed_error(test, d))
                trained.append(_trained_error(config, train, test, d))
            blind = _trained_error(config, train, test, 0)
            curves.setdefault(f"{family}: constructed", []).append(built)
            curves.setdefault(f"{family}: trained", []).append(trained)
            curves.setdefault(f"{family}: trained on degrees", []).append([blind] * len(config.channels))
    return {"x": list(config.channels), "curves": curves}


def constructed_error(test: Tensor, channels: int) -> float:
    """The output of :class:`lrga.theory.TriangleDeepSets`, tr((RᵀAR)³)/6, for all graphs at once."""
    random, propagated = node_features(test, channels).chunk(2, dim=2)
    inner = propagated.transpose(1, 2) @ random
    return _error((inner @ inner @ inner).diagonal(dim1=1, dim2=2).sum(dim=1) / 6, triangles(test))


def _error(guess: Tensor, target: Tensor) -> float:
    return float((guess - target).square().mean().sqrt() / target.std())


def _trained_error(config: TriangleConfig, train: Tensor, test: Tensor, channels: int) -> float:
    y = triangles(train)
    mean, scale = y.mean(), y.std()
    network = SetNetwork(2 * channels or 2, config.width)
    optimizer = torch.optim.Adam(network.parameters(), lr=config.lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.steps)
    for _ in range(config.steps):
        rows = torch.randint(len(train), (config.batch_size,))
        loss = F.mse_loss(network(node_features(train[rows], channels)), (y[rows] - mean) / scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return _error(network(node_features(test, channels)) * scale + mean, triangles(test))


def node_features(adjacency: Tensor, channels: int) -> Tensor:
    """[R, AR] of graphs ``[G, n, n]``, or [1, A1] for ``channels=0``: ``[G, n, 2d]``."""
    graphs, nodes, _ = adjacency.shape
    if channels:
        drawn = rademacher(graphs * nodes, channels).view(graphs, nodes, channels)
    else:
        drawn = torch.ones(graphs, nodes, 1)
    return torch.cat([drawn, adjacency @ drawn], dim=2)


def triangles(adjacency: Tensor) -> Tensor:
    """tr(A³)/6 of graphs ``[G, n, n]``."""
    return (adjacency @ adjacency * adjacency).sum(dim=(1, 2)) / 6


def random_graphs(config: TriangleConfig, count: int, generator: np.random.Generator) -> Tensor:
    """Adjacency matrices ``[G, n, n]``, each graph with its own edge probability."""
    nodes = config.clique * config.cliques
    density = generator.uniform(*config.density, size=(count, 1, 1))
    upper = np.triu(generator.random((count, nodes, nodes)) < density, 1)
    return torch.from_numpy(upper | upper.transpose(0, 2, 1)).float()


def regular_graphs(config: TriangleConfig, count: int, generator: np.random.Generator) -> Tensor:
    """Adjacency matrices ``[G, n, n]`` of graphs of degree ``clique - 1``."""
    start = np.kron(np.eye(config.cliques, dtype=bool), ~np.eye(config.clique, dtype=bool))
    graphs = [_switched(start, int(generator.integers(config.switches + 1)), generator) for _ in range(count)]
    return torch.from_numpy(np.stack(graphs)).float()


FAMILIES: dict[str, Callable[[TriangleConfig, int, np.random.Generator], Tensor]] = {
    "random": random_graphs,
    "regular": regular_graphs,
}


def _switched(matrix: Array, switches: int, generator: np.random.Generator) -> Array:
    matrix = matrix.copy()
    for _ in range(switches):
        edges = np.argwhere(matrix)
        (a, b), (c, d) = edges[generator.integers(len(edges), size=2)]
        if len({a, b, c, d}) == 4 and not matrix[a, d] and not matrix[c, b]:
            for i, j, value in ((a, b, False), (c, d, False), (a, d, True), (c, b, True)):
                matrix[i, j] = matrix[j, i] = value
    return matrix
