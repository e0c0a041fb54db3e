"""Stable sorting of the edges inside every graph by one of their ends, without comparing: in linear time."""

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

_CHUNK = 1 << 17  # nodes and edges sorted together: few enough to stay in the cache


def order_by(ends: Tensor, edge_ptr: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Order of each graph's edges by ``ends``, and how many edges each node has.

    Args:
        ends: [E] one end of each edge, counted inside its graph.
        edge_ptr: [G + 1] edges of each graph.
        node_ptr: [G + 1] nodes of each graph.

    Returns:
        ``order`` [E], counted inside the graph: entry k of a graph is the edge that comes k-th; ``degree`` [N].

    Example:
        >>> order, degree = order_by(torch.tensor([1, 0, 1]), torch.tensor([0, 3]), torch.tensor([0, 2]))
        >>> order.tolist(), degree.tolist()
        ([1, 0, 2], [1, 2])
    """
    if not ends.is_cpu:
        return _order_at_once(ends, edge_ptr, node_ptr)
    first_edge, first_node = edge_ptr.numpy(), node_ptr.numpy()
    order = np.empty(ends.numel(), dtype=_integer(int(np.diff(first_edge).max(initial=0))))
    degree = np.empty(int(first_node[-1]), dtype=np.int64)
    values = ends.numpy()
    for begin, end in chunks(first_edge + first_node, _CHUNK):
        edges = slice(int(first_edge[begin]), int(first_edge[end]))
        nodes = slice(int(first_node[begin]), int(first_node[end]))
        count, width = edges.stop - edges.start, nodes.stop - nodes.start
        integer = _integer(max(count, width), least=np.dtype(np.int32))
        inside = (first_edge[begin : end + 1] - edges.start).astype(integer)
        base = np.repeat((first_node[begin:end] - nodes.start).astype(integer), np.diff(inside))
        # A matrix with a row for each graph and a column for each node: the change from rows to columns is the sort.
        numbers = np.arange(count, dtype=integer) - np.repeat(inside[:-1], np.diff(inside))
        matrix = csr_matrix((numbers, values[edges].astype(integer) + base, inside), shape=(end - begin, width))
        by_node = matrix.tocsc()
        order[edges] = by_node.data
        degree[nodes] = np.diff(by_node.indptr)
    return torch.from_numpy(order), torch.from_numpy(degree)


def _order_at_once(ends: Tensor, edge_ptr: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    counts = edge_ptr.diff()
    keys = ends.long() + torch.repeat_interleave(node_ptr[:-1], counts, output_size=ends.numel())
    order = torch.argsort(keys, stable=True)
    order -= torch.repeat_interleave(edge_ptr[:-1], counts, output_size=ends.numel())
    return order, torch.bincount(keys, minlength=int(node_ptr[-1]))


def _integer(largest: int, least: np.dtype | None = None) -> np.dtype:
    fitting = [np.dtype(kind) for kind in (np.int16, np.int32, np.int64) if largest <= np.iinfo(kind).max]
    return fitting[0] if least is None else max(fitting[0], least, key=lambda kind: kind.itemsize)


def chunks(ptr: np.ndarray, limit: int) -> list[tuple[int, int]]:
    """Consecutive ranges of segments, each of at most ``limit`` rows or a single segment.

    Example:
        >>> chunks(np.array([0, 4, 8, 20, 21]), 10)
        [(0, 2), (2, 3), (3, 4)]
    """
    result = []
    begin, count = 0, len(ptr) - 1
    while begin < count:
        end = max(int(np.searchsorted(ptr, ptr[begin] + limit, side="right")) - 1, begin + 1)
        result.append((begin, end))
        begin = end
    return result
