"""Graphs read from PyG ``Data``, networkx graphs or edge lists.

Letters: N nodes, E edges or arcs (an undirected edge is two arcs).
"""

import itertools
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from lrga.errors import DataError, DTypeError, OptionError, ShapeError, UnsupportedError
from lrga.theory.labelled import Array, LabelledGraph, graph_from_arcs

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
            ``edge_index`` ``[2, E]``. A square tensor is read as ``edge_index``, a square array as pairs.
        num_nodes: N for edges whose last nodes are isolated; one more than the largest node by default.
        node_labels: One integer (or row of integers) per node, in place of the graph's own.
        edge_labels: One integer (or row of integers) per given edge, in place of the graph's own.
        directed: Whether edges have a direction. Edge lists have none by default, networkx graphs know, and the arcs
            of a ``Data`` are taken as they are (undirected when each has its reverse, PyG's convention).
        node_attribute, edge_attribute: Where a ``Data`` or networkx graph keeps its labels; by default ``x`` and
            ``edge_attr``, or ``"label"``, if there. ``None`` leaves them out.

    Edges given twice count once. An undirected graph is the same as the directed one with both arcs of every edge.

    Example:
        >>> import torch
        >>> as_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=4).num_edges
        3
    """
    if isinstance(graph, LabelledGraph):
        if num_nodes is None and node_labels is None and edge_labels is None and directed is not False:
            return graph
        source, target, both_ways, labels = graph.source, graph.target, False, (graph.node_labels, graph.edge_labels)
        count: int | None = graph.num_nodes
    elif isinstance(graph, Data):
        source, target, count, labels = _from_data(graph, node_attribute, edge_attribute)
        both_ways = False
    elif _is_networkx(graph):
        source, target, count, labels = _from_networkx(graph, node_attribute, edge_attribute)
        both_ways = False
    else:
        source, target = _from_edges(graph)
        count, labels, both_ways = None, (None, None), not directed
    if num_nodes is not None and count is not None and num_nodes != count:
        raise OptionError(f"num_nodes={count}, as the graph says", str(num_nodes), "leave num_nodes out")
    if directed is False:
        both_ways = True
    return graph_from_arcs(
        source,
        target,
        count if count is not None else num_nodes,
        node_labels=labels[0] if node_labels is None else node_labels,
        edge_labels=labels[1] if edge_labels is None else edge_labels,
        both_ways=both_ways,
    )


def _from_data(
    data: Data, node_attribute: str | None, edge_attribute: str | None
) -> tuple[Array, Array, int, tuple[Any, Any]]:
    if data.edge_index is None:
        raise DataError("a Data with edge_index", "none", "set data.edge_index, [2, E]")
    with warnings.catch_warnings():
        # PyG warns when it has to take N from the largest node; that is what an edge list means here too.
        warnings.simplefilter("ignore", UserWarning)
        count = int(data.num_nodes or 0)
    source, target = _edge_index(data.edge_index)
    found = []
    for attribute, default in ((node_attribute, "x"), (edge_attribute, "edge_attr")):
        name = default if attribute == AUTO else attribute
        if attribute not in (AUTO, None) and name not in data:
            raise OptionError(f"one of the attributes {list(data.keys())}", repr(name), "name one that the Data has")
        found.append(data[name] if name is not None and name in data else None)
    return source, target, count, (found[0], found[1])


def _is_networkx(graph: Any) -> bool:
    networkx = sys.modules.get("networkx")  # whoever holds a networkx graph has imported it
    return networkx is not None and isinstance(graph, networkx.Graph)


def _from_networkx(
    graph: Any, node_attribute: str | None, edge_attribute: str | None
) -> tuple[Array, Array, int, tuple[Any, Any]]:
    rows = [neighbours for _, neighbours in graph.adjacency()]  # undirected edges are in there both ways
    index = {node: i for i, node in enumerate(graph)}
    degree = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    target = np.fromiter(map(index.__getitem__, itertools.chain.from_iterable(rows)), np.int64, count=degree.sum())
    source = np.repeat(np.arange(len(rows), dtype=np.int64), degree)
    data: list[Mapping[str, Any]] = []
    if any(itertools.chain.from_iterable(row.values() for row in rows)):  # most graphs have bare edges
        data = list(itertools.chain.from_iterable(row.values() for row in rows))
    if graph.is_multigraph():
        if any(len(parallel) > 1 for parallel in data):
            raise UnsupportedError(
                "at most one edge between two nodes",
                "a networkx multigraph with parallel edges",
                "make it a simple graph whose integer edge attribute 'label' counts the parallel edges",
            )
        data = [next(iter(parallel.values())) for parallel in data]
    nodes = _networkx_labels([attributes for _, attributes in graph.nodes(data=True)], node_attribute, "node")
    edges = _networkx_labels(data or [{}] * len(source), edge_attribute, "edge")
    return source, target, len(rows), (nodes, edges)


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
