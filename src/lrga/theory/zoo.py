"""Graphs that colouring tests find hard, built from their definitions, with what is known about them.

Functions return :class:`lrga.theory.LabelledGraph` objects without labels.

In a strongly regular graph srg(n, d, λ, μ) every node has d neighbours, adjacent nodes have λ in common and others μ.
The colours of pairs "equal, adjacent, neither" are stable under 2-FWL then, with numbers that follow from the
parameters alone. Seidel switching of a graph about a set of nodes exchanges edges and non-edges between the set and the
rest. Graphs that can be switched into each other form a switching class, or two-graph; its descendant at a node is what
remains when the node has been isolated by switching and deleted.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lrga.errors import MissingDependencyError, OptionError
from lrga.theory.labelled import Array, LabelledGraph, as_graph, graph_from_arcs
from lrga.theory.wl.verdicts import verdict_matrix


@dataclass(frozen=True, eq=False)
class HardGraphs:
    """Pairwise non-isomorphic graphs on which a test gives the same verdict for every two of them.

    Attributes:
        name: Short name.
        graphs: Two or more graphs.
        verdicts: Test → whether it tells any two of them apart.
        reference: Where the graphs and the verdicts come from.
    """

    name: str
    graphs: tuple[LabelledGraph, ...]
    verdicts: Mapping[str, bool]
    reference: str


_SEEN_BY_2FWL = {"1-wl": False, "2-wl": False, "2-fwl": True}
_UNSEEN_BY_2FWL = {"1-wl": False, "2-wl": False, "2-fwl": False}


def zoo() -> dict[str, HardGraphs]:
    """All entries by name.

    Example:
        >>> entry = zoo()["rook-shrikhande"]
        >>> entry.verdicts["1-wl"], entry.verdicts["2-fwl"], entry.verdicts["3-fwl"]
        (False, False, True)
    """
    entries = (
        HardGraphs(
            "hexagon-triangles",
            (cycle(6), two_triangles()),
            _SEEN_BY_2FWL,
            "folklore; two regular graphs of one degree look alike to 1-WL (Cai, Fürer, Immerman 1992, section 1); "
            "2-FWL counts triangles",
        ),
        HardGraphs(
            "decalin-bicyclopentyl",
            (decalin(), bicyclopentyl()),
            _SEEN_BY_2FWL,
            "Sato, A Survey on the Expressive Power of Graph Neural Networks, arXiv:2003.04078 (2020)",
        ),
        HardGraphs(
            "circular-skip-links",
            tuple(circular_skip_links()),
            _SEEN_BY_2FWL,
            "Murphy, Srinivasan, Rao, Ribeiro, Relational Pooling for Graph Representations, ICML 2019; "
            "on 41 nodes, ten skips",
        ),
        HardGraphs(
            "rook-shrikhande",
            (rook(), shrikhande()),
            {**_UNSEEN_BY_2FWL, "3-fwl": True},
            "Shrikhande, The uniqueness of the L2 association scheme, Ann. Math. Stat. 30 (1959): srg(16, 6, 2, 2)",
        ),
        HardGraphs(
            "paulus",
            paulus_family(),
            _UNSEEN_BY_2FWL,
            "Paulus, Conference matrices and graphs of order 26, report WSK 73/06, Eindhoven (1973): "
            "all fifteen srg(25, 12, 5, 6)",
        ),
        HardGraphs(
            "chang",
            tuple(chang_family()),
            {**_UNSEEN_BY_2FWL, "3-fwl": True},
            "Chang, Association schemes of partially balanced designs with parameters v = 28, n1 = 12, n2 = 15 and "
            "p211 = 4, Science Record 4 (1960): all four srg(28, 12, 6, 4)",
        ),
        *(_cai_fuerer_immerman(k) for k in (1, 2, 3)),
    )
    return {entry.name: entry for entry in entries}


def _cai_fuerer_immerman(k: int) -> HardGraphs:
    """Over K_{k+2}: k-FWL fails (1-FWL is 1-WL), (k+1)-FWL does not."""
    pair = tuple(cai_fuerer_immerman(k + 2, twisted=twisted) for twisted in (False, True))
    return HardGraphs(
        f"cai-fuerer-immerman-{k}",
        pair,
        {"1-wl": False, "2-wl": False, "2-fwl": k < 2, "3-fwl": k < 3},
        "Cai, Fürer, Immerman, An optimal lower bound on the number of variables for graph identification, "
        f"Combinatorica 12 (1992), over K_{k + 2}, whose treewidth {k + 1} decides (Dawar, Richerby 2007)",
    )


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


_LARGEST = 7


@functools.cache
def connected_graphs(num_nodes: int) -> tuple[LabelledGraph, ...]:
    """Every connected graph of so many nodes (1 to 7) once: 1, 1, 2, 6, 21, 112, 853 of them.

    Example:
        >>> len(connected_graphs(5))
        21
    """
    if not 1 <= num_nodes <= _LARGEST:
        raise OptionError(f"1 to {_LARGEST} nodes", str(num_nodes), "the atlas goes no further")
    try:
        import networkx
    except ImportError as error:
        raise MissingDependencyError(
            "networkx, for the atlas of small graphs", "no such package", "pip install 'lrga[graphs]'"
        ) from error
    graphs = (g for g in networkx.graph_atlas_g() if len(g) == num_nodes)
    return tuple(as_graph(g) for g in graphs if networkx.is_connected(g))


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
