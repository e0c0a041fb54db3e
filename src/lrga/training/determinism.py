"""Random states: everything random in a run follows from its seed, and can be put aside and taken up again."""

import torch
from torch import Tensor

from lrga.errors import DeviceError

# One seed drives several independent streams; the order of the graphs has its own, so that it does not depend on
# how much noise a model draws.
_ORDER_STREAM, _NORM_STREAM = 1, 2


def choose_device(name: str) -> torch.device:
    """The device that ``name`` means: ``"auto"`` is a GPU where there is one.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise DeviceError("auto, cpu, cuda or cuda:N", repr(name), "name one of these") from error
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise DeviceError("auto, cpu, cuda or cuda:N", repr(name), "train on one of these")
    if not torch.cuda.is_available():
        got = "no GPU that this PyTorch can use"
        raise DeviceError(f"a GPU for device {name!r}", got, "pass cpu, or install a CUDA build of PyTorch")
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise DeviceError(f"a GPU called {name}", f"{torch.cuda.device_count()} GPU(s)", "take a lower number")
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


def seed_torch(seed: int) -> None:
    """Seeds PyTorch's own random states, from which weights, dropout and random features are drawn."""
    torch.manual_seed(seed)


def order_generator(seed: int, epoch: int) -> torch.Generator:
    """The source of an epoch's order of the graphs; it follows from seed and epoch, so nothing of it need be saved."""
    return _generator(seed, epoch, _ORDER_STREAM)


def norm_generator(seed: int, epoch: int) -> torch.Generator:
    """The source of the batches over which an epoch's BatchNorm statistics are averaged afresh."""
    return _generator(seed, epoch, _NORM_STREAM)


def step_seed(seed: int, epoch: int, batch: int, rank: int) -> int:
    """Of the noise of one step on one of several ranks."""
    return (((seed * 1_000_003 + epoch) * 1_000_003 + batch) * 65_537 + rank) & 0x7FFF_FFFF_FFFF_FFFF


def _generator(seed: int, epoch: int, stream: int) -> torch.Generator:
    generator = torch.Generator()
    generator.manual_seed((seed * 1_000_003 + epoch) * 7 + stream & 0x7FFF_FFFF_FFFF_FFFF)
    return generator


def random_states(device: torch.device) -> dict[str, Tensor]:
    """PyTorch's random states, of the CPU and of the GPU in use, as bytes."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Takes up what :func:`random_states` put aside; a GPU's only on a GPU."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
