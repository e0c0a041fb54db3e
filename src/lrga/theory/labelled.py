"""A graph with integer labels, as the colouring tests see it.

Letters: N nodes, E arcs (an undirected edge is two arcs), F label columns.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from lrga.errors import DataError, DTypeError, OptionError, ShapeError
from lrga.theory.capacity import check_fits

Array = np.ndarray
_CHECKED_ABOVE, _BYTES_PER_NODE = 10**6, 48  # row pointers and what it takes to make them


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph with integer labels on nodes and edges; what every test works on.

    Attributes:
        num_nodes: N.
        source, target: ``[E]`` arcs ordered by (source, target), each once.
        node_labels: ``[N, F]`` integers or ``None``; two nodes have the same label when their rows are equal.
        edge_labels: ``[E, F]`` integers or ``None``.
        symmetric: Every arc has its reverse, with the same label: the graph is undirected.

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
        """Number of undirected edges, or of arcs where the graph is directed."""
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
    """Checks and orders arcs; with ``both_ways`` every arc is joined by its reverse."""
    if num_nodes is None:
        num_nodes = int(max(source.max(), target.max())) + 1 if len(source) else 0
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, int | np.integer) or num_nodes < 0:
        raise OptionError("num_nodes as a count, 0 or more", repr(num_nodes), "pass the number of nodes")
    num_nodes = int(num_nodes)
    if num_nodes > _CHECKED_ABOVE:
        check_fits(num_nodes, lambda n: _BYTES_PER_NODE * n, what="a graph")
    if len(source) and (min(source.min(), target.min()) < 0 or max(source.max(), target.max()) >= num_nodes):
        wrong = (source < 0) | (target < 0) | (source >= num_nodes) | (target >= num_nodes)
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
    if edges is None:
        source, target, reverse = _ordered(source, target, num_nodes)
        symmetric = both_ways or reverse
    else:
        source, target, edges = _ordered_labelled(source, target, edges)
        symmetric = _labels_symmetric(source, target, edges)
    return LabelledGraph(num_nodes, source, target, nodes, edges, symmetric)


def _ordered(source: Array, target: Array, num_nodes: int) -> tuple[Array, Array, bool]:
    """Arcs by (source, target), each once, and whether each has its reverse; by counting, in linear time."""
    ones = np.ones(len(source), dtype=bool)
    rows = sp.csr_array((ones, (source, target)), shape=(num_nodes, num_nodes))
    rows.sum_duplicates()
    columns = rows.tocsc()
    reverse = np.array_equal(rows.indptr, columns.indptr) and np.array_equal(rows.indices, columns.indices)
    degree = np.diff(rows.indptr)
    return np.repeat(np.arange(num_nodes, dtype=np.int64), degree), rows.indices.astype(np.int64), reverse


def _ordered_labelled(source: Array, target: Array, labels: Array) -> tuple[Array, Array, Array]:
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
            "give each edge once; for parallel edges, number their combinations and use that as the label",
        )
    keep = np.concatenate([np.ones(min(len(source), 1), dtype=bool), ~same])
    return source[keep], target[keep], labels[keep]


def _labels_symmetric(source: Array, target: Array, labels: Array) -> bool:
    back = np.lexsort((source, target))
    return (
        np.array_equal(source[back], target)
        and np.array_equal(target[back], source)
        and np.array_equal(labels[back], labels)
    )


def integer_labels(values: Any, rows: int, what: str) -> Array:
    """Labels as ``[rows, F]`` int64; whole numbers stored as floats (one-hot features) are taken too."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{what} as one integer per row", str(error), "give rows of equal length") from error
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)  # an empty list
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        example = array.reshape(-1)[:3].tolist()
        raise DTypeError(
            f"integer {what}",
            f"{array.dtype} such as {example}",
            "number the distinct labels first (the same way in all graphs), or leave them out "
            "(node_attribute=None, edge_attribute=None)",
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != rows:
        raise ShapeError(f"{rows} {what}", f"shape {list(array.shape)}", "give one integer, or row of integers, each")
    return array.astype(np.int64)
