"""Strongly regular graphs: equal parameters, not isomorphic, alike to 2-FWL.

In an srg(n, d, λ, μ) every node has d neighbours, adjacent nodes have λ in common and others μ. The colours of pairs
"equal, adjacent, neither" are stable under 2-FWL then, with numbers that follow from the parameters alone.

Seidel switching of a graph about a set of nodes exchanges edges and non-edges between the set and the rest. Graphs that
can be switched into each other form a switching class, or two-graph; its descendant at a node is what remains when the
node has been isolated by switching and deleted.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from lrga.theory.graphs import from_adjacency
from lrga.theory.labelled import Array, LabelledGraph, graph_from_arcs
from lrga.theory.wl.verdicts import verdict_matrix


def rook(size: int = 4) -> LabelledGraph:
    """Squares of a board, adjacent in the same row or column; srg(16, 6, 2, 2) for size 4.

    Example:
        >>> rook()
        LabelledGraph(16 nodes, 48 edges)
    """
    squares = list(itertools.product(range(size), repeat=2))
    return from_adjacency(_adjacency(squares, lambda a, b: (a[0] == b[0]) != (a[1] == b[1])))


def shrikhande() -> LabelledGraph:
    """Z_4 × Z_4 with the differences ±(1, 0), ±(0, 1), ±(1, 1): the other srg(16, 6, 2, 2)."""
    squares = list(itertools.product(range(4), repeat=2))
    steps = {(1, 0), (3, 0), (0, 1), (0, 3), (1, 1), (3, 3)}
    return from_adjacency(_adjacency(squares, lambda a, b: ((a[0] - b[0]) % 4, (a[1] - b[1]) % 4) in steps))


def chang_family() -> list[LabelledGraph]:
    """The four srg(28, 12, 6, 4): the triangular graph T(8), and the three graphs of Chang.

    T(8) has the pairs out of eight points as nodes, adjacent when they share a point. Chang's graphs come from it by
    switching about the edges of a perfect matching, of an octagon, and of a triangle beside a pentagon.
    """
    pairs = list(itertools.combinations(range(8), 2))
    triangular = _adjacency(pairs, lambda a, b: len({*a, *b}) == 3)
    switches = (
        _cycle_edges([0, 1]) | _cycle_edges([2, 3]) | _cycle_edges([4, 5]) | _cycle_edges([6, 7]),
        _cycle_edges(list(range(8))),
        _cycle_edges([0, 1, 2]) | _cycle_edges([3, 4, 5, 6, 7]),
    )
    family = [triangular, *(_switched(triangular, np.array([p in s for p in pairs])) for s in switches)]
    return [from_adjacency(matrix) for matrix in family]


@functools.cache
def paulus_family() -> tuple[LabelledGraph, ...]:
    """All fifteen srg(25, 12, 5, 6), as descendants of the four regular two-graphs on 26 points.

    Two of these come from the Latin squares of order 5 (cells adjacent when they agree in row, column or symbol, and
    an isolated point), two from the Steiner triple systems on 13 points (triples adjacent when they meet). The
    descendants of each at all 26 points are made; an invariant takes fifteen values on them, and there are no more such
    graphs (Paulus 1973).
    """
    two_graphs = [_with_isolated_point(_latin_square_graph(square)) for square in _LATIN_SQUARES]
    two_graphs += [_block_graph(system) for system in (_cyclic_triple_system(), _switched_triple_system())]
    descendants = [_descendant(matrix, node) for matrix in two_graphs for node in range(len(matrix))]
    apart = verdict_matrix([_with_clique_counts(matrix) for matrix in descendants], "1-wl")
    _, first = np.unique(apart, axis=0, return_index=True)
    return tuple(from_adjacency(descendants[i]) for i in np.sort(first))


# One of each main class of order 5: addition modulo 5, and one that contains a Latin square of order 2.
_LATIN_SQUARES = (
    [[(i + j) % 5 for j in range(5)] for i in range(5)],
    [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 3, 4, 0, 1], [3, 4, 1, 2, 0], [4, 2, 0, 1, 3]],
)


def is_strongly_regular(graph: LabelledGraph, degree: int, common: int, uncommon: int) -> bool:
    """Whether A² = d I + λ A + μ (J − I − A).

    Example:
        >>> is_strongly_regular(shrikhande(), 6, 2, 2)
        True
    """
    matrix = graph.adjacency()
    one, rest = np.eye(len(matrix), dtype=np.int64), 1 - matrix - np.eye(len(matrix), dtype=np.int64)
    return np.array_equal(matrix @ matrix, degree * one + common * matrix + uncommon * rest)


T = TypeVar("T")


def _adjacency(nodes: Sequence[T], adjacent: Callable[[T, T], bool]) -> Array:
    return np.array([[int(a != b and adjacent(a, b)) for b in nodes] for a in nodes], dtype=np.int64)


def _cycle_edges(points: list[int]) -> set[tuple[int, int]]:
    """Edges of the polygon through the points, each as an ordered pair; of two points, the edge between them."""
    return {(min(a, b), max(a, b)) for a, b in zip(points, points[1:] + points[:1], strict=True)}


def _switched(matrix: Array, chosen: Array) -> Array:
    """Edges and non-edges exchanged between the chosen nodes and the others."""
    return np.where(chosen[:, None] != chosen[None, :], 1 - matrix, matrix)


def _descendant(matrix: Array, node: int) -> Array:
    isolated = _switched(matrix, matrix[node] == 1)
    return np.delete(np.delete(isolated, node, axis=0), node, axis=1)


def _with_isolated_point(matrix: Array) -> Array:
    return np.pad(matrix, (0, 1))


def _latin_square_graph(square: list[list[int]]) -> Array:
    cells = [(i, j, square[i][j]) for i in range(5) for j in range(5)]
    return _adjacency(cells, lambda a, b: any(x == y for x, y in zip(a, b, strict=True)))


def _block_graph(system: list[frozenset[int]]) -> Array:
    return _adjacency(system, lambda a, b: bool(a & b))


def _cyclic_triple_system() -> list[frozenset[int]]:
    """The triples {0, 1, 4} and {0, 2, 7} moved around Z_13: every pair of points in exactly one of 26 triples."""
    return [frozenset((point + shift) % 13 for point in base) for base in ((0, 1, 4), (0, 2, 7)) for shift in range(13)]


def _switched_triple_system() -> list[frozenset[int]]:
    """The other system on 13 points: one Pasch configuration of the cyclic one exchanged for its opposite.

    Four triples {a,b,c}, {a,d,e}, {f,b,d}, {f,c,e} cover the same pairs as {f,b,c}, {f,d,e}, {a,b,d}, {a,c,e}.
    """
    system = _cyclic_triple_system()
    for four in itertools.combinations(system, 4):
        points = frozenset().union(*four)
        if len(points) == 6 and all(sum(p in block for block in four) == 2 for p in points):
            # Each point has one that it shares no triple of the four with; triples are replaced by complements.
            return [block for block in system if block not in four] + [points - block for block in four]
    raise AssertionError("the cyclic triple system on 13 points has Pasch configurations")


def _with_clique_counts(matrix: Array) -> LabelledGraph:
    """All pairs as edges, labelled by adjacency and by the number of edges among the common neighbours.

    On adjacent pairs this counts the complete graphs on four nodes: more than 2-FWL sees, and enough for 1-WL on these
    labels to tell the family apart.
    """
    common = matrix[:, None, :] * matrix[None, :, :]
    count = np.einsum("ijk,kl,ijl->ij", common, matrix, common, optimize=True)
    source, target = np.nonzero(~np.eye(len(matrix), dtype=bool))
    return graph_from_arcs(source, target, len(matrix), edge_labels=2 * count[source, target] + matrix[source, target])
