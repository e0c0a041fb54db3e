"""Checks of arguments, with errors that say how to fix them.

Checks of types, shapes and devices always run. Checks of batch ids read values, which synchronises a GPU: they always
run on a CPU, and on a GPU only while :class:`checking` is on. Checks for non-finite features need a pass over the data:
they run only while it is on, on any device.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

import torch
from torch import Tensor

from lrga.errors import (
    BatchError,
    DeviceError,
    DTypeError,
    NonFiniteError,
    OptionError,
    ShapeError,
    UnsupportedError,
)

MAX_IDS, MAX_IDS_PER_NODE = 1 << 20, 16  # limit of graph ids without num_graphs: the larger of the two

_enabled = os.environ.get("LRGA_CHECK", "0") not in ("", "0", "false")


class checking:
    """Turns checking of values on or off, permanently or as a context manager.

    Off by default; the environment variable ``LRGA_CHECK=1`` turns it on. While it is on, features are checked for NaN
    and infinity, and batch vectors are checked on a GPU too (on a CPU they always are).

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
        _enabled = self.enabled  # set again: one object may be used twice
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        global _enabled
        _enabled = self.previous


def may_read_values(tensor: Tensor) -> bool:
    """Whether a check may read the values of ``tensor`` now (never while a compiler traces)."""
    if torch.compiler.is_compiling() or tensor.device.type == "meta":
        return False
    return tensor.device.type == "cpu" or _enabled


def stop_tracing(reason: str) -> None:
    """Causes a graph break in ``torch.compile``; with ``fullgraph=True`` this is an error that shows ``reason``."""
    if torch.compiler.is_dynamo_compiling():
        torch._dynamo.graph_break(msg=reason)


def check_features(name: str, x: Tensor, width: int | None = None) -> None:
    """Raises an error unless ``x`` is a floating-point matrix ``[N, width]``."""
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
            "look for a division by zero or diverged training before this layer",
        )


def check_dense(name: str, tensor: Tensor) -> None:
    """Raises an error unless ``tensor`` is a dense tensor."""
    if not isinstance(tensor, Tensor):
        got = type(tensor).__name__
        raise DTypeError(f"{name} to be a tensor", got, f"pass {name} as a torch.Tensor of shape [N, D]")
    if tensor.is_nested:
        remedy = f"pass torch.cat({name}.unbind()) with a batch vector"
        raise DTypeError(f"{name} to be one dense tensor", "a nested tensor", remedy)
    if tensor.layout != torch.strided:
        raise DTypeError(f"{name} to be a dense tensor", str(tensor.layout), f"call {name}.to_dense()")


def check_same_device(**tensors: Tensor | None) -> None:
    """Raises an error that names the tensors if they are on different devices."""
    present = {name: t.device for name, t in tensors.items() if t is not None}
    if len(set(present.values())) > 1:
        got = ", ".join(f"{name} on {device}" for name, device in present.items())
        first = next(iter(present.values()))
        raise DeviceError("all tensors on one device", got, f"move them with .to('{first}')")


def check_same_dtype(x: Tensor, weight: Tensor | None) -> None:
    """Raises an error if features and parameters differ in precision, unless autocast converts them."""
    if weight is not None and x.dtype != weight.dtype and not autocast_is_on(x.device.type):
        remedy = f"call x.to({weight.dtype}), or module.to({x.dtype})"
        raise DTypeError(f"x of {weight.dtype}, the dtype of the parameters", str(x.dtype), remedy)


def autocast_is_on(device_type: str) -> bool:
    """Whether autocast is on for this type of device (not all types support it)."""
    if device_type == "meta":
        return False
    # A compiler does not need to trace the first check: it compiles for devices that support autocast.
    has_it = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device_type)
    return has_it and torch.is_autocast_enabled(device_type)


def without_autocast(device_type: str) -> AbstractContextManager[object]:
    """A context in which autocast is off; the device may not support autocast."""
    return torch.autocast(device_type, enabled=False) if autocast_is_on(device_type) else nullcontext()


