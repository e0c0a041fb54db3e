"""One attribute of all graphs of a set as one flat tensor."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lrga.data.packed.segments import Rows, take, widen


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
        """Those rows in the type that users see, as PyG concatenates them: [1] becomes [G], [k] becomes [G k]."""
        values = widen(take(self.values, rows), self.dtype)
        return values.flatten(0, 1) if self.level == "graph" and values.dim() > 1 else values

    def to(self, device: torch.device) -> "Column":
        """The column on ``device``."""
        return replace(self, values=self.values.to(device), ptr=None if self.ptr is None else self.ptr.to(device))
