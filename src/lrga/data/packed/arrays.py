"""Packs graphs from concatenated arrays, the output of generators and file readers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.data.packed.segments import DTYPES, narrow, order_by, pointer, repeat
from lrga.errors import DataError, DTypeError, OptionError, ShapeError

Array = np.ndarray | Tensor
LEVELS = ("node", "edge", "graph")


def pack_arrays(
    *,
    num_nodes: Array,
    num_edges: Array | None = None,
    edge_index: Array | None = None,
    x: Array | None = None,
    edge_attr: Array | None = None,
    y: Array | None = None,
    y_level: str | None = None,
    node: Mapping[str, Array] | None = None,
    edge: Mapping[str, Array] | None = None,
    graph: Mapping[str, Array] | None = None,
    objects: Mapping[str, list[Any]] | None = None,
    keep_edge_order: bool = True,
    meta: Mapping[str, Any] | None = None,
) -> PackedGraphs:
    """Packs G concatenated graphs.

    Args:
        num_nodes: [G] number of nodes of each graph.
        num_edges: [G] number of directed edges of each graph; by default none.
        edge_index: [2, E] of any integer type; nodes are numbered **inside each graph**, edges in any order.
        x: [N, …] node features.
        edge_attr: [E, …] edge features.
        y: Targets, [N, …], [E, …] or [G, …], depending on ``y_level``. As in PyG, the target ``y[g]`` of one graph has
            a leading dimension of 1: [G] gives graphs with y of shape [1], [G, C] of shape [1, C].
        y_level: ``"node"``, ``"edge"`` or ``"graph"``; required with ``y``.
        node: More node attributes, [N, …] each.
        edge: More edge attributes, [E, …] each.
        graph: More graph attributes, [G, …] each, with a leading dimension of 1 in each graph like ``y``.
        objects: More Python values, one for each graph.
        keep_edge_order: Whether to store the given order of the edges, for ``to_data_list``; takes two to four bytes
            per edge if they are not sorted by target.
        meta: Facts about the set, JSON values.

    Example:
        >>> graphs = pack_arrays(
        ...     num_nodes=np.array([2, 1]), num_edges=np.array([2, 0]), edge_index=np.array([[0, 1], [1, 0]]),
        ...     x=np.array([5, 6, 7]), y=np.array([0.5, 1.5]), y_level="graph",
        ... )
        >>> graphs[0].x.tolist(), graphs[1].y.tolist()
        ([5, 6], [1.5])
    """
    nodes = _counts("num_nodes", num_nodes)
    edges = torch.zeros_like(nodes) if num_edges is None else _counts("num_edges", num_edges)
    ends = nodes.new_empty(2, 0) if edge_index is None else to_tensor("edge_index", edge_index)
    _check_edges(nodes, edges, ends)
    node_ptr, edge_ptr = pointer(nodes), pointer(edges)
    source, in_degree, order = _sort_by_target(ends, edge_ptr, node_ptr)
    rows = {"node": int(node_ptr[-1]), "edge": int(edge_ptr[-1]), "graph": len(nodes)}

    given: dict[str, dict[str, Array | None]] = {
        "node": {"x": x} | dict(node or {}),
        "edge": {"edge_attr": edge_attr} | dict(edge or {}),
        "graph": dict(graph or {}),
    }
    if y is not None:
        if y_level not in LEVELS:
            raise OptionError(f"y_level, one of {', '.join(LEVELS)}, with y", repr(y_level), "pass the level of y")
        given[y_level]["y"] = y
    columns = {
        name: _column(name, array, level=level, rows=rows[level], order=order if level == "edge" else None)
        for level, attributes in given.items()
        for name, array in attributes.items()
        if array is not None
    }
    if order is not None:
        order -= repeat(edge_ptr[:-1], edges, rows["edge"])
    return PackedGraphs(
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        source=source,
        in_degree=narrow(in_degree),
        edge_order=narrow(order) if keep_edge_order and order is not None else None,
        columns=columns,
        objects=dict(objects or {}),
        y_level=columns["y"].level if "y" in columns else None,
        explicit_num_nodes="x" not in columns,
        meta=dict(meta or {}),
    )


def to_tensor(name: str, array: Array) -> Tensor:
    """Converts ``array`` to a CPU tensor of a type that can be stored."""
    if isinstance(array, np.ndarray):
        wider = {np.dtype(np.uint16): np.int32, np.dtype(np.uint32): np.int64}.get(array.dtype, array.dtype)
        array = torch.from_numpy(np.ascontiguousarray(array, dtype=wider)) if array.dtype.kind in "biuf" else array
    if not isinstance(array, Tensor) or array.dtype not in DTYPES.values():
        got = str(getattr(array, "dtype", type(array).__name__))
        raise DTypeError(f"{name}, an array of type {', '.join(DTYPES)}", got, "convert it to one of these types")
    return array.detach().cpu()


def _counts(name: str, array: Array) -> Tensor:
    counts = to_tensor(name, array)
    if counts.dim() != 1 or counts.is_floating_point() or bool((counts < 0).any()):
        expected = f"{name}, a vector of non-negative integers, one for each graph"
        raise ShapeError(expected, f"{counts.dtype} of shape {list(counts.shape)}", "count the rows of each graph")
    return counts.long()


def _check_edges(nodes: Tensor, edges: Tensor, ends: Tensor) -> None:
    if len(nodes) != len(edges) or ends.dim() != 2 or list(ends.shape) != [2, int(edges.sum())]:
        expected = f"num_nodes and num_edges of one length and edge_index of shape [2, {int(edges.sum())}]"
        got = f"lengths {len(nodes)}, {len(edges)} and shape {list(ends.shape)}"
        remedy = "pass one entry per graph in both, and one column of edge_index per edge"
        raise ShapeError(expected, got, remedy)
    if ends.is_floating_point() or ends.dtype == torch.bool:
        raise DTypeError("edge_index of an integer type", str(ends.dtype), "convert it with .long()")
    if ends.numel():
        limit = repeat(nodes, edges, ends.size(1))
        wrong = ((ends < 0) | (ends >= limit)).any(0)
        if wrong.any():
            edge = int(wrong.nonzero()[0])
            graph = int(torch.searchsorted(pointer(edges), edge, right=True)) - 1
            expected = f"edges of graph {graph} between its nodes 0 to {int(nodes[graph]) - 1}"
            remedy = "number the nodes inside each graph from 0, and count every node in num_nodes"
            raise DataError(expected, f"the edge {ends[:, edge].tolist()}", remedy)


def _sort_by_target(ends: Tensor, edge_ptr: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """(sources, in-degrees, order): order [E] sorts the given edges; ``None`` if they are sorted."""
    target = narrow(ends[1])
    rising = target[1:] >= target[:-1]
    inner = edge_ptr[1:-1]
    rising[inner[(inner > 0) & (inner < len(target))] - 1] = True  # boundaries between graphs
    order, in_degree = order_by(target.contiguous(), edge_ptr, node_ptr)
    if bool(rising.all()):
        return narrow(ends[0]).contiguous(), in_degree, None
    placed = order.long() + repeat(edge_ptr[:-1], edge_ptr.diff(), len(target))
    return narrow(ends[0])[placed], in_degree, placed


def _column(name: str, array: Array, *, level: str, rows: int, order: Tensor | None) -> Column:
    values = to_tensor(name, array)
    if values.dim() == 0 or values.size(0) != rows:
        expected, remedy = f"{name} with one row for each of {rows:,} {level}s", f"concatenate {name} over the graphs"
        raise ShapeError(expected, f"shape {list(values.shape)}", remedy)
    return Column.of(level, values if order is None else values[order])
