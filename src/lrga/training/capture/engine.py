"""A piece of training as a CUDA graph: recorded once, then replayed at the cost of one launch.

On a CPU there is nothing to record: the same function is called. What is recorded may neither read a value nor allocate
memory that is not its own; random numbers are fresh at every replay, for the graph advances the generators it knows.

The scratch memory of matrix products belongs to the stream on which they are recorded, and goes when a graph of that
stream does. Graphs that are replayed at the same time, or that live longer than others, are therefore recorded on
streams of their own (:func:`recording_stream`): sharing it, products wait for each other's counters for ever.
"""

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lrga.errors import LRGAError
from lrga.training.determinism import random_states, restore_random_states

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

WARM_UPS = 1  # runs before the rehearsal: kernels are compiled, libraries make their workspaces


class Captured:
    """A function without arguments that acts on memory of one device; tensors that it returns stay where they are.

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
        """Runs it once; returns its result."""
        if self._graph is None:
            return self._function()
        self._graph.replay()
        return self._result

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


CHECK_EVERY = 200  # batches between two looks at the losses


class Engine(ABC):
    """Runs the batches of a trainer in recorded steps.

    Args:
        trainer: Whose model, optimiser and sums are used. What it holds must stay where it is in memory.
    """

    def __init__(self, trainer: "Trainer") -> None:
        self.trainer, self.device = trainer, trainer.device
        self._rate, self._lr = -1.0, torch.zeros((), dtype=torch.float32, device=self.device)  # as Adam reads it
        sources = [getattr(module, "generator", None) for module in trainer.model.modules()]
        self._generators = [own for own in sources if isinstance(own, torch.Generator)]  # on this device: why_plain
        self._stream = recording_stream(self.device)
        self._pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        self._ready: dict[Hashable, Captured | None] = {}

    @abstractmethod
    def prepare(self) -> None:
        """Records the usual steps at once; raises whatever stands in the way."""

    @abstractmethod
    def describe(self) -> str:
        """What was recorded, in words."""

    @abstractmethod
    def rest_of_epoch(self) -> Iterator[Any]:
        """The batches of this epoch that are not done: the trainer's own, in its order."""

    @abstractmethod
    def step(self, work: Any) -> None:
        """One step of the optimiser."""

    def why_differs(self) -> str | None:
        """Why recorded steps would compute something else than the plain loop, found by trying; ``None`` if not."""
        return None

    def close(self) -> None:
        """Gives the recorded steps back, at once rather than when garbage is collected, in the middle of another run's
        steps; what is run afterwards is recorded anew."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        for run in self._ready.values():
            if run is not None:
                run.close()
        self._ready.clear()

    def set_rate(self) -> None:
        """Writes the learning rate of the next step to the device, where it changed."""
        if self._rate != self.trainer.lr:
            self._rate = self.trainer.lr
            self._lr.fill_(self._rate)

    def captured(self, step: Callable[[], Any], *touched: Tensor) -> Captured:
        """A step that changes the model, the optimiser and the tensors ``touched``, recorded."""
        trainer = self.trainer
        averages = [] if trainer.average is None else trainer.average.averages

        def snapshot() -> Callable[[], None]:
            others = [*touched, *averages]
            return snapshot_of(trainer.model, trainer.optimizer, trainer.scaler, others, self.device, self._generators)

        return Captured(step, self._stream, snapshot=snapshot, pool=self._pool, generators=self._generators)

    @contextmanager
    def rate_on_device(self) -> Iterator[None]:
        """The learning rate as a number of the device: a recorded step then follows when it changes."""
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
    """The engine of a trainer, its steps recorded; ``None`` where the plain loop trains, and everybody is told why."""
    reason = why_plain(trainer)
    engine: Engine | None = None
    if reason is None:
        try:
            engine = trainer.problem.make_engine(trainer)
            engine.prepare()
            reason = engine.why_differs()
        except (RuntimeError, TypeError, LRGAError, NotImplementedError, AssertionError) as error:
            # Whatever cannot be recorded the plain loop can do; what is wrong in itself fails there too.
            reason = f"the step cannot be captured: {_first_line(error)}"
    if reason is not None:
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        if trainer.choice == "captured" or trainer.device.type == "cuda":
            trainer.notify("on_log", f"trains in the plain loop: {reason}")
        trainer.checkpointer.log(f"trains in the plain loop: {reason}", {"engine": "plain", "why_plain": reason})
        return None
    assert engine is not None
    trainer.guard.every = CHECK_EVERY
    trainer.checkpointer.log(f"trains in {engine.describe()}", {"engine": "captured"})
    return engine


def why_plain(trainer: "Trainer") -> str | None:
    """Why the plain loop must train, as far as that can be seen without trying; ``None`` if it need not."""
    if trainer.choice == "auto" and trainer.device.type != "cuda":
        return "there is no GPU"
    if isinstance(trainer.model, nn.parallel.DistributedDataParallel):
        return "the model is spread over several processes"
    for name, module in trainer.model.named_modules():
        source = getattr(module, "generator", None)
        if isinstance(source, torch.Generator) and source.device.type != trainer.device.type:
            return f"{name or 'the model'} draws random numbers on the {source.device.type.upper()}"
    return trainer.problem.why_not_captured()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else inspect.getdoc(error) or ''}"[:200]
