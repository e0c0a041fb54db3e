"""Index arithmetic over flat tensors made of one segment after another; a GPU is never asked for a number."""

from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
# What safetensors stores.
DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.bool, torch.uint8, *_SIGNED, torch.float16, torch.bfloat16, torch.float32, torch.float64)
}

Rows = slice | Tensor
"""Which rows to take: a slice where they are consecutive, else their indices [R]."""


def narrow(values: Tensor) -> Tensor:
    """The same integers in the smallest type that holds them; other tensors as they are.

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
    """Those rows of ``values``; a view where they are consecutive."""
    return values[rows] if isinstance(rows, slice) else values.index_select(0, rows)


def repeat(values: Tensor, counts: Tensor, total: int) -> Tensor:
    """``values[i]`` repeated ``counts[i]`` times, for all i in turn, [total]; ``total`` is the sum of ``counts``."""
    if not values.is_cpu:
        return torch.repeat_interleave(values, counts.long(), output_size=total)
    return torch.from_numpy(values.numpy().repeat(counts.numpy()))  # several times as fast


def numbers_repeated(counts: Tensor, total: int) -> Tensor:
    """0 ``counts[0]`` times, 1 ``counts[1]`` times, …: the segment of each row, [total] int64."""
    if not counts.is_cpu:
        return torch.repeat_interleave(counts.long(), output_size=total)
    return repeat(torch.arange(counts.numel()), counts, total)


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
    targets = numbers_repeated(in_degree, source.numel())
    return torch.stack((repeat(node_ptr[:-1], edge_ptr.diff(), source.numel()).add_(source), targets))


def pointer(counts: Tensor) -> Tensor:
    """[G + 1] int64: where each of G consecutive segments begins, and the end of the last."""
    return torch.nn.functional.pad(counts.cumsum(0, dtype=torch.int64), (1, 0))


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
        """The rows, a slice where they are consecutive; numbered when first asked for."""
        if self._first is not None:
            return slice(self._first, self._first + self.total)
        shift = repeat(self._begins - self.ptr[:-1], self.counts, self.total)
        return shift.add_(torch.arange(self.total, device=shift.device))


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
    counts, total = edge_ptr.diff(), ends.numel()
    keys = repeat(node_ptr[:-1], counts, total).add_(ends)
    if ends.is_cpu:
        # A matrix of one row with a column for each node: the change from rows to columns is a counting sort.
        numbers = np.arange(total, dtype=np.int64 if total >= 1 << 31 else np.int32)
        by_node = csr_matrix((numbers, keys.numpy(), [0, total]), shape=(1, int(node_ptr[-1]))).tocsc()
        order, degree = torch.from_numpy(by_node.data), torch.from_numpy(np.diff(by_node.indptr).astype(np.int64))
    else:
        order, degree = torch.argsort(keys, stable=True), torch.bincount(keys, minlength=int(node_ptr[-1]))
    return order.sub_(repeat(edge_ptr[:-1], counts, total)), degree
