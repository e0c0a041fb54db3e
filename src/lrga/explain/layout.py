"""Layout and communities of a drawn graph."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from scipy.spatial import cKDTree

from lrga.errors import optional_module

SPRING_NODES = 600  # up to this size, forces between all pairs of nodes are computed
LOUVAIN_EDGES = 300_000
_ROUNDS = 40
_SPECTRAL_NODES = 10


def positions(edges: NDArray[Any], num_nodes: int, *, seed: int = 0) -> NDArray[np.float32]:
    """[N, 2]: a position in [-1, 1]² for each node; linked nodes are near each other.

    Initial positions come from eigenvectors of the normalised adjacency. Small graphs are refined by networkx's spring
    layout, large ones by a few rounds of forces between near nodes.

    Args:
        edges: [E, 2] node numbers, each edge once.
        num_nodes: N.
        seed: Random seed, so that a graph is always drawn in the same way.

    Example:
        >>> positions(np.array([[0, 1], [1, 2]]), 3).shape
        (3, 2)
    """
    if num_nodes < 2:
        return np.zeros((num_nodes, 2), dtype=np.float32)
    if num_nodes <= SPRING_NODES:
        start = dict(enumerate(_spectral(edges, num_nodes, seed))) if num_nodes >= _SPECTRAL_NODES else None
        placed = _networkx().spring_layout(_graph(edges, num_nodes), pos=start, seed=seed, iterations=80)
        found = np.array([placed[node] for node in range(num_nodes)])
    else:
        found = _spread(_spectral(edges, num_nodes, seed), edges, seed)
        low, high = np.quantile(found, [0.002, 0.998], axis=0)
        margin = 0.06 * (high - low)
        found = np.clip(found, low - margin, high + margin)  # outliers must not shrink the rest
    found = found - (found.max(axis=0) + found.min(axis=0)) / 2
    return (found / max(float(np.abs(found).max()), 1e-12)).astype(np.float32)


def communities(edges: NDArray[Any], num_nodes: int, *, seed: int = 0) -> NDArray[np.int32]:
    """[N]: the community of each node, 0 for the largest: by Louvain's method, or label propagation on huge graphs.

    Example:
        >>> communities(np.array([[0, 1], [1, 2], [0, 2], [3, 4]]), 5).tolist()
        [0, 0, 0, 1, 1]
    """
    graph, find = _graph(edges, num_nodes), _networkx().community
    # Rings and grids have many ties, in which Louvain can move nodes back and forth for minutes: distinct weights
    # avoid ties.
    weights = 1.0 + 0.01 * np.random.default_rng(seed).random(graph.number_of_edges())
    for (_, _, facts), weight in zip(graph.edges(data=True), weights, strict=True):
        facts["weight"] = float(weight)
    if len(edges) <= LOUVAIN_EDGES:
        found = find.louvain_communities(graph, seed=seed)
    else:
        found = find.fast_label_propagation_communities(graph, seed=seed)
    result = np.zeros(num_nodes, dtype=np.int32)
    for number, members in enumerate(sorted(found, key=lambda group: (-len(group), min(group)))):
        result[list(members)] = number
    return result


def _networkx() -> Any:
    return optional_module("networkx", "to draw graphs", "report")


def _graph(edges: NDArray[Any], num_nodes: int) -> Any:
    graph = _networkx().Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((int(a), int(b)) for a, b in edges if a != b)
    return graph


def _adjacency(edges: NDArray[Any], num_nodes: int) -> Any:
    ones = np.ones(len(edges))
    half = sparse.coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(num_nodes, num_nodes))
    return ((half + half.T) > 0).astype(np.float64).tocsr()


def _spectral(edges: NDArray[Any], num_nodes: int, seed: int) -> NDArray[np.float64]:
    """[N, 2]: the two leading eigenvectors after the trivial one, with a little noise so that all positions differ."""
    adjacency = _adjacency(edges, num_nodes)
    parts, _ = connected_components(adjacency, directed=False)
    degree = np.asarray(adjacency.sum(axis=1)).ravel() + 1.0
    scale = sparse.diags_array(degree**-0.5)
    normal = scale @ (adjacency + sparse.eye_array(num_nodes)) @ scale
    random = np.random.default_rng(seed)
    if parts > num_nodes // 4:  # with so few edges, eigenvectors are not informative
        return random.normal(size=(num_nodes, 2))
    if num_nodes <= SPRING_NODES:
        _, vectors = np.linalg.eigh(normal.toarray())
    else:
        start = random.normal(size=num_nodes)
        _, vectors = eigsh(normal, k=3, which="LA", v0=start, tol=1e-3, maxiter=2000, ncv=30)
    found = np.asarray(vectors[:, -3:-1]) / np.sqrt(degree)[:, None]  # in ascending order: the last one is trivial
    return found / max(float(np.abs(found).max()), 1e-12) + random.normal(scale=0.01, size=found.shape)


def _spread(places: NDArray[np.float64], edges: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Pulls linked nodes together and pushes near nodes apart, towards a distance of about 1 between neighbours."""
    count = len(places)
    order = np.argsort(np.argsort(places, axis=0), axis=0) / count - 0.5  # start with an even spread
    mixed = order + 0.5 * places / max(float(np.abs(places).max()), 1e-12)
    now = mixed * np.sqrt(count) + np.random.default_rng(seed).normal(scale=0.05, size=(count, 2))
    adjacency = _adjacency(edges, count)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    mean_of = sparse.diags_array(1.0 / np.maximum(degree, 1.0)) @ adjacency
    for step in range(_ROUNDS):
        pull = np.where(degree[:, None] > 0, mean_of @ now - now, 0.0)
        distance, near = cKDTree(now).query(now, k=min(8, count))
        away = now[:, None, :] - now[near[:, 1:]]
        gap = distance[:, 1:, None]
        push = (away / np.maximum(gap, 1e-3) * np.maximum(1.0 - gap, 0.0)).sum(axis=1)
        now = now + 0.15 * (1 - step / _ROUNDS) * pull + 0.4 * push
    return np.asarray(now)
