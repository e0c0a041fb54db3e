"""Parallel branches in captured steps.

The kernels of a small batch do not fill a GPU. During the capture of a CUDA graph, :func:`in_parallel` records
independent work on two streams, so that the graph runs it at the same time. The results are the same as in sequence.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor

A = TypeVar("A")
B = TypeVar("B")


class Streams:
    """Streams by name on one GPU; work of the same name is in sequence. Graphs that are replayed concurrently need
    their own, because the workspace of matrix products belongs to a stream.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._of_name: dict[str, torch.cuda.Stream] = {}

    def in_parallel(self, name: str, first: Callable[[], A], second: Callable[[], B], *shared: Tensor) -> tuple[A, B]:
        """See :func:`in_parallel`."""
        here = torch.cuda.current_stream(self.device)
        if name not in self._of_name:  # of high priority: PyTorch's pool of streams for captures is another one
            self._of_name[name] = torch.cuda.Stream(self.device, priority=-1)
        there = self._of_name[name]
        there.wait_stream(here)
        one = first()
        with torch.cuda.stream(there):
            two = second()
        here.wait_stream(there)
        for tensors, stream in ((shared, there), (two if isinstance(two, tuple) else (two,), here)):
            for tensor in tensors:
                if isinstance(tensor, Tensor):
                    tensor.record_stream(stream)
        return one, two


_streams: ContextVar[Streams | None] = ContextVar("streams", default=None)


@contextmanager
def parallel_streams(streams: Streams | None) -> Iterator[None]:
    """Inside the block, :func:`in_parallel` uses these streams."""
    token = _streams.set(streams)
    try:
        yield
    finally:
        _streams.reset(token)


def current_streams() -> Streams | None:
    """The streams of the innermost :func:`parallel_streams`; ``None`` for work in sequence."""
    return None if torch.compiler.is_compiling() else _streams.get()


def in_parallel(name: str, first: Callable[[], A], second: Callable[[], B], *shared: Tensor) -> tuple[A, B]:
    """``(first(), second())``; inside :func:`parallel_streams` the second runs on another stream, at the same time.

    Args:
        name: Which stream.
        first: Must not need results of ``second``.
        second: Returns a tensor, or a tuple of tensors and ``None``, or ``None``.
        *shared: Tensors that the backward pass of ``second`` reads too; their memory must not be reused before.

    Example:
        >>> in_parallel("sums", lambda: 1, lambda: torch.ones(2).sum())
        (1, tensor(2.))
    """
    streams: Any = current_streams()
    return (first(), second()) if streams is None else streams.in_parallel(name, first, second, *shared)
