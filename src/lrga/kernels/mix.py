r"""A linear map of several matrices side by side, without putting them side by side.

.. math::
    [X_1, X_2, \ldots] W^\top + b = X_1 W_1^\top + X_2 W_2^\top + \ldots + b

The concatenated matrix would be kept for the backward pass, as large as all its parts together. For small matrices one
product of a concatenation is faster, and memory does not matter: see ``WORTH_IT``.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.kernels.checks import autocast_is_on
from lrga.kernels.linear import column_sum, linear
from lrga.kernels.support import differentiates_otherwise

WORTH_IT = 1 << 25  # numbers in the concatenated matrix; measured by benchmarks/gpu.py


def mixed_linear(parts: list[Tensor], weight: Tensor, bias: Tensor | None) -> Tensor:
    """``linear(cat(parts, -1), weight, bias)`` for parts ``[N, D_i]`` and a weight ``[out, Σ D_i]``.

    Example:
        >>> import torch
        >>> a, b, weight = torch.randn(5, 2), torch.randn(5, 3), torch.randn(4, 5)
        >>> torch.allclose(mixed_linear([a, b], weight, None), torch.cat([a, b], -1) @ weight.t(), atol=1e-6)
        True
    """
    device = parts[0].device.type
    compiling = torch.compiler.is_compiling()
    # On a CPU, Inductor of PyTorch 2.13 can read a sum over neighbours before it is computed if the same features are
    # also concatenated (pytorch/pytorch#185509).
    without_cat = compiling and device == "cpu"
    # A compiler plans memory itself, and must not be asked how large a symbolic size is.
    small = compiling or parts[0].size(0) * weight.size(1) < WORTH_IT
    unusual = _has_unusual_types([*parts, weight, bias], device)
    if unusual or (not without_cat and (small or differentiates_otherwise())):
        return linear(torch.cat(parts, dim=-1), weight, bias)
    product = _sum_of_products if without_cat else _mixed
    if not autocast_is_on(device):
        return product(parts, weight, bias)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        return product([part.to(dtype) for part in parts], weight.to(dtype), None if bias is None else bias.to(dtype))


def _has_unusual_types(tensors: list[Tensor | None], device: str) -> bool:
    """Whether PyTorch's own linear map would not compute in the type of the weight, or that of autocast."""
    kinds = {tensor.dtype for tensor in tensors if tensor is not None}
    return torch.float64 in kinds if autocast_is_on(device) else len(kinds) > 1


@torch.library.custom_op("lrga::mixed_linear", mutates_args=())
def _mixed(parts: list[Tensor], weight: Tensor, bias: Tensor | None) -> Tensor:
    return _sum_of_products(parts, weight, bias)


def _sum_of_products(parts: list[Tensor], weight: Tensor, bias: Tensor | None) -> Tensor:
    columns = weight.split([part.size(1) for part in parts], dim=1)
    out = F.linear(parts[0], columns[0], bias)
    for part, column in zip(parts[1:], columns[1:], strict=True):
        out.addmm_(part, column.t())
    return out


@_mixed.register_fake
def _(parts: list[Tensor], weight: Tensor, bias: Tensor | None) -> Tensor:
    return parts[0].new_empty(parts[0].size(0), weight.size(0))


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    parts, weight, bias = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(weight, *parts)


def _backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
    weight, *parts = ctx.saved_tensors
    columns = weight.split([part.size(1) for part in parts], dim=1)
    towards_weight = torch.cat([grad.t() @ part for part in parts], dim=1)
    return [grad @ column for column in columns], towards_weight, column_sum(grad) if ctx.has_bias else None


_mixed.register_autograd(_backward, setup_context=_setup)
