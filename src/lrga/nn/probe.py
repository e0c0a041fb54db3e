"""The widths of a convolution, measured by running it on a graph of two nodes."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

# What a convolution raises for features of the wrong width, or if it needs further arguments.
_REFUSALS = (TypeError, RuntimeError, ValueError, AssertionError, AttributeError, IndexError, NotImplementedError)


def output_width(conv: nn.Module, in_channels: int) -> int | None:
    """Columns of the convolution's output for features ``[N, in_channels]``, or ``None`` if a trial run fails.

    The trial runs a copy, so parameters, statistics and the random state do not change.
    """
    if in_channels < 0 or any(isinstance(p, UninitializedParameter) for p in conv.parameters()):
        return None
    reference = next((p for p in conv.parameters() if p.is_floating_point()), torch.empty(0, device="cpu"))
    trial, device = copy.deepcopy(conv).eval(), reference.device
    if device.type == "meta":  # meta tensors have no values for a trial
        trial, device = trial.to_empty(device="cpu"), torch.device("cpu")
    factory: dict[str, Any] = {"device": device, "dtype": reference.dtype}
    x = torch.zeros(2, in_channels, **factory)
    edge_index = torch.tensor([[0, 1], [1, 0]], device=device)
    for options in _argument_trials(conv, in_channels, factory):
        try:
            with torch.no_grad():
                out = trial(x, edge_index, **options)
        except _REFUSALS:
            continue
        out = out[0] if isinstance(out, tuple) else out
        if isinstance(out, Tensor) and out.dim() == 2 and out.size(0) == 2:
            return out.size(1)
    return None


def input_width(conv: nn.Module) -> int | None:
    """Number of input columns of the convolution, or ``None`` if it accepts any width.

    The convolution or a layer inside it declares candidates. A candidate is accepted if a trial with it succeeds and a
    trial with one more column fails.
    """
    for candidate in dict.fromkeys(_declared_widths(conv)):
        if output_width(conv, candidate) is not None and output_width(conv, candidate + 1) is None:
            return candidate
    return None


def _declared_widths(conv: nn.Module) -> Iterator[int]:
    for module in conv.modules():
        for attribute in ("in_channels", "in_features"):
            declared = getattr(module, attribute, None)
            if isinstance(declared, tuple) and len(set(declared)) == 1:
                declared = declared[0]
            if isinstance(declared, int) and declared > 0:
                yield declared


def _argument_trials(conv: nn.Module, in_channels: int, factory: dict[str, Any]) -> Iterator[dict[str, Tensor]]:
    yield {}
    edge_dim = getattr(conv, "edge_dim", None)
    widths = [edge_dim] if isinstance(edge_dim, int) else []
    for width in dict.fromkeys([*widths, in_channels, 1, *_declared_widths(conv)]):
        yield {"edge_attr": torch.zeros(2, width, **factory)}
    yield {"edge_weight": torch.ones(2, **factory)}
    yield {"edge_type": torch.zeros(2, dtype=torch.int64, device=factory["device"])}
