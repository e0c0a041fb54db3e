"""Graphs that colouring tests find hard, built from their definitions.

Each function returns :class:`lrga.theory.LabelledGraph` objects without labels. The strongly regular ones are in
:mod:`lrga.theory.strongly_regular`, and what is known about all of them in :mod:`lrga.theory.zoo`.
"""

import itertools
from collections.abc import Iterable

import numpy as np

from lrga.errors import OptionError
from lrga.theory.labelled import Array, LabelledGraph, graph_from_arcs

# The ten skips of Murphy et al. (2019): all pairwise non-isomorphic circular skip links on 41 nodes that they use.
CSL_NODES = 41
CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


def undirected(edges: Iterable[tuple[int, int]], num_nodes: int | None = None) -> LabelledGraph:
    """The graph with these edges.

    Example:
        >>> undirected([(0, 1), (1, 2)])
        LabelledGraph(3 nodes, 2 edges)
    """
    pairs = np.asarray(list(edges), dtype=np.int64).reshape(-1, 2)
    return graph_from_arcs(pairs[:, 0], pairs[:, 1], num_nodes, both_ways=True)


def from_adjacency(matrix: Array) -> LabelledGraph:
    """The undirected graph of a symmetric matrix of 0 and 1."""
    source, target = np.nonzero(np.asarray(matrix))
    return graph_from_arcs(source.astype(np.int64), target.astype(np.int64), len(matrix))


def cycle(length: int) -> LabelledGraph:
    """The cycle of so many nodes."""
    return undirected(((i, (i + 1) % length) for i in range(length)), length)


def two_triangles() -> LabelledGraph:
    """Two triangles side by side: beside the hexagon, the smallest pair that 1-WL cannot tell apart."""
    return undirected([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])


def decalin() -> LabelledGraph:
    """The carbon skeleton of decalin: two hexagons that share an edge."""
    return undirected([*((i, (i + 1) % 10) for i in range(10)), (0, 5)])


def bicyclopentyl() -> LabelledGraph:
    """The carbon skeleton of bicyclopentyl: two pentagons joined by an edge."""
    rings = [(first + i, first + (i + 1) % 5) for first in (0, 5) for i in range(5)]
    return undirected([*rings, (0, 5)])


def circular_skip_link(skip: int, num_nodes: int = CSL_NODES) -> LabelledGraph:
    """The cycle of ``num_nodes`` with a chord from every node to the one ``skip`` further: 4-regular.

    Example:
        >>> circular_skip_link(2)
        LabelledGraph(41 nodes, 82 edges)
    """
    if not 2 <= skip <= num_nodes - 2 or 2 * skip == num_nodes:
        raise OptionError(
            f"a skip from 2 to {num_nodes - 2}, not half of {num_nodes}", str(skip), "else the graph is not 4-regular"
        )
    return undirected(((i, (i + step) % num_nodes) for i in range(num_nodes) for step in (1, skip)), num_nodes)


def circular_skip_links() -> list[LabelledGraph]:
    """All ten classes of the CSL benchmark."""
    return [circular_skip_link(skip) for skip in CSL_SKIPS]


def cai_fuerer_immerman(base_nodes: int, *, twisted: bool) -> LabelledGraph:
    """The Cai–Fürer–Immerman graph over the complete graph K_m, straight or with one edge twisted.

    Over each node v of the base stand the even subsets of the edges at v; subsets S at u and T at v are adjacent when
    the edge uv lies in both or in neither, and for the twisted edge (01) in exactly one. m · 2^(m-2) nodes, none
    labelled (this is the compact form of the construction, without extra nodes for the edges).

    Over K_{k+2} the straight and the twisted graph are not isomorphic, k-FWL does not tell them apart, (k+1)-FWL does.

    Example:
        >>> cai_fuerer_immerman(4, twisted=True)
        LabelledGraph(16 nodes, 48 edges)
    """
    if base_nodes < 3:
        raise OptionError("a base of 3 nodes or more", str(base_nodes), "the first pair is over K_3")
    nodes = [
        (v, frozenset(subset))
        for v in range(base_nodes)
        for size in range(0, base_nodes, 2)
        for subset in itertools.combinations([u for u in range(base_nodes) if u != v], size)
    ]  # an edge at v is named by its other end
    index = {node: i for i, node in enumerate(nodes)}
    edges = []
    for (u, at_u), (v, at_v) in itertools.combinations(nodes, 2):
        twist = twisted and (u, v) == (0, 1)
        if u != v and ((v in at_u) == (u in at_v)) != twist:
            edges.append((index[u, at_u], index[v, at_v]))
    return undirected(edges, len(nodes))


def random_graph(num_nodes: int, density: float, seed: int) -> LabelledGraph:
    """A random graph in which every edge is there with the same chance.

    Example:
        >>> random_graph(10, 1.0, seed=0)
        LabelledGraph(10 nodes, 45 edges)
    """
    upper = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, k=1)
    return from_adjacency(upper | upper.T)
