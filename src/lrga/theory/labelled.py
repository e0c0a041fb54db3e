"""A graph with integer labels, the input of the colouring tests; from PyG ``Data``, networkx graphs or edge lists.

Letters: N nodes, E arcs (an undirected edge is two arcs), F label columns.
"""

import bisect
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from lrga.errors import DataError, DTypeError, OptionError, ShapeError, UnsupportedError
from lrga.io import limits

Array = np.ndarray
_CHECKED_ABOVE, _BYTES_PER_NODE = 10**6, 48  # memory for the arc pointers of each node


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph with integer labels on nodes and edges; all tests work on it.

    Attributes:
        num_nodes: N.
        source, target: ``[E]``, the arcs sorted by (source, target), each once.
        node_labels: ``[N, F]`` integers or ``None``; two nodes have the same label when their rows are equal.
        edge_labels: ``[E, F]`` integers or ``None``.
        symmetric: Whether every arc has a reverse with the same label: the graph is undirected.

    Example:
        >>> from lrga.theory import as_graph
        >>> as_graph([(0, 1), (1, 2)], node_labels=[6, 8, 6])
        LabelledGraph(3 nodes, 2 edges, node labels)
    """

    num_nodes: int
    source: Array
    target: Array
    node_labels: Array | None
    edge_labels: Array | None
    symmetric: bool

    @property
    def num_edges(self) -> int:
        """Number of undirected edges, or of arcs if the graph is directed."""
        if not self.symmetric:
            return len(self.source)
        loops = int(np.count_nonzero(self.source == self.target))
        return (len(self.source) + loops) // 2

    def adjacency(self) -> Array:
        """The paper's A: ``[N, N]`` of 0 and 1 (int64)."""
        matrix = np.zeros((self.num_nodes, self.num_nodes), dtype=np.int64)
        matrix[self.source, self.target] = 1
        return matrix

    def permuted(self, order: Iterable[int]) -> "LabelledGraph":
        """An isomorphic copy in which node i of this graph is node ``order[i]``."""
        order = np.asarray(list(order), dtype=np.int64)
        if not np.array_equal(np.sort(order), np.arange(self.num_nodes)):
            raise OptionError(
                f"a permutation of 0 … {self.num_nodes - 1}", f"{len(order)} entries", "use e.g. numpy's permutation"
            )
        labels = None
        if self.node_labels is not None:
            labels = np.empty_like(self.node_labels)
            labels[order] = self.node_labels
        return graph_from_arcs(
            order[self.source], order[self.target], self.num_nodes, node_labels=labels, edge_labels=self.edge_labels
        )

    def __repr__(self) -> str:
        kind = "edges" if self.symmetric else "arcs"
        extra = ", node labels" * (self.node_labels is not None) + ", edge labels" * (self.edge_labels is not None)
        return f"LabelledGraph({self.num_nodes} nodes, {self.num_edges} {kind}{extra})"


def graph_from_arcs(
    source: Array,
    target: Array,
    num_nodes: int | None = None,
    *,
    node_labels: Any = None,
    edge_labels: Any = None,
    both_ways: bool = False,
) -> LabelledGraph:
    """Checks and sorts arcs; with ``both_ways`` the reverse of every arc is added."""
    if num_nodes is None:
        num_nodes = int(max(source.max(), target.max())) + 1 if len(source) else 0
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, int | np.integer) or num_nodes < 0:
        raise OptionError("num_nodes as a count, 0 or more", repr(num_nodes), "pass the number of nodes")
    num_nodes = int(num_nodes)
    if num_nodes > _CHECKED_ABOVE:
        check_fits(num_nodes, lambda n: _BYTES_PER_NODE * n, what="a graph")
    wrong = (source < 0) | (target < 0) | (source >= num_nodes) | (target >= num_nodes)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise DataError(
            f"edges between the nodes 0 … {num_nodes - 1}" if num_nodes else "no edge in a graph without nodes",
            f"edge {first} = ({source[first]}, {target[first]}), and {int(wrong.sum()) - 1} more such",
            f"number the nodes from 0, or pass num_nodes (at least {max(source.max(), target.max()) + 1})",
        )
    nodes = None if node_labels is None else integer_labels(node_labels, num_nodes, "node labels")
    edges = None if edge_labels is None else integer_labels(edge_labels, len(source), "edge labels")
    if both_ways:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
        edges = None if edges is None else np.concatenate([edges, edges])
    labels = np.empty((len(source), 0), dtype=np.int64) if edges is None else edges
    source, target, labels = _ordered(source, target, labels)
    back = np.lexsort((source, target))
    there, reverse = (source, target, labels), (target[back], source[back], labels[back])
    symmetric = all(map(np.array_equal, there, reverse))
    return LabelledGraph(num_nodes, source, target, nodes, None if edges is None else labels, symmetric)


