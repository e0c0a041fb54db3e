"""Stable sorting of the edges inside every graph by one of their ends, without a sort over the whole set."""

import numpy as np
import torch
from torch import Tensor

# numpy sorts 16-bit keys by radix, several times faster than by comparison: as many graphs at once as these can number.
_CHUNK_NODES = 1 << 16


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
    if ends.is_cuda:
        return _order_at_once(ends, edge_ptr, node_ptr)
    first_edge, first_node = edge_ptr.numpy(), node_ptr.numpy()
    largest = int(np.diff(first_edge).max(initial=0))
    order = np.empty(ends.numel(), dtype=np.int16 if largest < 1 << 15 else np.int32 if largest < 1 << 31 else np.int64)
    degree = np.empty(int(first_node[-1]), dtype=np.int64)
    values = ends.numpy()
    for begin, end in chunks(first_node, _CHUNK_NODES):
        edges = slice(first_edge[begin], first_edge[end])
        nodes = int(first_node[end] - first_node[begin])
        counts = np.diff(first_edge[begin : end + 1])
        key_type = np.dtype(np.uint16 if nodes <= _CHUNK_NODES else np.int64)
        base = np.repeat((first_node[begin:end] - first_node[begin]).astype(key_type), counts)
        keys = values[edges].astype(key_type) + base
        chunk = np.argsort(keys, kind="stable")
        chunk -= np.repeat(first_edge[begin:end] - first_edge[begin], counts)
        order[edges] = chunk
        degree[first_node[begin] : first_node[end]] = np.bincount(keys, minlength=nodes)
    return torch.from_numpy(order), torch.from_numpy(degree)


def _order_at_once(ends: Tensor, edge_ptr: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    counts = edge_ptr.diff()
    keys = ends.long() + torch.repeat_interleave(node_ptr[:-1], counts, output_size=ends.numel())
    order = torch.argsort(keys, stable=True)
    order -= torch.repeat_interleave(edge_ptr[:-1], counts, output_size=ends.numel())
    return order, torch.bincount(keys, minlength=int(node_ptr[-1]))


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
