r"""Linear maps of many rows with a separate kernel for the bias gradient, and linear maps of concatenated matrices.

.. math::
    y = x W^\top + b, \qquad
    \bar x = \bar y \, W, \quad \bar W = \bar y^\top x, \quad \bar b = \sum_r \bar y_r

The values are those of :func:`torch.nn.functional.linear`, where b̄ takes as long as a matrix product; a training step
has about thirty such sums over a few thousand rows. In the forward pass, x with a single column is multiplied without a
matrix product. (Padding rows to 16 bytes, and transposing W so that both factors are contiguous along the summed index,
were also measured: at these sizes the copies cost as much as they save.) On a CPU, in float64, with few rows and in a
compiler, which plans memory itself, :func:`linear` is PyTorch's function.

:func:`mixed_linear` applies a linear map to concatenated matrices without concatenating them:

.. math::
    [X_1, X_2, \ldots] W^\top + b = X_1 W_1^\top + X_2 W_2^\top + \ldots + b

The concatenated matrix would be stored for the backward pass, in addition to its parts. For small matrices one
product of the concatenation is faster, and memory does not matter: see ``MIN_MIXED_NUMBERS``.

Letters: B matrices, R rows, D columns, P parts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from lrga.checks import autocast_is_on
from lrga.ops._operator import is_plain_tensor
from lrga.ops._triton import cdiv, differentiates_otherwise, launch, next_power_of_2, runs_on_gpu
from lrga.ops.streams import GRADIENTS, current_streams, of_parameters

MIN_ROWS = 1024  # with fewer rows, launches cost more than the products
MIN_MIXED_NUMBERS = 1 << 25  # numbers in the concatenated matrix; measured by benchmarks/gpu.py
MAX_ROWS_OF_ONE_LAUNCH = 1024  # up to this, one launch with narrow blocks is faster than partial sums
ROWS_OF_PART, MAX_PARTS = 128, 512
MAX_NUMBERS_ASIDE = 1 << 24  # in x and y; beyond, a product fills the GPU, and their memory would be kept


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x Wᵀ + b``, ``[R, in]`` to ``[R, out]``; the weight is ``[out, in]``, the bias ``[out]`` or ``None``.

    Example:
        >>> import torch
        >>> linear(torch.ones(2, 3), torch.ones(1, 3), torch.ones(1)).tolist()
        [[4.0], [4.0]]
    """
    if not is_supported(x, weight, bias):
        return F.linear(x, weight, bias)
    return _in_one_type([x], weight, bias)


def _in_one_type(parts: list[Tensor], weight: Tensor, bias: Tensor | None) -> Tensor:
    """The linear map of concatenated matrices, under autocast in its dtype. A compiler differentiates it itself."""
    device = weight.device.type
    if not autocast_is_on(device):
        return _product(weight, bias, *parts)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        weight, bias = of_parameters(lambda: (weight.to(dtype), None if bias is None else bias.to(dtype)))
        return _product(weight, bias, *(part.to(dtype) for part in parts))


