"""Graphs that are hard for colouring tests, built from their definitions, with the known verdicts.

Functions return :class:`lrga.theory.LabelledGraph` objects without labels.

In a strongly regular graph srg(n, d, λ, μ) every node has d neighbours, adjacent nodes have λ in common and others μ.
The pair colours "equal, adjacent, neither" are then stable under 2-FWL, and their counts follow from the
parameters. Seidel switching of a graph with respect to a set of nodes exchanges edges and non-edges between the set and
the other nodes. Graphs that can be switched into each other form a two-graph. Its descendant at a node is the graph
that remains if the node is isolated by switching and then deleted.
"""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lrga.errors import OptionError, optional_module
from lrga.theory.labelled import Array, LabelledGraph, as_graph, graph_from_arcs


@dataclass(frozen=True, eq=False)
class HardGraphs:
    """Pairwise non-isomorphic graphs; a test has the same verdict for every pair of them.

    Attributes:
        name: Short name.
        graphs: Two or more graphs.
        verdicts: Test → whether it distinguishes any two of them.
        reference: Where the graphs and the verdicts come from.
    """

    name: str
    graphs: tuple[LabelledGraph, ...]
    verdicts: Mapping[str, bool]
    reference: str


_SEEN_BY_2FWL = {"1-wl": False, "2-wl": False, "2-fwl": True}
_UNSEEN_BY_2FWL = {"1-wl": False, "2-wl": False, "2-fwl": False}


def zoo() -> dict[str, HardGraphs]:
    """The families of hard graphs, by name.

    Example:
        >>> entry = zoo()["rook-shrikhande"]
        >>> entry.verdicts["1-wl"], entry.verdicts["2-fwl"]
        (False, False)
    """
    entries = (
        HardGraphs(
            "hexagon-triangles",
            (cycle(6), two_triangles()),
            _SEEN_BY_2FWL,
            "folklore; regular graphs of the same degree are equal to 1-WL (Cai, Fürer, Immerman 1992, section 1); "
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
            circular_skip_links(),
            _SEEN_BY_2FWL,
            "Murphy, Srinivasan, Rao, Ribeiro, Relational Pooling for Graph Representations, ICML 2019; "
            "on 41 nodes, ten skips",
        ),
        HardGraphs(
            "rook-shrikhande",
            (rook(), shrikhande()),
            _UNSEEN_BY_2FWL,
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
            _UNSEEN_BY_2FWL,
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
        _SEEN_BY_2FWL if k < 2 else _UNSEEN_BY_2FWL,
        "Cai, Fürer, Immerman, An optimal lower bound on the number of variables for graph identification, "
        f"Combinatorica 12 (1992), over K_{k + 2}, whose treewidth {k + 1} decides (Dawar, Richerby 2007)",
    )


# The ten skips of Murphy et al. (2019) for circular skip links on 41 nodes, pairwise non-isomorphic.
CSL_NODES = 41
CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


def from_adjacency(matrix: Array) -> LabelledGraph:
    """The undirected graph of a symmetric matrix of 0 and 1."""
    source, target = np.nonzero(np.asarray(matrix))
    return graph_from_arcs(source.astype(np.int64), target.astype(np.int64), len(matrix))


def cycle(length: int) -> LabelledGraph:
    """The cycle with ``length`` nodes."""
    return as_graph([(i, (i + 1) % length) for i in range(length)], num_nodes=length)


def two_triangles() -> LabelledGraph:
    """Two disjoint triangles: with the hexagon, the smallest pair that 1-WL cannot distinguish."""
    return as_graph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])


def decalin() -> LabelledGraph:
    """The carbon skeleton of decalin: two hexagons that share an edge."""
    return as_graph([*((i, (i + 1) % 10) for i in range(10)), (0, 5)])


def bicyclopentyl() -> LabelledGraph:
    """The carbon skeleton of bicyclopentyl: two pentagons joined by an edge."""
    rings = [(first + i, first + (i + 1) % 5) for first in (0, 5) for i in range(5)]
    return as_graph([*rings, (0, 5)])


