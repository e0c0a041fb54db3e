"""Parallel branches in captured steps.

The kernels of a small batch do not fill a GPU. During the capture of a CUDA graph, :func:`in_parallel` records
independent work on two streams, so that the graph runs it at the same time. The results are the same as in sequence.

Gradients of parameters are only needed at the end of the backward pass. They are computed by autograd nodes whose
forward function was called on the stream ``GRADIENTS``. Autograd runs a node on the stream of its forward call and
makes it wait for the gradients that it receives. A parameter's gradient is accumulated on the stream of the parameter's
first use, and at the end the caller's stream waits for all of them. This includes hooks and sums of several gradients.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor

A = TypeVar("A")
B = TypeVar("B")
GRADIENTS = "gradients"  # the stream of gradients of parameters


class Streams:
    """Streams by name on one GPU; work of the same name is in sequence. Graphs that are replayed concurrently need
    their own, because the workspace of matrix products belongs to a stream.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._of_name: dict[str, torch.cuda.Stream] = {}

    def named(self, name: str) -> torch.cuda.Stream:
        """The stream of this name, of a lower priority than :func:`main_stream`, which is on the critical path."""
        if name not in self._of_name:
            self._of_name[name] = torch.cuda.Stream(self.device, priority=-1)
        return self._of_name[name]

    def in_parallel(self, name: str, first: Callable[[], A], second: Callable[[], B], *shared: Tensor) -> tuple[A, B]:
        """See :func:`in_parallel`."""
        here, there = torch.cuda.current_stream(self.device), self.named(name)
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


def main_stream(device: torch.device) -> torch.cuda.Stream:
    """A new stream for captures. PyTorch has a pool of streams for each priority, so no branch has the same stream."""
    return torch.cuda.Stream(device, priority=-2)


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
    """The streams of the innermost :func:`parallel_streams`; ``None`` for work in sequence.

    Work is in sequence where hooks save its tensors. Activation checkpointing is such a hook: its tensors are computed
    again on the stream of the first node that needs one, and nodes on other streams would not wait for that.
    """
    if torch.compiler.is_compiling() or torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return None
    return _streams.get()


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


def of_parameters(compute: Callable[[], B]) -> B:
    """``compute()``, a function of parameters alone, such as a copy in another dtype.

    Inside :func:`parallel_streams` it is computed on the stream ``GRADIENTS`` and so is its derivative. Otherwise the
    gradients would return to the stream of the caller, which would wait for them.

    Example:
        >>> of_parameters(lambda: torch.ones(2).half()).dtype
        torch.float16
    """
    return in_parallel(GRADIENTS, lambda: None, compute)[1] if torch.is_grad_enabled() else compute()
