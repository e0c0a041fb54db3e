"""A piece of training as a CUDA graph: recorded once, then replayed at the cost of one launch.

On a CPU there is nothing to record: the same function is called. What is recorded may neither read a value nor allocate
memory that is not its own; random numbers are fresh at every replay, for the graph advances the generators it knows.

The scratch memory of matrix products belongs to the stream on which they are recorded, and goes when a graph of that
stream does. Graphs that are replayed at the same time, or that live longer than others, are therefore recorded on
streams of their own (:func:`recording_stream`): sharing it, products wait for each other's counters for ever.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lrga.training.determinism import random_states, restore_random_states

WARM_UPS = 1  # runs before the rehearsal: kernels are compiled, libraries make their workspaces


class Captured:
    """A function that acts on memory of one device, without arguments or result.

    Args:
        function: What to run.
        stream: Where it is recorded; ``None`` on a CPU.
        snapshot: Called before the first run; what it returns brings everything back to where it was.
        pool: Memory shared with other graphs that are replayed one after the other (``torch.cuda.graph_pool_handle``).
        generators: Sources of randomness beside PyTorch's own, on that device.

    Example:
        >>> total = torch.zeros(())
        >>> add = Captured(lambda: total.add_(1), None, snapshot=lambda: lambda: None)
        >>> add(), add(), float(total)
        (None, None, 2.0)
    """

    def __init__(
        self,
        function: Callable[[], object],
        stream: torch.cuda.Stream | None,
        *,
        snapshot: Callable[[], Callable[[], None]],
        pool: Any = None,
        generators: Sequence[torch.Generator] = (),
    ) -> None:
        self._function = function
        self._graph = None if stream is None else _record(function, stream, snapshot, pool, generators)

    def __call__(self) -> None:
        """Runs it once."""
        if self._graph is None:
            self._function()
        else:
            self._graph.replay()

    def close(self) -> None:
        """Gives the recording's memory back; it must not be run again."""
        if self._graph is not None:
            self._graph.reset()


def recording_stream(device: torch.device) -> torch.cuda.Stream | None:
    """Where a run's steps are recorded: on the stream that it has for itself, else on a new one; a CPU has none."""
    if device.type != "cuda":
        return None
    here = torch.cuda.current_stream(device)
    return torch.cuda.Stream(device) if here == torch.cuda.default_stream(device) else here


def _record(
    function: Callable[[], object],
    stream: torch.cuda.Stream,
    snapshot: Callable[[], Callable[[], None]],
    pool: Any,
    generators: Sequence[torch.Generator],
) -> torch.cuda.CUDAGraph:
    restore, here = snapshot(), torch.cuda.current_stream(stream.device)
    stream.wait_stream(here)
    try:
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                function()
            with no_waiting():
                function()
    finally:
        here.wait_stream(stream)
        restore()
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        function()
    return graph


@contextmanager
def no_waiting() -> Iterator[None]:
    """Refuses what waits for the GPU: such a step is found out here, for a recording that it breaks leaves traces."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # PyTorch says once per process that it does not find everything that waits
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype feature")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def snapshot_of(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    others: Sequence[Tensor],
    device: torch.device,
    generators: Sequence[torch.Generator] = (),
) -> Callable[[], None]:
    """Remembers weights, statistics, moments and random states; what it returns brings them back, in place."""
    tensors = [*(p.detach() for p in model.parameters()), *model.buffers(), *others]
    values = [tensor.clone() for tensor in tensors]
    moments = {p: {key: value.clone() for key, value in entry.items()} for p, entry in optimizer.state.items()}
    scale, random = scaler.state_dict(), random_states(device)
    own = [generator.get_state() for generator in generators]

    def restore() -> None:
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
        for p, entry in optimizer.state.items():
            for key, value in entry.items():
                value.copy_(moments[p][key]) if p in moments else value.zero_()  # Adam begins with zeros
        optimizer.zero_grad(set_to_none=True)
        if scale:
            scaler.load_state_dict(scale)
        restore_random_states(random, device)
        for generator, state in zip(generators, own, strict=True):
            generator.set_state(state)

    return restore
