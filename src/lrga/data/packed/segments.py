"""Index arithmetic over flat tensors made of one segment after another.

On a CPU it runs in numpy on the same memory: small operations cost a third of torch's, large results come from memory
that is kept (filling fresh memory of torch's costs more than the arithmetic). On a GPU it runs in torch and never asks
the device for a number.
"""

from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

# What safetensors stores and both torch and numpy move (numpy has no bfloat16).
DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    )
}
_NUMPY = {dtype: np.dtype(name) for name, dtype in DTYPES.items() if dtype != torch.bfloat16}
_NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)
_MIN_ROWS_FOR_TORCH = 1 << 15  # from which on torch takes them faster than numpy
_CHUNK_ROWS = 1 << 16  # worked on together: few enough to stay in the cache
_WIDE = (torch.int16, torch.int32, torch.int64)

Rows = slice | Tensor
"""Which rows to take: a slice where they are consecutive, else their indices [R]."""


def narrow(values: Tensor) -> Tensor:
    """The same integers in the smallest type that holds them; other tensors as they are.

    Example:
        >>> narrow(torch.tensor([0, 255])).dtype
        torch.uint8
    """
    if values.dtype not in _WIDE or values.numel() == 0:
        return values
    low, high = (int(v) for v in torch.aminmax(values))
    for dtype in _NARROW:
        if dtype.itemsize < values.dtype.itemsize and torch.iinfo(dtype).min <= low and high <= torch.iinfo(dtype).max:
            return values.to(dtype)
    return values


def widen(values: Tensor, dtype: torch.dtype) -> Tensor:
    """``values`` in another type, in memory of its own where the type differs."""
    if values.dtype == dtype:
        return values
    if not values.is_cpu or values.dtype not in _NUMPY or dtype not in _NUMPY:
        return values.to(dtype)
    return torch.from_numpy(values.numpy().astype(_NUMPY[dtype]))


def take(values: Tensor, rows: Rows) -> Tensor:
    """Those rows of ``values``; a view where they are consecutive."""
    if isinstance(rows, slice):
        return values[rows]
    if not values.is_cpu or values.dtype not in _NUMPY:
        return values.index_select(0, rows)
    if rows.numel() < _MIN_ROWS_FOR_TORCH:
        return torch.from_numpy(values.numpy().take(rows.numpy(), axis=0))
    out = torch.from_numpy(np.empty((rows.numel(), *values.shape[1:]), _NUMPY[values.dtype]))
    return torch.index_select(values, 0, rows, out=out)


def repeat(values: Tensor, counts: Tensor, total: int) -> Tensor:
    """``values[i]`` repeated ``counts[i]`` times, for all i in turn, [total]; ``total`` is the sum of ``counts``."""
    if not values.is_cpu:
        return torch.repeat_interleave(values, counts, output_size=total)
    return torch.from_numpy(values.numpy().repeat(counts.numpy()))


def add_repeated(values: Tensor, ptr: Tensor, addends: Tensor, limit: int) -> Tensor:
    """``values`` [R] with ``addends[i]`` added to the rows of segment i, int64.

    Args:
        values: Integers of any type.
        ptr: [G + 1] where each segment begins.
        addends: [G].
        limit: Above every number that comes out.
    """
    if not values.is_cpu:
        return torch.repeat_interleave(addends, ptr.diff(), output_size=values.numel()).add_(values)
    result = np.empty(values.numel(), dtype=np.int64)
    _add_repeated(values.numpy(), ptr.numpy(), addends.numpy(), limit, result)
    return torch.from_numpy(result)


def _add_repeated(values: np.ndarray, ptr: np.ndarray, addends: np.ndarray, limit: int, result: np.ndarray) -> None:
    small, counts = addends.astype(_integer(limit)), np.diff(ptr)
    for begin, end in chunks(ptr, _CHUNK_ROWS):
        rows = slice(ptr[begin], ptr[end])
        part = small[begin:end].repeat(counts[begin:end])
        part += values[rows]
        result[rows] = part


def numbers_repeated(counts: Tensor, total: int) -> Tensor:
    """0 ``counts[0]`` times, 1 ``counts[1]`` times, …: the segment of each row, [total] int64."""
    if not counts.is_cpu:
        return torch.repeat_interleave(counts.long(), output_size=total)
    return torch.from_numpy(np.arange(counts.numel()).repeat(counts.numpy()))


