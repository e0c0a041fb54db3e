"""Devices and random states: all randomness of a run follows from its seed, and can be saved and restored."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from lrga.errors import DeviceError

NORM_STREAM = 2


def choose_device(name: str) -> torch.device:
    """The device of a name; ``"auto"`` is a GPU if there is one.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise DeviceError("auto, cpu, cuda or cuda:N", repr(name), "pass one of these") from error
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise DeviceError("auto, cpu, cuda or cuda:N", repr(name), "pass one of these")
    if not torch.cuda.is_available():
        got = "no GPU that this PyTorch can use"
        raise DeviceError(f"a GPU for device {name!r}", got, "pass cpu, or install a CUDA build of PyTorch")
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise DeviceError(f"a GPU called {name}", f"{torch.cuda.device_count()} GPU(s)", "pass a lower number")
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


def order_generator(seed: int, epoch: int, *, stream: int = 1) -> torch.Generator:
    """The generator of the order of graphs in an epoch; it depends only on seed and epoch, so no state needs saving.

    A seed has several independent streams, so the order does not depend on the random numbers that a model draws.
    :data:`NORM_STREAM` is the stream for recalibrating BatchNorm statistics.
    """
    return torch.Generator().manual_seed((seed * 1_000_003 + epoch) * 7 + stream & 0x7FFF_FFFF_FFFF_FFFF)


def step_seed(seed: int, epoch: int, batch: int, rank: int) -> int:
    """The seed of the random numbers of one step on one rank."""
    return (((seed * 1_000_003 + epoch) * 1_000_003 + batch) * 65_537 + rank) & 0x7FFF_FFFF_FFFF_FFFF


def stream_generator(seed: int, *path: int, device: torch.device) -> torch.Generator:
    """A separate generator on ``device`` for each ``path`` of numbers (stream, epoch, batch, …); no state needs saving.

    Example:
        >>> first, second = (stream_generator(41, 3, batch, device=torch.device("cpu")) for batch in (0, 1))
        >>> first.initial_seed() != second.initial_seed()
        True
    """
    value = seed
    for part in path:  # one step of a linear congruential generator each: different paths almost never give equal seeds
        value = (value * 6_364_136_223_846_793_005 + part + 1_442_695_040_888_963_407) & 0xFFFF_FFFF_FFFF_FFFF
        value ^= value >> 29
    return torch.Generator(device).manual_seed(value & 0x7FFF_FFFF_FFFF_FFFF)


@contextmanager
def deterministic(enabled: bool = True) -> Iterator[None]:
    """Inside the block PyTorch uses deterministic algorithms, and raises an error if an operation has none.

    The kernels of this package are always deterministic.
    """
    if not enabled:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when the first matrix product is made
    memory: Any = torch.utils.deterministic
    before, fill = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        memory.fill_uninitialized_memory = fill


class OwnRandomness:
    """PyTorch's random states of one of several runs that take turns in a process.

    Each has states of its own, so that no run depends on how much the others draw. On a GPU PyTorch's generator is made
    to point at the run's own state, which CUDA graphs recorded meanwhile keep using.

    Example:
        >>> first, second = OwnRandomness(torch.device("cpu")), OwnRandomness(torch.device("cpu"))
        >>> with first.turn():
        ...     _ = torch.manual_seed(1)
        ...     a = torch.rand(1)
        >>> with second.turn():
        ...     _ = torch.rand(100)
        >>> with first.turn():
        ...     b = torch.rand(1)
        >>> _ = torch.manual_seed(1)
        >>> torch.equal(torch.cat([a, b]), torch.cat([torch.rand(1), torch.rand(1)]))
        True
    """

    def __init__(self, device: torch.device) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda: torch.Generator | None = None
        if device.type == "cuda":
            torch.cuda.init()
            index = torch.cuda.current_device() if device.index is None else device.index
            self._default = torch.cuda.default_generators[index]
            self._cuda = torch.Generator(device)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Uses these random states inside the block; restores the previous ones afterwards."""
        with torch.random.fork_rng([]):
            torch.set_rng_state(self._cpu)
            if self._cuda is not None:
                shared = self._default.graphsafe_get_state()
                self._default.graphsafe_set_state(self._cuda)
            try:
                yield
            finally:
                self._cpu = torch.get_rng_state()
                if self._cuda is not None:
                    self._default.graphsafe_set_state(shared)


def forked_devices(device: torch.device) -> list[int]:
    """The GPU whose random state a run must not change."""
    return [device.index] if device.type == "cuda" and device.index is not None else []


def random_states(device: torch.device) -> dict[str, Tensor]:
    """PyTorch's random states of the CPU and of the current GPU, as bytes."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Restores the states of :func:`random_states`; the state of a GPU only on a GPU."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
