"""One attribute of all graphs of a set as one flat tensor, and the index arithmetic that cuts batches out of it."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

# What safetensors stores and index_select moves on every device.
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
_NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)
_WIDE = (torch.int16, torch.int32, torch.int64)

Rows = slice | Tensor
"""Which rows to take: a slice where they are contiguous, else their indices [R]."""


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


def repeat(values: Tensor, counts: Tensor, total: int) -> Tensor:
    """``values[i]`` repeated ``counts[i]`` times, for all i in turn, [total].

    ``total`` is the sum of ``counts``: given, so that a GPU need not be asked.
    """
    if values.is_cuda:
        return torch.repeat_interleave(values, counts, output_size=total)
    return torch.from_numpy(np.repeat(values.numpy(), counts.numpy()))  # about five times faster than torch's


def spans(starts: Tensor, counts: Tensor, offsets: Tensor, total: int, limit: int) -> Tensor:
    """Rows ``starts[i] … starts[i] + counts[i] - 1`` for all i in turn, [total].

    ``offsets[i]`` is the number of rows before the i-th span, ``total`` the number of all; rows are numbered below
    ``limit``, in 32 bits where that suffices, because the arithmetic is bound by memory.

    Example:
        >>> counts = torch.tensor([2, 3])
        >>> spans(torch.tensor([10, 0]), counts, torch.tensor([0, 2]), 5, 12).tolist()
        [10, 11, 0, 1, 2]
    """
    shift = starts - offsets
    if max(total, limit) < 1 << 31:
        shift = shift.int()
    return repeat(shift, counts, total).add_(torch.arange(total, dtype=shift.dtype, device=shift.device))


def pointer(counts: Tensor) -> Tensor:
    """[G + 1] int64: where each of G consecutive segments begins, and the end of the last."""
    result = torch.zeros(counts.numel() + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=result[1:])
    return result


def take(values: Tensor, rows: Rows) -> Tensor:
    """Those rows of ``values``; a view where they are contiguous."""
    return values[rows] if isinstance(rows, slice) else values.index_select(0, rows)


@dataclass(frozen=True)
class Column:
    """One attribute of every graph.

    Attributes:
        level: What one row belongs to: ``"node"``, ``"edge"``, ``"graph"``, or ``"list"`` for tensors whose number of
            rows differs from graph to graph for a reason of its own.
        values: [rows, *shape], integers in the smallest type that holds them.
        dtype: The type that users see.
        scalar: ``"int"``, ``"float"`` or ``"bool"`` where each graph holds a Python number instead of a tensor.
        ptr: [G + 1], the rows of each graph of a ``"list"``.
        dim: Along which dimension a ``"list"`` was concatenated; it lies first in ``values``.
        shift: Whether the values are node numbers, to be shifted when graphs are put side by side.
    """

    level: str
    values: Tensor
    dtype: torch.dtype
    scalar: str | None = None
    ptr: Tensor | None = None
    dim: int = 0
    shift: bool = False

    def take(self, rows: Rows) -> Tensor:
        """Those rows in the type that users see."""
        return take(self.values, rows).to(self.dtype)

    def to(self, device: torch.device) -> "Column":
        """The column on ``device``."""
        return replace(self, values=self.values.to(device), ptr=None if self.ptr is None else self.ptr.to(device))