def edge_ends(source: Tensor, edge_ptr: Tensor, node_ptr: Tensor, in_degree: Tensor) -> Tensor:
    """``edge_index`` [2, E] int64 of graphs side by side.

    Args:
        source: [E] sources, counted inside each graph, edges sorted by target.
        edge_ptr: [G + 1] where each graph's edges begin.
        node_ptr: [G + 1] where each graph's nodes begin.
        in_degree: [N] number of edges that end at each node.

    Example:
        >>> ends = edge_ends(
        ...     torch.tensor([1, 0, 0]), torch.tensor([0, 2, 3]), torch.tensor([0, 2, 3]), torch.tensor([1, 1, 1])
        ... )
        >>> ends.tolist()
        [[1, 0, 2], [0, 1, 2]]
    """
    if not source.is_cpu:
        targets = torch.repeat_interleave(in_degree.long(), output_size=source.numel())
        return torch.stack((add_repeated(source, edge_ptr, node_ptr[:-1], 0), targets))
    nodes, edges, degrees = node_ptr.numpy(), edge_ptr.numpy(), in_degree.numpy()
    result = np.empty((2, source.numel()), dtype=np.int64)
    _add_repeated(source.numpy(), edges, nodes[:-1], degrees.size, result[0])
    numbers = np.arange(degrees.size, dtype=_integer(degrees.size))
    for begin, end in chunks(edges, _CHUNK_ROWS):
        own = slice(nodes[begin], nodes[end])
        result[1, edges[begin] : edges[end]] = numbers[own].repeat(degrees[own])
    return torch.from_numpy(result)


def _integer(limit: int) -> np.dtype:
    """Type for numbers below ``limit``: the arithmetic is bound by memory, so half the width is half the time."""
    return np.dtype(np.int32 if limit < 1 << 31 else np.int64)


def pointer(counts: Tensor) -> Tensor:
    """[G + 1] int64: where each of G consecutive segments begins, and the end of the last."""
    if not counts.is_cpu:
        return torch.cat((counts.new_zeros(1, dtype=torch.int64), counts.cumsum(0)))
    return torch.from_numpy(_pointer(counts.numpy()))


def _pointer(counts: np.ndarray) -> np.ndarray:
    result = np.empty(counts.shape[0] + 1, dtype=np.int64)
    result[0] = 0
    np.cumsum(counts, out=result[1:])
    return result


class Selection:
    """Chosen segments of a flat tensor, one after the other.

    Args:
        ptr: [G + 1], where each segment begins.
        chosen: Which segments, in which order.
        host_ptr: The same as ``ptr`` on the CPU, if there is such a copy: a GPU is then not asked for numbers.
        host_chosen: The same as ``chosen`` on the CPU, with ``host_ptr``.

    Attributes:
        counts: How many rows each chosen segment has.
        ptr: Where each begins in the result.
        total: How many rows there are together.

    Example:
        >>> selection = Selection(torch.tensor([0, 2, 5, 6]), torch.tensor([2, 0]))
        >>> selection.rows.tolist(), selection.counts.tolist(), selection.ptr.tolist(), selection.total
        ([5, 0, 1], [1, 2], [0, 1, 3], 3)
    """

    def __init__(
        self, ptr: Tensor, chosen: Rows, host_ptr: Tensor | None = None, host_chosen: Rows | None = None
    ) -> None:
        self._limit = 0
        if isinstance(chosen, slice):
            asked = ptr if host_ptr is None else host_ptr
            self._begins = ptr[chosen.start : chosen.stop + 1]
            self._first = int(asked[chosen.start])
            self.counts, self.ptr = self._begins.diff(), self._begins - self._first
            self.total = int(asked[chosen.stop]) - self._first
            self._consecutive = True
            return
        self._consecutive = False
        if not ptr.is_cpu:
            self._begins = ptr[chosen]
            self.counts = ptr[chosen + 1] - self._begins
            self.ptr = pointer(self.counts)
            if host_ptr is None or not isinstance(host_chosen, Tensor):
                self.total = int(self.ptr[-1])
            else:
                self.total = int((host_ptr[host_chosen + 1] - host_ptr[host_chosen]).sum())
        else:
            where, segments = ptr.numpy(), chosen.numpy()
            begins = where.take(segments)
            counts = where.take(segments + 1) - begins
            places = _pointer(counts)
            self._begins, self.counts = torch.from_numpy(begins), torch.from_numpy(counts)
            self.ptr, self.total, self._limit = torch.from_numpy(places), int(places[-1]), int(where[-1])

    @cached_property
    def rows(self) -> Rows:
        """The rows, a slice where they are consecutive; numbered when first asked for."""
        if self._consecutive:
            return slice(self._first, self._first + self.total)
        shift = self._begins - self.ptr[:-1]
        if not shift.is_cpu:
            numbers = torch.repeat_interleave(shift, self.counts, output_size=self.total)
            return numbers.add_(torch.arange(self.total, device=shift.device))
        integer = _integer(self._limit)
        rows = shift.numpy().astype(integer).repeat(self.counts.numpy())
        return torch.from_numpy(rows + np.arange(self.total, dtype=integer))


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
    for begin, end in chunks(first_edge + first_node, _CHUNK_ROWS):
        edges = slice(int(first_edge[begin]), int(first_edge[end]))
        nodes = slice(int(first_node[begin]), int(first_node[end]))
        count, width = edges.stop - edges.start, nodes.stop - nodes.start
        integer = _integer(max(count, width) + 1)
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
