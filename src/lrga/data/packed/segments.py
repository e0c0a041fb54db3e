"""Index arithmetic over flat tensors of consecutive segments, without synchronising a GPU."""

from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
# Types that safetensors can store.
DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.bool, torch.uint8, *_SIGNED, torch.float16, torch.bfloat16, torch.float32, torch.float64)
}

Rows = slice | Tensor
"""Rows to select: a slice if they are consecutive, else their indices [R]."""


def narrow(values: Tensor) -> Tensor:
    """The same integers in the smallest type that can hold them; other tensors are returned unchanged.

    Example:
        >>> narrow(torch.tensor([0, 255])).dtype
        torch.uint8
    """
    if values.dtype not in _SIGNED[1:] or values.numel() == 0:
        return values
    low, high = (int(v) for v in torch.aminmax(values))
    for dtype in (torch.uint8, *_SIGNED[:-1]):
        if dtype.itemsize < values.dtype.itemsize and torch.iinfo(dtype).min <= low and high <= torch.iinfo(dtype).max:
            return values.to(dtype)
    return values


def take(values: Tensor, rows: Rows) -> Tensor:
    """Selects rows of ``values``; a view if they are consecutive."""
    return values[rows] if isinstance(rows, slice) else values.index_select(0, rows)


def repeat(values: Tensor, counts: Tensor, total: int) -> Tensor:
    """Repeats ``values[i]`` ``counts[i]`` times, for all i, [total]; ``total`` is the sum of ``counts``."""
    if not values.is_cpu:
        return torch.repeat_interleave(values, counts.long(), output_size=total)
    return torch.from_numpy(values.numpy().repeat(counts.numpy()))  # several times faster


def numbers_repeated(counts: Tensor, total: int) -> Tensor:
    """The segment of each row, [total] int64: 0 repeated ``counts[0]`` times, 1 ``counts[1]`` times, …"""
    if not counts.is_cpu:
        return torch.repeat_interleave(counts.long(), output_size=total)
    return repeat(torch.arange(counts.numel()), counts, total)


def pointer(counts: Tensor) -> Tensor:
    """Offsets [G + 1] int64 of G consecutive segments: the begin of each, and the end of the last."""
    return torch.nn.functional.pad(counts.cumsum(0, dtype=torch.int64), (1, 0))


class Selection:
    """Selected segments of a flat tensor, concatenated.

    Args:
        ptr: [G + 1] offsets of the segments.
        chosen: The selected segments, in order.
        host_ptr: A copy of ``ptr`` on the CPU, if any; it avoids synchronising a GPU.
        host_chosen: A copy of ``chosen`` on the CPU, with ``host_ptr``.

    Attributes:
        counts: Number of rows of each selected segment.
        ptr: Offsets of the segments in the result.
        total: Total number of rows.

    Example:
        >>> selection = Selection(torch.tensor([0, 2, 5, 6]), torch.tensor([2, 0]))
        >>> selection.rows.tolist(), selection.counts.tolist(), selection.ptr.tolist(), selection.total
        ([5, 0, 1], [1, 2], [0, 1, 3], 3)
    """

    def __init__(
        self, ptr: Tensor, chosen: Rows, host_ptr: Tensor | None = None, host_chosen: Rows | None = None
    ) -> None:
        host = ptr if host_ptr is None else host_ptr
        self._first: int | None = None
        if isinstance(chosen, slice):
            self._begins = ptr[chosen.start : chosen.stop + 1]
            self._first = int(host[chosen.start])
            self.counts, self.ptr = self._begins.diff(), self._begins - self._first
            self.total = int(host[chosen.stop]) - self._first
            return
        self._begins = ptr[chosen]
        self.counts = ptr[chosen + 1] - self._begins
        self.ptr = pointer(self.counts)
        if ptr.is_cpu or not isinstance(host_chosen, Tensor):
            self.total = int(self.ptr[-1])
        else:
            self.total = int((host[host_chosen + 1] - host[host_chosen]).sum())

    @cached_property
    def rows(self) -> Rows:
        """The rows, a slice if they are consecutive; computed on first use."""
        if self._first is not None:
            return slice(self._first, self._first + self.total)
        shift = repeat(self._begins - self.ptr[:-1], self.counts, self.total)
        return shift.add_(torch.arange(self.total, device=shift.device))


def order_by(ends: Tensor, edge_ptr: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Sorts each graph's edges by ``ends``, and counts the edges of each node.

    Args:
        ends: [E] one end of each edge, numbered inside its graph.
        edge_ptr: [G + 1] offsets of the edges of each graph.
        node_ptr: [G + 1] offsets of the nodes of each graph.

    Returns:
        ``order`` [E], numbered inside the graph: entry k of a graph is its k-th edge in sorted order; ``degree`` [N].

    Example:
        >>> order, degree = order_by(torch.tensor([1, 0, 1]), torch.tensor([0, 3]), torch.tensor([0, 2]))
        >>> order.tolist(), degree.tolist()
        ([1, 0, 2], [1, 2])
    """
    counts, total = edge_ptr.diff(), ends.numel()
    keys = repeat(node_ptr[:-1], counts, total).add_(ends)
    if ends.is_cpu:
        # A matrix with one row and a column per node: converting from CSR to CSC is a counting sort.
        numbers = np.arange(total, dtype=np.int64 if total >= 1 << 31 else np.int32)
        by_node = csr_matrix((numbers, keys.numpy(), [0, total]), shape=(1, int(node_ptr[-1]))).tocsc()
        order, degree = torch.from_numpy(by_node.data), torch.from_numpy(np.diff(by_node.indptr).astype(np.int64))
    else:
        order, degree = torch.argsort(keys, stable=True), torch.bincount(keys, minlength=int(node_ptr[-1]))
    return order.sub_(repeat(edge_ptr[:-1], counts, total)), degree
