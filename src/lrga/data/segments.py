"""Index arithmetic over flat tensors made of one segment after another.

On a CPU it runs in numpy on the same memory: small operations cost a third of torch's, large results come from memory
that is kept (filling fresh memory of torch's costs more than the arithmetic). On a GPU it runs in torch and never asks
the device for a number.
"""

import numpy as np
import torch
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
_MANY = 1 << 15  # rows from which on torch takes them faster than numpy
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
    if values.is_cuda or values.dtype not in _NUMPY or dtype not in _NUMPY:
        return values.to(dtype)
    return torch.from_numpy(values.numpy().astype(_NUMPY[dtype]))


def row_count(rows: Rows) -> int:
    """How many rows these are."""
    return rows.stop - rows.start if isinstance(rows, slice) else rows.numel()


def take(values: Tensor, rows: Rows) -> Tensor:
    """Those rows of ``values``; a view where they are consecutive."""
    if isinstance(rows, slice):
        return values[rows]
    if values.is_cuda or values.dtype not in _NUMPY:
        return values.index_select(0, rows)
    if rows.numel() < _MANY:
        return torch.from_numpy(values.numpy().take(rows.numpy(), axis=0))
    out = torch.from_numpy(np.empty((rows.numel(), *values.shape[1:]), _NUMPY[values.dtype]))
    return torch.index_select(values, 0, rows, out=out)


def repeat(values: Tensor, counts: Tensor, total: int) -> Tensor:
    """``values[i]`` repeated ``counts[i]`` times, for all i in turn, [total]; ``total`` is the sum of ``counts``."""
    if values.is_cuda:
        return torch.repeat_interleave(values, counts, output_size=total)
    return torch.from_numpy(values.numpy().repeat(counts.numpy()))


def add_repeated(values: Tensor, addends: Tensor, counts: Tensor) -> Tensor:
    """``values`` [R] with ``addends[i]`` added to the rows of segment i, of which there are ``counts[i]``, int64."""
    if values.is_cuda:
        return torch.repeat_interleave(addends, counts, output_size=values.numel()).add_(values)
    result = addends.numpy().repeat(counts.numpy())
    result += values.numpy()
    return torch.from_numpy(result)


def numbers_repeated(counts: Tensor, total: int) -> Tensor:
    """0 ``counts[0]`` times, 1 ``counts[1]`` times, …: the segment of each row, [total] int64."""
    if counts.is_cuda:
        return torch.repeat_interleave(counts.long(), output_size=total)
    return torch.from_numpy(np.arange(counts.numel()).repeat(counts.numpy()))


def edge_ends(source: Tensor, first_node: Tensor, edges_of_graph: Tensor, edges_of_node: Tensor) -> Tensor:
    """``edge_index`` [2, E] int64 of graphs side by side.

    Args:
        source: [E] sources, counted inside each graph, edges sorted by target.
        first_node: [G] number of each graph's first node.
        edges_of_graph: [G] number of each graph's edges.
        edges_of_node: [N] number of edges that end at each node.

    Example:
        >>> edge_ends(torch.tensor([1, 0]), torch.tensor([5]), torch.tensor([2]), torch.tensor([1, 1]))
        tensor([[6, 5],
                [0, 1]])
    """
    count = source.numel()
    if source.is_cuda:
        sources = torch.repeat_interleave(first_node, edges_of_graph, output_size=count).add_(source)
        return torch.stack((sources, torch.repeat_interleave(edges_of_node.long(), output_size=count)))
    result = np.empty((2, count), dtype=np.int64)
    np.add(first_node.numpy().repeat(edges_of_graph.numpy()), source.numpy(), out=result[0])
    result[1] = np.arange(edges_of_node.numel(), dtype=np.int32).repeat(edges_of_node.numpy())
    return torch.from_numpy(result)


def pointer(counts: Tensor) -> Tensor:
    """[G + 1] int64: where each of G consecutive segments begins, and the end of the last."""
    if counts.is_cuda:
        return torch.cat((counts.new_zeros(1, dtype=torch.int64), counts.cumsum(0)))
    return torch.from_numpy(_pointer(counts.numpy()))


def _pointer(counts: np.ndarray) -> np.ndarray:
    result = np.empty(counts.shape[0] + 1, dtype=np.int64)
    result[0] = 0
    np.cumsum(counts, out=result[1:])
    return result


def cut(
    ptr: Tensor, chosen: Rows, host_ptr: Tensor | None = None, host_chosen: Rows | None = None
) -> tuple[Rows, Tensor, Tensor]:
    """The rows of chosen segments.

    Args:
        ptr: [G + 1], where each segment begins.
        chosen: Which segments, in which order.
        host_ptr: The same as ``ptr`` on the CPU, if there is such a copy: a GPU is then not asked for numbers.
        host_chosen: The same as ``chosen`` on the CPU, with ``host_ptr``.

    Returns:
        The rows, how many each chosen segment has, and where each begins in the result.

    Example:
        >>> rows, counts, begin = cut(torch.tensor([0, 2, 5, 6]), torch.tensor([2, 0]))
        >>> rows.tolist(), counts.tolist(), begin.tolist()
        ([5, 0, 1], [1, 2], [0, 1, 3])
    """
    if isinstance(chosen, slice):
        asked = ptr if host_ptr is None else host_ptr
        first, stop = int(asked[chosen.start]), int(asked[chosen.stop])
        begin = ptr[chosen.start : chosen.stop + 1]
        return slice(first, stop), begin.diff(), begin - first
    if ptr.is_cuda:
        starts = ptr[chosen]
        counts = ptr[chosen + 1] - starts
        new = pointer(counts)
        if host_ptr is None or not isinstance(host_chosen, Tensor):
            total = int(new[-1])
        else:
            total = int((host_ptr[host_chosen + 1] - host_ptr[host_chosen]).sum())
        rows = torch.repeat_interleave(starts - new[:-1], counts, output_size=total)
        return rows.add_(torch.arange(total, device=rows.device)), counts, new
    where, segments = ptr.numpy(), chosen.numpy()
    begins = where.take(segments)
    lengths = where.take(segments + 1) - begins
    places = _pointer(lengths)
    # Rows are numbered in 32 bits where these suffice: the arithmetic is bound by memory.
    integer = np.int32 if where[-1] < 1 << 31 else np.int64
    numbers = (begins - places[:-1]).astype(integer).repeat(lengths)
    numbers += np.arange(numbers.shape[0], dtype=integer)
    return torch.from_numpy(numbers), torch.from_numpy(lengths), torch.from_numpy(places)