def _product(weight: Tensor, bias: Tensor | None, *parts: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        return _sum_of_products(weight, bias, *parts)
    streams, aside = current_streams(), None
    learned = weight.requires_grad or (bias is not None and bias.requires_grad)
    few = parts[0].size(0) * sum(weight.shape) <= MAX_NUMBERS_ASIDE
    if streams is not None and few and learned and torch.is_grad_enabled():
        # Allocated on this stream: the other one joins a capture only in the backward pass and cannot allocate yet.
        aside = weight.new_empty(()).expand(parts[0].size(0), weight.size(0))
        # Before the parameters are used on this stream: autograd accumulates gradients on the stream of the first use.
        with torch.cuda.stream(streams.named(GRADIENTS)):
            aside = GradientsAside.apply(aside, weight, bias, *parts)
    return Linear.apply(aside, weight, bias, *parts)


def is_supported(x: Tensor, *parameters: Tensor | None) -> bool:
    """Whether :func:`linear` uses its own version: many rows, on a GPU, all of one dtype or under autocast."""
    if torch.compiler.is_compiling() or x.dim() != 2 or x.size(0) < MIN_ROWS:
        return False
    same = all(t is None or t.dtype == x.dtype for t in parameters)
    return runs_on_gpu(x, *parameters) and (same or autocast_is_on(x.device.type))


class Linear(Function):
    """``[X_1, X_2, …] Wᵀ + b`` of one or several matrices, with second derivatives. ``aside`` is ``None`` or a
    :class:`GradientsAside`."""

    @staticmethod
    def forward(ctx: Any, aside: Tensor | None, weight: Tensor, bias: Tensor | None, *parts: Tensor) -> Tensor:
        _, need_weight, _, *need_parts = ctx.needs_input_grad
        ctx.widths, keep_parts = [part.size(1) for part in parts], need_weight and aside is None
        ctx.save_for_backward(weight if any(need_parts) else None, *(parts if keep_parts else ()))
        return _sum_of_products(weight, bias, *parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        weight, *parts = ctx.saved_tensors
        columns = [None] * len(ctx.widths) if weight is None else _columns(weight, ctx.widths)
        of_parts = [None if column is None else torch.mm(grad, column) for column in columns]
        if ctx.needs_input_grad[0]:
            return grad, None, None, *of_parts
        return None, *_gradients_of_parameters(grad, parts, need_bias=ctx.needs_input_grad[2]), *of_parts


class GradientsAside(Function):
    """A placeholder for the parameters in a linear map, whose gradient is that of the map's result. The gradients of
    the parameters are computed on the stream of this call; see :mod:`lrga.ops.streams`."""

    @staticmethod
    def forward(ctx: Any, aside: Tensor, weight: Tensor, bias: Tensor | None, *parts: Tensor) -> Tensor:  # noqa: ARG004
        ctx.save_for_backward(*(parts if ctx.needs_input_grad[1] else ()))
        return aside

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), parts = grads, ctx.saved_tensors
        if not torch.is_grad_enabled():
            # The kernels may still read these when autograd, on its stream, would reuse their memory, or add to a
            # gradient in place because nothing else refers to it. This node lives until the backward pass has ended.
            ctx.kept = grad, parts
        of_both = _gradients_of_parameters(grad, parts, need_bias=ctx.needs_input_grad[2])
        return None, *of_both, *(None,) * (len(ctx.needs_input_grad) - 3)


def _gradients_of_parameters(
    grad: Tensor, parts: Sequence[Tensor], *, need_bias: bool
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the weight (``None`` without parts) and of the bias."""
    products = [torch.mm(grad.t(), part) for part in parts]
    of_weight = None if not products else products[0] if len(products) == 1 else torch.cat(products, dim=1)
    return of_weight, _bias_gradient(grad) if need_bias else None


def _sum_of_products(weight: Tensor, bias: Tensor | None, *parts: Tensor) -> Tensor:
    if len(parts) == 1 and parts[0].size(1) == weight.size(1) == 1:  # the library would use a matrix product here
        row = weight.view(1, -1)
        return parts[0] * row if bias is None else torch.addcmul(bias, parts[0], row)
    columns = _columns(weight, [part.size(1) for part in parts])
    out = F.linear(parts[0], columns[0], bias)
    for part, column in zip(parts[1:], columns[1:], strict=True):
        out.addmm_(part, column.t())
    return out


def _columns(weight: Tensor, widths: list[int]) -> tuple[Tensor, ...]:
    return (weight,) if len(widths) == 1 else weight.split(widths, dim=1)


def _bias_gradient(grad: Tensor) -> Tensor:
    """The sum over the rows, ``[R, D]`` to ``[D]``; by PyTorch if the gradient is differentiated or traced."""
    if torch.is_grad_enabled() or not is_plain_tensor(grad) or not runs_on_gpu(grad):
        return grad.sum(0)
    return launch_column_sum(grad.unsqueeze(0)).squeeze(0)


class Plan(NamedTuple):
    """How a sum is split: parts of the rows, rows and columns of a step, warps."""

    parts: int
    rows: int
    columns: int
    warps: int


def plan(rows: int, width: int) -> Plan:
    """Few rows: narrow blocks, so that many programs share the columns. Many: parts of the rows, and their sum."""
    if rows <= MAX_ROWS_OF_ONE_LAUNCH:
        step = max(16, next_power_of_2(rows))  # many loads in flight hide their latency
        return Plan(1, step, min(8, next_power_of_2(width)), max(4, step // 128))
    parts = min(MAX_PARTS, next_power_of_2(cdiv(rows, ROWS_OF_PART)))
    return Plan(parts, ROWS_OF_PART, min(32, next_power_of_2(width)), 8)


def launch_column_sum(x: Tensor, how: Plan | None = None) -> Tensor:
    """The sum over the rows of each matrix, ``[B, R, D]`` to ``[B, D]``, in float32 and then rounded to x's dtype."""
    matrices, rows, width = x.shape
    out = torch.empty(matrices, width, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    how = how or plan(rows, width)
    x = x if x.stride(2) == 1 and x.stride(1) >= width else x.contiguous()
    if how.parts > 1:
        parts = torch.empty(matrices, how.parts, width, dtype=torch.float32, device=x.device)
        _sum_parts(x, parts, how)
        x, how = parts, Plan(1, max(16, next_power_of_2(how.parts)), 16, 4)
    _sum_parts(x, out, how)
    return out


def _sum_parts(x: Tensor, out: Tensor, how: Plan) -> None:
    from lrga.ops.linear_kernels import sum_rows_of_part

    matrices, rows, width = x.shape
    grid = (how.parts, cdiv(width, how.columns), matrices)
    launch(
        sum_rows_of_part, grid,
        x, out, rows, cdiv(rows, how.parts), x.stride(0), STRIDE=x.stride(1), WIDTH=width, BR=how.rows,
        BD=how.columns, num_warps=how.warps,
    )  # fmt: skip


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
    # A compiler plans memory itself, and comparisons with symbolic sizes must be avoided.
    small = compiling or parts[0].size(0) * weight.size(1) < MIN_MIXED_NUMBERS
    kinds = {tensor.dtype for tensor in (*parts, weight, bias) if tensor is not None}
    # Whether PyTorch's linear map would not compute in the dtype of the weight or of autocast.
    unusual = torch.float64 in kinds if autocast_is_on(device) else len(kinds) > 1
    if unusual or (not without_cat and (small or differentiates_otherwise())):
        return linear(torch.cat(parts, dim=-1), weight, bias)
    return _in_one_type(parts, weight, bias)
