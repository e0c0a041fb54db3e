"""Checks of what a user passes in, with errors that say how to mend it.

Checks of types, shapes and devices always run. Checks that must read values (batch ids, finite features) would stall
a GPU, so they run on the CPU always and on a GPU only while :class:`checking` is switched on; checks for non-finite
features cost a pass over the data and run only while it is on, on any device.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

import torch
from torch import Tensor

from lrga.errors import BatchError, DeviceError, DTypeError, NonFiniteError, OptionError, ShapeError

MAX_IDS, MAX_IDS_PER_NODE = 1 << 20, 16  # graph ids without num_graphs: the larger of the two bounds

_enabled = os.environ.get("LRGA_CHECK", "0") not in ("", "0", "false")


class checking:
    """Switches thorough checking of values on or off, permanently or as a context manager.

    Off by default (or on through the environment variable ``LRGA_CHECK=1``). While on, features are searched for NaN
    and infinity, and batch vectors on a GPU are read as those on a CPU always are.

    Example:
        >>> import torch, lrga
        >>> x = torch.full((3, 2), float("nan"))
        >>> with lrga.checking():
        ...     lrga.low_rank_attention(x, x, x)
        Traceback (most recent call last):
        ...
        lrga.errors.NonFiniteError: expected finite values in u, got 6 NaN and 0 infinite of 6. To fix: ...
    """

    def __init__(self, enabled: bool = True) -> None:
        global _enabled
        self.enabled = bool(enabled)
        self.previous, _enabled = _enabled, self.enabled

    def __enter__(self) -> "checking":
        global _enabled
        _enabled = self.enabled  # again, for one object used twice
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        global _enabled
        _enabled = self.previous


def may_read_values(tensor: Tensor) -> bool:
    """Whether a check may look at the values of ``tensor`` now (never while a compiler traces)."""
    if torch.compiler.is_compiling() or tensor.device.type == "meta":
        return False
    return tensor.device.type == "cpu" or _enabled


def stop_tracing(reason: str) -> None:
    """Ends the graph that ``torch.compile`` traces: an error that shows ``reason`` with ``fullgraph=True``."""
    if torch.compiler.is_dynamo_compiling():
        torch._dynamo.graph_break(msg=reason)


def check_features(name: str, x: Tensor, width: int | None = None) -> None:
    """Refuses anything but a floating-point matrix ``[N, width]``."""
    check_dense(name, x)
    wanted = "D" if width is None else width
    if x.dim() != 2 or (width is not None and x.size(1) != width):
        raise ShapeError(
            f"{name} of shape [N, {wanted}]",
            f"shape {list(x.shape)}",
            f"give {name} one row per node" + ("" if width is None else f" and {width} columns"),
        )
    if not x.is_floating_point():
        raise DTypeError(
            f"{name} to be floating point", str(x.dtype), f"call {name}.float(), or embed categories first"
        )
    if _enabled and not torch.compiler.is_compiling() and x.device.type != "meta" and not bool(x.isfinite().all()):
        nan, infinite = int(x.isnan().sum()), int(x.isinf().sum())
        raise NonFiniteError(
            f"finite values in {name}",
            f"{nan} NaN and {infinite} infinite of {x.numel()}",
            "look for divisions by zero or a diverged training run upstream of this layer",
        )


def check_dense(name: str, tensor: Tensor) -> None:
    """Refuses anything but a dense tensor."""
    if not isinstance(tensor, Tensor):
        got = type(tensor).__name__
        raise DTypeError(f"{name} to be a tensor", got, f"pass {name} as a torch.Tensor of shape [N, D]")
    if tensor.is_nested:
        remedy = f"pass torch.cat({name}.unbind()) with a batch vector"
        raise DTypeError(f"{name} to be one dense tensor", "a nested tensor", remedy)
    if tensor.layout != torch.strided:
        raise DTypeError(f"{name} to be a dense tensor", str(tensor.layout), f"call {name}.to_dense()")


def check_same_device(**tensors: Tensor | None) -> None:
    """Refuses tensors on different devices, naming each."""
    present = {name: t.device for name, t in tensors.items() if t is not None}
    if len(set(present.values())) > 1:
        got = ", ".join(f"{name} on {device}" for name, device in present.items())
        first = next(iter(present.values()))
        raise DeviceError("all tensors on one device", got, f"move them with .to('{first}')")


def check_same_dtype(x: Tensor, weight: Tensor | None) -> None:
    """Refuses features of another precision than the parameters, unless autocast converts them."""
    if weight is not None and x.dtype != weight.dtype and not autocast_is_on(x.device.type):
        remedy = f"call x.to({weight.dtype}), or module.to({x.dtype})"
        raise DTypeError(f"x of {weight.dtype}, as the parameters are", str(x.dtype), remedy)


def autocast_is_on(device_type: str) -> bool:
    """Whether autocast is on for this kind of device (not all have it)."""
    if device_type == "meta":
        return False
    # A compiler need not trace the first question: it compiles for devices that have autocast.
    has_it = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device_type)
    return has_it and torch.is_autocast_enabled(device_type)


def without_autocast(device_type: str) -> AbstractContextManager[object]:
    """A context in which autocast is off, for a device that may have none."""
    return torch.autocast(device_type, enabled=False) if autocast_is_on(device_type) else nullcontext()


def check_batch(batch: Tensor, num_nodes: int, num_graphs: int | None) -> None:
    """Refuses a batch vector that is no assignment of ``num_nodes`` nodes to graphs ``0 … num_graphs - 1``."""
    if not isinstance(batch, Tensor):
        raise DTypeError("batch to be a tensor or None", type(batch).__name__, "pass PyG's batch vector, data.batch")
    check_dense("batch", batch)
    if batch.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise DTypeError("integer graph ids in batch", str(batch.dtype), "call batch.long()")
    if batch.dim() != 1 or batch.size(0) != num_nodes:
        raise BatchError(
            f"batch of shape [{num_nodes}], one graph id per node",
            f"shape {list(batch.shape)}",
            "pass the batch vector that belongs to these node features",
        )
    if num_graphs is not None:
        check_count("num_graphs", num_graphs)
    if num_nodes == 0 or not may_read_values(batch):
        return
    low, high = int(batch.min()), int(batch.max())
    if low < 0:
        raise BatchError("graph ids of at least 0 in batch", f"id {low}", "number the graphs from 0")
    if num_graphs is not None and high >= num_graphs:
        raise BatchError(
            f"graph ids below num_graphs={num_graphs}",
            f"id {high}",
            f"pass num_graphs={high + 1} or more, or leave it out",
        )


def check_offsets(offsets: Tensor, num_nodes: int) -> None:
    """Refuses anything but offsets ``[0, …, num_nodes]`` of graphs, or sequences, that follow each other."""
    remedy = "pass the cumulated lengths with a 0 before them, as FlashAttention takes them"
    if not isinstance(offsets, Tensor):
        raise DTypeError("cu_seqlens to be a tensor or None", type(offsets).__name__, remedy)
    check_dense("cu_seqlens", offsets)
    if offsets.dtype not in (torch.int64, torch.int32):
        raise DTypeError("int32 or int64 offsets in cu_seqlens", str(offsets.dtype), "call cu_seqlens.int()")
    if offsets.dim() != 1 or offsets.size(0) < (2 if num_nodes else 1):
        raise BatchError("cu_seqlens of shape [G + 1]", f"shape {list(offsets.shape)}", remedy)
    if not may_read_values(offsets):
        return
    first, last, falls = int(offsets[0]), int(offsets[-1]), bool((offsets.diff() < 0).any())
    if first != 0 or last != num_nodes or falls:
        got = "falling offsets" if falls else f"{first} and {last}"
        raise BatchError(f"cu_seqlens that rise from 0 to the {num_nodes} rows of u", got, remedy)


def count_graphs(batch: Tensor) -> int:
    """How many graphs a checked batch vector tells of, its highest id being the last; this waits for a GPU.

    Memory is taken for each graph, empty ones too, so ids far beyond the number of nodes are refused.
    """
    num_nodes = batch.size(0)
    number = int(batch.max()) + 1 if num_nodes else 0
    limit = max(MAX_IDS, MAX_IDS_PER_NODE * num_nodes)
    if not torch.compiler.is_compiling() and number > limit:
        raise BatchError(
            f"graph ids below {limit} in the batch vector of {num_nodes} nodes, num_graphs not being given",
            f"id {number - 1}",
            "number the graphs anew with batch = torch.unique(batch, return_inverse=True)[1], or pass num_graphs",
        )
    return number


def check_count(name: str, value: int, minimum: int = 0) -> None:
    """Refuses anything but an integer of at least ``minimum`` (symbolic sizes of a compiler pass)."""
    if isinstance(value, torch.SymInt):
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise DTypeError(
            f"{name} to be an integer of at least {minimum}",
            f"{value!r} ({type(value).__name__})",
            f"pass {name} as an int",
        )
    if value < minimum:
        raise OptionError(f"{name} of at least {minimum}", str(value), f"pass a larger {name}")
    if value >= 2**63:
        raise OptionError(f"{name} below 2**63", "a larger number", f"pass a smaller {name}")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuses a value outside ``choices``, listing them."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise OptionError(f"{name} to be one of {listed}", repr(value), f"pick one of them for {name}")


def check_flag(name: str, value: bool) -> None:
    """Refuses anything but a truth value, such as the name of a kind of gate."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} to be True or False", repr(value), f"pass {name} as a bool")


def check_fraction(name: str, value: float) -> None:
    """Refuses anything outside [0, 1], such as a dropout of 50."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise OptionError(f"{name} between 0 and 1", repr(value), f"pass {name} as a probability")
