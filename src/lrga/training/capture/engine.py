"""Training steps as CUDA graphs: captured once, then replayed with a single launch.

On a CPU the function is simply called. A captured step must not read values on the host and must not allocate memory
outside the graph's pool. Random numbers differ in every replay, because the graph advances its registered generators.

The workspace of matrix products belongs to the stream of the capture and is freed with a graph of that stream. Graphs
that are replayed concurrently, or that live longer than others, must therefore be captured on separate streams
(:func:`recording_stream`): with a shared workspace, products could wait for each other's counters forever.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lrga.distributed.collectives import world_size
from lrga.errors import LRGAError
from lrga.io.limits import first_line
from lrga.ops.streams import Streams, main_stream, parallel_streams
from lrga.training.determinism import random_states, restore_random_states

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

WARM_UPS = 1  # runs before the checked run: kernels are compiled, libraries allocate workspaces


class Captured:
    """A function without arguments on one device; the tensors that it returns keep their memory addresses.

    Args:
        function: The function to capture.
        stream: Stream of the capture; ``None`` on a CPU.
        snapshot: Called before the first run; returns a function that restores the state.
        pool: Memory pool shared with other graphs that are replayed sequentially (``torch.cuda.graph_pool_handle``).
        generators: Generators on this device other than PyTorch's default generator.

    Example:
        >>> total = torch.zeros(())
        >>> add = Captured(lambda: total.add_(1), None, snapshot=lambda: lambda: None)
        >>> add(), add(), float(total)
        (tensor(2.), tensor(2.), 2.0)
    """

    def __init__(
        self,
        function: Callable[[], Any],
        stream: torch.cuda.Stream | None,
        *,
        snapshot: Callable[[], Callable[[], None]],
        pool: Any = None,
        generators: Sequence[torch.Generator] = (),
    ) -> None:
        self._function = function
        self._graph: torch.cuda.CUDAGraph | None = None
        if stream is None:
            return
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
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            self._result = function()

    def __call__(self) -> Any:
        """Runs the function once and returns its result."""
        if self._graph is None:
            return self._function()
        self._graph.replay()
        return self._result

    def close(self) -> None:
        """Frees the memory of the graph; it must not be run again."""
        if self._graph is not None:
            self._graph.reset()


def recording_stream(device: torch.device) -> torch.cuda.Stream | None:
    """The stream for captures: the current stream if it is not the default one, else a new one; ``None`` on a CPU."""
    if device.type != "cuda":
        return None
    here = torch.cuda.current_stream(device)
    return main_stream(device) if here == torch.cuda.default_stream(device) else here


@contextmanager
def no_waiting() -> Iterator[None]:
    """Raises an error if code synchronises the GPU, before a capture, because a failed capture leaves traces."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # PyTorch warns once per process that this check is incomplete
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype feature")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def snapshot_of(
    trainer: "Trainer", others: Sequence[Tensor], generators: Sequence[torch.Generator] = ()
) -> Callable[[], None]:
    """Saves weights, statistics, moments and random states; returns a function that restores them in place."""
    model, optimizer, scaler, device = trainer.model, trainer.optimizer, trainer.scaler, trainer.device
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


CHECK_EVERY = 200  # batches between two checks of the losses