def check_batch(batch: Tensor, num_nodes: int, num_graphs: int | None) -> None:
    """Raises an error unless ``batch`` assigns ``num_nodes`` nodes to graphs ``0 … num_graphs - 1``."""
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
    """Raises an error unless ``offsets`` are the offsets ``[0, …, num_nodes]`` of consecutive graphs or sequences."""
    remedy = "pass the cumulative lengths with a leading 0, as for FlashAttention"
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
        got = "decreasing offsets" if falls else f"{first} and {last}"
        raise BatchError(f"cu_seqlens that increase from 0 to {num_nodes}, the number of rows of u", got, remedy)


def check_edge_index(edge_index: Tensor, num_nodes: int) -> None:
    """Raises an error unless ``edge_index`` holds integer node ids below ``num_nodes``, ``[2, E]``."""
    check_count("num_nodes", num_nodes)
    if not isinstance(edge_index, Tensor):
        raise DTypeError(
            "edge_index to be a tensor of shape [2, E]",
            type(edge_index).__name__,
            "pass data.edge_index, or torch.tensor([sources, targets])",
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ShapeError(
            "edge_index of shape [2, E] with the sources in row 0 and the targets in row 1",
            f"shape {list(edge_index.shape)}",
            "transpose a list of pairs with edge_index.t()" if edge_index.shape[-1:] == (2,) else "stack two rows",
        )
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise DTypeError("node numbers of type int64 in edge_index", str(edge_index.dtype), "call edge_index.long()")
    if edge_index.size(1) == 0 or not may_read_values(edge_index):
        return
    low, high = int(edge_index.min()), int(edge_index.max())
    if low < 0 or high >= num_nodes:
        raise ShapeError(
            f"node numbers between 0 and {num_nodes - 1} in edge_index, because x has {num_nodes} nodes",
            f"node {low if low < 0 else high}",
            "give x one row for each node in edge_index, or remove the edges of missing nodes",
        )


def check_not_partitioned(edges: object) -> None:
    """Raises an error for the edges of one rank's part of a graph; their sources may exceed the rows of x."""
    if getattr(edges, "is_partitioned", False):
        raise UnsupportedError(
            "edges between the nodes of x",
            "the edges of a partitioned graph (part.edges), whose sources may be nodes of other ranks",
            "convert the model with lrga.distributed.partition_model(model, part)",
        )


def check_partitioned(edges: object) -> None:
    """Raises an error unless ``edges`` are those of one rank's part of a graph."""
    if not getattr(edges, "is_partitioned", False):
        got = type(edges).__name__
        raise DTypeError("the edges of this rank's part, part.edges", got, "call the model with x and part.edges")


def count_graphs(batch: Tensor) -> int:
    """Number of graphs of a checked batch vector: its highest id plus one. This synchronises a GPU.

    Each graph takes memory, even an empty one, so ids far above the number of nodes are an error.
    """
    num_nodes = batch.size(0)
    number = int(batch.max()) + 1 if num_nodes else 0
    limit = max(MAX_IDS, MAX_IDS_PER_NODE * num_nodes)
    if not torch.compiler.is_compiling() and number > limit:
        raise BatchError(
            f"graph ids below {limit} in the batch vector of {num_nodes} nodes, because num_graphs was not given",
            f"id {number - 1}",
            "renumber the graphs with batch = torch.unique(batch, return_inverse=True)[1], or pass num_graphs",
        )
    return number


def check_count(name: str, value: int, minimum: int = 0) -> None:
    """Raises an error unless ``value`` is an integer of at least ``minimum``, or a symbolic size of a compiler."""
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
    """Raises an error that lists ``choices`` if the value is not one of them."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise OptionError(f"{name} to be one of {listed}", repr(value), f"pick one of them for {name}")


def check_flag(name: str, value: bool) -> None:
    """Raises an error unless ``value`` is a bool."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} to be True or False", repr(value), f"pass {name} as a bool")


def check_fraction(name: str, value: float) -> None:
    """Raises an error if ``value`` is outside [0, 1], such as a dropout of 50."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise OptionError(f"{name} between 0 and 1", repr(value), f"pass {name} as a probability")