def circular_skip_link(skip: int, num_nodes: int = CSL_NODES) -> LabelledGraph:
    """The cycle of ``num_nodes`` with a chord from every node to the node ``skip`` positions further: 4-regular.

    Example:
        >>> circular_skip_link(2)
        LabelledGraph(41 nodes, 82 edges)
    """
    if not 2 <= skip <= num_nodes - 2 or 2 * skip == num_nodes:
        expected = f"a skip from 2 to {num_nodes - 2}, not half of {num_nodes}"
        raise OptionError(expected, str(skip), "choose another skip; the graph must be 4-regular")
    return as_graph([(i, (i + step) % num_nodes) for i in range(num_nodes) for step in (1, skip)], num_nodes=num_nodes)


def circular_skip_links() -> tuple[LabelledGraph, ...]:
    """All ten classes of the CSL benchmark."""
    return tuple(circular_skip_link(skip) for skip in CSL_SKIPS)


def cai_fuerer_immerman(base_nodes: int, *, twisted: bool) -> LabelledGraph:
    """The Cai–Fürer–Immerman graph over the complete graph K_m, straight or with one edge twisted.

    The nodes are the even subsets of the edges at each node v of the base graph. Subsets S at u and T at v are adjacent
    if the edge uv is in both or in neither; for the twisted edge (01), if it is in exactly one. The graph has
    m · 2^(m-2) unlabelled nodes (the compact form of the construction, without extra nodes for the edges).

    Over K_{k+2} the straight and the twisted graph are not isomorphic; (k+1)-FWL distinguishes them, k-FWL does not.

    Example:
        >>> cai_fuerer_immerman(4, twisted=True)
        LabelledGraph(16 nodes, 48 edges)
    """
    if base_nodes < 3:
        raise OptionError("a base of 3 nodes or more", str(base_nodes), "use 3 or more")
    nodes = [
        (v, frozenset(subset))
        for v in range(base_nodes)
        for size in range(0, base_nodes, 2)
        for subset in itertools.combinations([u for u in range(base_nodes) if u != v], size)
    ]  # an edge at v is identified by its other end
    index = {node: i for i, node in enumerate(nodes)}
    edges = []
    for (u, at_u), (v, at_v) in itertools.combinations(nodes, 2):
        twist = twisted and (u, v) == (0, 1)
        if u != v and ((v in at_u) == (u in at_v)) != twist:
            edges.append((index[u, at_u], index[v, at_v]))
    return as_graph(edges, num_nodes=len(nodes))


def random_graph(num_nodes: int, density: float, seed: int) -> LabelledGraph:
    """A random graph in which every edge exists with the same probability.

    Example:
        >>> random_graph(10, 1.0, seed=0)
        LabelledGraph(10 nodes, 45 edges)
    """
    upper = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, k=1)
    return from_adjacency(upper | upper.T)


_MAX_NODES = 7


@functools.cache
def connected_graphs(num_nodes: int) -> tuple[LabelledGraph, ...]:
    """All connected graphs with ``num_nodes`` nodes (1 to 7), up to isomorphism: 1, 1, 2, 6, 21, 112, 853 graphs.

    Example:
        >>> len(connected_graphs(5))
        21
    """
    if not 1 <= num_nodes <= _MAX_NODES:
        raise OptionError(f"1 to {_MAX_NODES} nodes", str(num_nodes), "use fewer nodes; the atlas has no larger graphs")
    networkx = optional_module("networkx", "for the atlas of small graphs", "graphs")
    graphs = (g for g in networkx.graph_atlas_g() if len(g) == num_nodes)
    return tuple(as_graph(g) for g in graphs if networkx.is_connected(g))


def rook(size: int = 4) -> LabelledGraph:
    """Squares of a board, adjacent in the same row or column; srg(16, 6, 2, 2) for size 4.

    Example:
        >>> rook()
        LabelledGraph(16 nodes, 48 edges)
    """
    squares = list(itertools.product(range(size), range(size)))
    return from_adjacency(_adjacency(squares, lambda a, b: (a[0] == b[0]) != (a[1] == b[1])))


def shrikhande() -> LabelledGraph:
    """Z_4 × Z_4 with the differences ±(1, 0), ±(0, 1), ±(1, 1): the other srg(16, 6, 2, 2)."""
    squares = list(itertools.product(range(4), range(4)))
    steps = {(1, 0), (3, 0), (0, 1), (0, 3), (1, 1), (3, 3)}
    return from_adjacency(_adjacency(squares, lambda a, b: ((a[0] - b[0]) % 4, (a[1] - b[1]) % 4) in steps))