class Engine(ABC):
    """Runs the batches of a trainer in captured steps.

    Args:
        trainer: The trainer; its model, optimiser and sums must keep their memory addresses.
        problem: The trainer's problem.
    """

    def __init__(self, trainer: "Trainer", problem: Any) -> None:
        self.trainer, self.problem, self.device = trainer, problem, trainer.device
        self._rate, self._lr = -1.0, torch.zeros((), dtype=torch.float32, device=self.device)  # read by Adam
        sources = [getattr(module, "generator", None) for module in trainer.model.modules()]
        self._generators = [own for own in sources if isinstance(own, torch.Generator)]  # on this device: see why_plain
        self._stream = recording_stream(self.device)
        self._streams = Streams(self.device) if self.device.type == "cuda" else None  # parallel branches of its graphs
        self._pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        self._ready: dict[Hashable, Captured] = {}

    @abstractmethod
    def prepare(self) -> None:
        """Captures the usual steps; raises an error if this is not possible."""

    @abstractmethod
    def describe(self) -> str:
        """Describes the captured steps in words."""

    @abstractmethod
    def rest_of_epoch(self) -> Iterator[Any]:
        """The remaining batches of this epoch, in the trainer's order."""

    @abstractmethod
    def step(self, work: Any) -> None:
        """Runs one training step."""

    def why_differs(self) -> str | None:
        """Why captured steps would differ from the plain loop, found by a test; ``None`` if they would not."""
        return None

    def close(self) -> None:
        """Frees the captured steps now, rather than at garbage collection, which could happen in the middle of another
        run's steps. Later runs capture again."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        for run in self._ready.values():
            run.close()
        self._ready.clear()

    def recorded(self, key: Hashable, record: Callable[[], Captured]) -> Captured:
        """The step of a key; it is captured on first use."""
        if key not in self._ready:
            self._ready[key] = record()
        return self._ready[key]

    def set_rate(self) -> None:
        """Writes the learning rate of the next step to the device if it changed."""
        if self._rate != self.trainer.lr:
            self._rate = self.trainer.lr
            self._lr.fill_(self._rate)

    def captured(self, step: Callable[[], Any], *touched: Tensor) -> Captured:
        """Captures a step that changes the model, the optimiser and the tensors ``touched``."""
        average = self.trainer.average
        others = [*touched, *([] if average is None else average.averages.values())]
        snapshot = partial(snapshot_of, self.trainer, others, self._generators)
        with parallel_streams(self._streams):
            return Captured(step, self._stream, snapshot=snapshot, pool=self._pool, generators=self._generators)

    @contextmanager
    def rate_on_device(self) -> Iterator[None]:
        """Keeps the learning rate in a tensor on the device, so that captured steps follow its changes."""
        if self.device.type != "cuda":
            yield
            return
        groups = self.trainer.optimizer.param_groups
        before = [(group["lr"], group.get("capturable")) for group in groups]
        for group in groups:
            group["lr"] = self._lr
            if "capturable" in group:
                group["capturable"] = torch.cuda.is_current_stream_capturing()
        try:
            yield
        finally:
            for group, (lr, capturable) in zip(groups, before, strict=True):
                group["lr"] = lr
                if "capturable" in group:
                    group["capturable"] = capturable


def start_engine(trainer: "Trainer") -> Engine | None:
    """The engine of a trainer with captured steps; ``None`` if the plain loop trains, and the reason is logged."""
    reason = why_plain(trainer)
    if reason is None:
        try:
            engine = trainer.problem.engine(trainer, trainer.problem)
            engine.prepare()
            reason = engine.why_differs()
            if reason is None:
                trainer.guard.every = CHECK_EVERY
                trainer.checkpointer.log(f"trains in {engine.describe()}", {"engine": "captured"})
                return engine
        except (RuntimeError, TypeError, LRGAError, NotImplementedError, AssertionError) as error:
            # The plain loop can run steps that cannot be captured; real errors are raised there too.
            reason = f"the step cannot be captured: {type(error).__name__}: {first_line(error)}"
    if trainer.device.type == "cuda":
        torch.cuda.synchronize(trainer.device)
    if trainer.choice == "captured" or trainer.device.type == "cuda":
        trainer.notify("on_log", f"trains in the plain loop: {reason}")
    trainer.checkpointer.log(f"trains in the plain loop: {reason}", {"engine": "plain", "why_plain": reason})
    return None


def why_plain(trainer: "Trainer") -> str | None:
    """Why the plain loop must be used, as far as known without a capture; ``None`` if there is no reason."""
    if trainer.choice == "auto" and trainer.device.type != "cuda":
        return "there is no GPU"
    if world_size() > 1 or isinstance(trainer.model, nn.parallel.DistributedDataParallel):
        return "several processes train"
    for name, module in trainer.model.named_modules():
        source = getattr(module, "generator", None)
        if isinstance(source, torch.Generator) and source.device.type != trainer.device.type:
            return f"{name or 'the model'} draws random numbers on the {source.device.type.upper()}"
    return trainer.problem.why_not_captured()