def _ordered(source: Array, target: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Arcs sorted by (source, target), each once, with their labels."""
    order = np.lexsort((target, source))
    source, target, labels = source[order], target[order], labels[order]
    same = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    contrary = same & (labels[1:] != labels[:-1]).any(axis=1)
    if contrary.any():
        first = int(np.argmax(contrary))
        raise DataError(
            "one label per edge",
            f"edge ({source[first]}, {target[first]}) with labels {labels[first].tolist()} and "
            f"{labels[first + 1].tolist()}",
            "give each edge once; for parallel edges, use one label for each combination of their labels",
        )
    keep = np.concatenate([np.ones(min(len(source), 1), dtype=bool), ~same])
    return source[keep], target[keep], labels[keep]


def integer_labels(values: Any, rows: int, what: str) -> Array:
    """Labels as ``[rows, F]`` int64; whole numbers stored as floats (one-hot features) are taken too."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{what} as one integer per row", str(error), "give rows of equal length") from error
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():  # or an empty list
        array = array.astype(np.int64)
    if array.dtype.kind == "U":  # from a file
        with suppress(ValueError):
            array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        example = array.reshape(-1)[:3].tolist()
        raise DTypeError(
            f"integer {what}",
            f"{array.dtype} such as {example}",
            "number the distinct labels first (the same way in all graphs), or leave them out "
            "(node_attribute=None, edge_attribute=None; on the command line --node-label none, --edge-label none)",
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != rows:
        raise ShapeError(
            f"{rows} {what}", f"shape {list(array.shape)}", "give one integer, or row of integers, for each"
        )
    return array.astype(np.int64)


GraphLike = Any  # PyG Data, networkx graph, edge list, LabelledGraph
AUTO = "auto"


def as_graph(
    graph: GraphLike,
    *,
    num_nodes: int | None = None,
    node_labels: Any = None,
    edge_labels: Any = None,
    directed: bool | None = None,
    node_attribute: str | None = AUTO,
    edge_attribute: str | None = AUTO,
) -> LabelledGraph:
    """Reads a graph.

    Args:
        graph: A PyG ``Data``, a networkx graph, or edges: a list of pairs, an array or tensor ``[E, 2]``, or PyG's
            ``edge_index`` ``[2, E]``. A 2 × 2 tensor is read as ``edge_index``, a 2 × 2 array as pairs.
        num_nodes: N for edge lists whose last nodes are isolated; by default the largest node plus one.
        node_labels: One integer (or row of integers) per node, instead of the graph's own labels.
        edge_labels: One integer (or row of integers) per given edge, instead of the graph's own labels.
        directed: Whether edges are directed. By default edge lists are undirected, networkx graphs state it, and the
            arcs of a ``Data`` are used unchanged (undirected if each has its reverse, PyG's convention).
        node_attribute, edge_attribute: Attribute of a ``Data`` or networkx graph with the labels; by default ``x`` and
            ``edge_attr``, or ``"label"``, if present. ``None`` ignores labels.

    Repeated edges count once. An undirected graph equals the directed graph with both arcs of every edge.

    Example:
        >>> import torch
        >>> as_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=4).num_edges
        3
    """
    networkx = sys.modules.get("networkx")  # a networkx graph can only exist if networkx was imported
    if isinstance(graph, LabelledGraph):
        if num_nodes is None and node_labels is None and edge_labels is None and directed is not False:
            return graph
        found: _Read = graph.source, graph.target, graph.num_nodes, graph.node_labels, graph.edge_labels
    elif isinstance(graph, Data):
        found = _from_data(graph, node_attribute, edge_attribute)
    elif networkx is not None and isinstance(graph, networkx.Graph):
        found = _from_networkx(graph, node_attribute, edge_attribute)
    else:
        found = *_from_edges(graph), None, None, None
    source, target, count, own_nodes, own_edges = found
    if num_nodes is not None and count is not None and num_nodes != count:
        raise OptionError(f"num_nodes={count}, the size of the graph", str(num_nodes), "omit num_nodes")
    return graph_from_arcs(
        source,
        target,
        num_nodes if count is None else count,
        node_labels=own_nodes if node_labels is None else node_labels,
        edge_labels=own_edges if edge_labels is None else edge_labels,
        both_ways=directed is False or (count is None and not directed),
    )


_Read = tuple[Array, Array, int | None, Any, Any]  # source, target, number of nodes, node labels, edge labels


def _from_data(data: Data, node_attribute: str | None, edge_attribute: str | None) -> _Read:
    if data.edge_index is None:
        raise DataError("a Data with edge_index", "none", "set data.edge_index, [2, E]")
    with warnings.catch_warnings():
        # PyG warns when it infers N from the largest node, as this module does for edge lists.
        warnings.simplefilter("ignore", UserWarning)
        count = int(data.num_nodes or 0)
    source, target = _edge_index(data.edge_index)
    found = []
    for attribute, default in ((node_attribute, "x"), (edge_attribute, "edge_attr")):
        name = default if attribute == AUTO else attribute
        if attribute not in (AUTO, None) and name not in data:
            raise OptionError(f"one of the attributes {list(data.keys())}", repr(name), "name one that the Data has")
        found.append(data[name] if name is not None and name in data else None)
    return source, target, count, found[0], found[1]


def _from_networkx(graph: Any, node_attribute: str | None, edge_attribute: str | None) -> _Read:
    rows = [neighbours for _, neighbours in graph.adjacency()]  # contains both directions of undirected edges
    index = {node: i for i, node in enumerate(graph)}
    degree = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    target = np.fromiter(map(index.__getitem__, itertools.chain.from_iterable(rows)), np.int64, count=degree.sum())
    source = np.repeat(np.arange(len(rows), dtype=np.int64), degree)
    data: list[Mapping[str, Any]] = list(itertools.chain.from_iterable(row.values() for row in rows))
    if graph.is_multigraph():
        if any(len(parallel) > 1 for parallel in data):
            raise UnsupportedError(
                "at most one edge between two nodes",
                "a networkx multigraph with parallel edges",
                "convert it to a simple graph with the number of parallel edges as integer edge attribute 'label'",
            )
        data = [next(iter(parallel.values())) for parallel in data]
    nodes = _networkx_labels([attributes for _, attributes in graph.nodes(data=True)], node_attribute, "node")
    edges = _networkx_labels(data, edge_attribute, "edge")
    return source, target, len(rows), nodes, edges


def _networkx_labels(attributes: list[Mapping[str, Any]], name: str | None, what: str) -> list[Any] | None:
    if name is None:
        return None
    key = "label" if name == AUTO else name
    count = sum(key in a for a in attributes)
    if count == 0 and (name == AUTO or not attributes):
        return None
    if count < len(attributes):
        raise DataError(
            f"the attribute {key!r} on every {what}",
            f"{count} of {len(attributes)} have it",
            f"set it on all, or pass {what}_attribute=None",
        )
    return [a[key] for a in attributes]


def _from_edges(edges: Any) -> tuple[Array, Array]:
    if isinstance(edges, Tensor):
        if edges.dim() == 2 and edges.size(0) == 2:
            return _edge_index(edges)
        edges = edges.detach().cpu().numpy()
    if isinstance(edges, str | bytes | Mapping | HeteroData) or not isinstance(edges, Iterable):
        raise DTypeError(
            "a PyG Data, a networkx graph or a list of edges",
            type(edges).__name__,
            "pass e.g. [(0, 1), (1, 2)]; files are read by lrga.theory.read_graphs",
        )
    try:
        array = edges if isinstance(edges, np.ndarray) else np.asarray(list(edges))
    except ValueError as error:
        raise ShapeError("edges as pairs of nodes", "entries of several lengths", "give two nodes per edge") from error
    if array.size == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if array.ndim != 2 or 2 not in array.shape:
        raise ShapeError(
            "edges as pairs [E, 2] or as edge_index [2, E]",
            f"shape {list(array.shape)}",
            "give two nodes per edge; labels go into edge_labels",
        )
    return _edge_index(array.T if array.shape[1] == 2 else array)


def _edge_index(edge_index: Any) -> tuple[Array, Array]:
    if isinstance(edge_index, Tensor):
        edge_index = edge_index.detach().cpu().numpy()
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise ShapeError("edge_index of shape [2, E]", f"shape {list(edge_index.shape)}", "pass sources and targets")
    if edge_index.size and edge_index.dtype.kind not in "iu":
        raise DTypeError(
            "nodes as integers", f"{edge_index.dtype} edges", "number the nodes 0 … N-1, or use a networkx graph"
        )
    return edge_index[0].astype(np.int64), edge_index[1].astype(np.int64)


def check_fits(num_nodes: int, need: Callable[[int], int], *, what: str, device: torch.device | str = "cpu") -> None:
    """Raises an error if ``need(num_nodes)`` bytes are not available; it states the largest size that fits."""
    on_gpu = torch.device(device).type == "cuda"
    limit = int(torch.cuda.mem_get_info(device)[0]) if on_gpu else limits.memory_limit()
    if need(num_nodes) <= limit:
        return
    most = bisect.bisect_right(range(num_nodes), limit, key=need) - 1
    raise OptionError(
        f"{what} to fit into {limit / 2**30:.2f} GiB, which holds up to {max(most, 0)} nodes",
        f"{num_nodes} nodes, which need {need(num_nodes) / 2**30:.2f} GiB",
        "use smaller graphs or fewer at a time, free memory, or (for tests on pairs) use the test '1-wl'",
    )
