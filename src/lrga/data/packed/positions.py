"""Which graphs of a set are meant: slices, lists, masks and vectors of positions, checked."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lrga.errors import BatchError, DTypeError

Index = int | slice | range | Sequence[int] | Tensor | np.ndarray


def positions(index: Index, count: int) -> slice | Tensor:
    """``index`` into ``count`` graphs as a forward slice with step 1, or as non-negative positions [B] on the CPU.

    Example:
        >>> positions(slice(None, 3), 5), positions([-1, 0], 5).tolist()
        (slice(0, 3, None), [4, 0])
    """
    if isinstance(index, slice):
        start, stop, step = index.indices(count)
        if step == 1:
            return slice(start, max(start, stop))
        index = range(start, stop, step)
    if not isinstance(index, Tensor):
        try:
            index = torch.as_tensor(np.asarray(index))
        except (TypeError, ValueError) as error:
            raise DTypeError(
                "positions of graphs, a list or a vector of integers", repr(index), "pass for example [0, 5, 2]"
            ) from error
    found = index.cpu()
    if found.dtype == torch.bool:
        if found.shape != (count,):
            raise BatchError(
                f"a mask with one entry for each of {count:,} graphs",
                f"shape {list(found.shape)}",
                "pass such a mask, or the positions of the graphs",
            )
        return found.nonzero().flatten()
    if found.numel() == 0:
        return found.long().flatten()
    if found.is_floating_point() or found.is_complex() or found.dim() != 1:
        raise DTypeError(
            "positions of graphs, a list or a vector of integers",
            f"{found.dtype} of shape {list(found.shape)}",
            "pass for example torch.tensor([0, 5, 2])",
        )
    found = found.long()
    bad = (found < -count) | (found >= count)
    if bad.any():
        raise BatchError(
            f"positions of graphs from {-count} to {count - 1}", f"{int(found[bad][0])}", "leave out what is not there"
        )
    return torch.where(found < 0, found + count, found)