def chang_family() -> list[LabelledGraph]:
    """The four srg(28, 12, 6, 4): the triangular graph T(8), and the three graphs of Chang.

    The nodes of T(8) are the pairs of eight points; two pairs are adjacent if they share a point. Chang's graphs result
    from switching with respect to the edges of a perfect matching, of an octagon, and of a triangle and a pentagon.
    """
    pairs = list(itertools.combinations(range(8), 2))
    triangular = _adjacency(pairs, lambda a, b: len({*a, *b}) == 3)
    switches = (
        _cycle_edges([0, 1]) | _cycle_edges([2, 3]) | _cycle_edges([4, 5]) | _cycle_edges([6, 7]),
        _cycle_edges(list(range(8))),
        _cycle_edges([0, 1, 2]) | _cycle_edges([3, 4, 5, 6, 7]),
    )
    family = [triangular]
    for switch in switches:
        chosen = np.array([pair in switch for pair in pairs])
        family.append(np.where(chosen[:, None] != chosen[None, :], 1 - triangular, triangular))
    return [from_adjacency(matrix) for matrix in family]


def paulus_family() -> tuple[LabelledGraph, ...]:
    """All fifteen srg(25, 12, 5, 6), from a stored list; parameters and non-isomorphism are easy to verify.

    They are the descendants of the four regular two-graphs on 26 points: two come from the Latin squares of order 5,
    two from the Steiner triple systems on 13 points. There are no more such graphs (Paulus 1973).
    """
    upper = np.triu_indices(25, k=1)
    graphs = []
    for row in _PAULUS:
        matrix = np.zeros((25, 25), dtype=np.int64)
        matrix[upper] = [int(bit) for bit in f"{int(row, 16):0300b}"]
        graphs.append(from_adjacency(matrix + matrix.T))
    return tuple(graphs)


# The entries above the diagonal of each adjacency matrix, row after row, as hexadecimal digits.
_PAULUS = (
    "f62057c5970741f24b502b47999f2bb25e074a794739d2d575913860d6efd25ac017f9b4474",
    "ff2083c5941f09f889107d639acc1ce7fe2c5a6cc1cba2e4f53d3d00d6e970eb98a478ea58c",
    "e2ca0fc42ae7e0570e5d0168b2f179e0276da933cd6b545aefc5153e5506f4f468ab6691a4c",
    "88e6b310739fd165e67668b29d1b9041e2fa3407ffa091cd799b58317a1cea72d417e171692",
    "fc4a34f84b15968664ca90c654c7e34975259b285995288d3f2c7c2765233147f1f8cd517ff",
    "2e9c2b73847d93e9a21353aaea3217496c93ad19af4e6134e47c615d9a870f49f9d7805c4ea",
    "a9966a824b7daba2a3d52876ec91998cf11f022f7080f3ae6fe6fa4870b45c626cbd54f1247",
    "2eb1597393e193ad2a151f2aa9960d4aea5c6e6d0f3360e721e6655bc83e55740c892750dbf",
    "2eb1592ef152e627e646b6906cf2aa19c388ba876426f933f94adfc061b49fc7552f946680c",
    "3275a53989f85de2a977899c80ff379824e8d6c8a8693e5384cb4c315e9379c1a9d3927e4d2",
    "dc1a956aa867d164d19bcc0ec458a78796f12fc45e9a33b58cac8f0e9295005f661cf3fdb12",
    "a99956826fe1ab8533d4c336b4a99666707862bb500792b3ef37ea6a624b1fd95a208a1d7cc",
    "b69f20bc630d53b684155eb5128de2a2ed494c23ce9f027d2c0cf3b26278accad35666571bf",
    "4c1fcab68d27780e2d489be0cedb59283d541b529691ac9f8c79f01a58f8ad1e39bc4cfa712",
    "9067a7f181e2641afa575caec99299494d5d5ced414cf3c72de0e6f2c241bf75025c336290f",
)


def _adjacency(nodes: Sequence[tuple[int, int]], adjacent: Callable[[tuple[int, int], tuple[int, int]], bool]) -> Array:
    return np.array([[int(a != b and adjacent(a, b)) for b in nodes] for a in nodes], dtype=np.int64)


def _cycle_edges(points: list[int]) -> set[tuple[int, int]]:
    """Edges of the polygon through the points, as ordered pairs; for two points, the edge between them."""
    return {(min(a, b), max(a, b)) for a, b in zip(points, points[1:] + points[:1], strict=True)}
