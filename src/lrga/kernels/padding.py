"""Batches of a fixed capacity: which rows are real.

A captured training step needs tensors of one shape. A batch is then filled up to a capacity of nodes and edges, and
what comes after the real rows is padding: nodes that belong to one dummy graph, edges past ``in_ptr[-1]`` of the
:class:`~lrga.kernels.edges.EdgeLayout`, which no node sums. Values there are finite and mean nothing; whatever takes
statistics over rows asks :func:`real_rows` how many to look at. The number lies on the device, so that nothing waits.

Letters: R rows of a tensor.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_capacities: ContextVar[Mapping[int, Tensor] | None] = ContextVar("capacities", default=None)


@contextmanager
def padded(real: Mapping[int, Tensor]) -> Iterator[None]:
    """Within it, tensors of ``R`` rows have only ``real[R]`` (a 0-dimensional int64 tensor) real ones, the first.

    Example:
        >>> import torch
        >>> x = torch.zeros(8, 2)
        >>> with padded({8: torch.tensor(5)}):
        ...     real_rows(x)
        tensor(5)
        >>> real_rows(x) is None
        True
    """
    token = _capacities.set(real)
    try:
        yield
    finally:
        _capacities.reset(token)


def real_rows(x: Tensor) -> Tensor | None:
    """How many of the rows of ``x`` are real, as a 0-dimensional tensor; ``None`` if all are.

    A compiler cannot look at the surroundings of a call: in what it compiles all rows are real.
    """
    if torch.compiler.is_compiling():
        return None
    capacities = _capacities.get()
    return None if capacities is None else capacities.get(x.size(0))
