"""Batch normalisation by :mod:`lrga.ops.norm.kernels`, with derivatives.

The kernel that normalises also updates the running statistics. An operator with a derivative must not modify
its inputs, so this is an autograd function; a compiler uses the definition and fuses it itself.

Letters: R rows, D channels, P parts.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
from torch import Tensor
from torch.autograd import Function

from lrga.ops._operator import operator
from lrga.ops._triton import dense, launch
from lrga.ops.norm import kernels
from lrga.ops.norm.definition import BatchNormState

MIN_WHOLE = 1 << 21  # for more numbers, merging the parts in every program costs more than a launch
WHOLE = {"BP": 256, "BD": 16, "num_warps": 8}  # many parts at a time, so that few reads wait for others


class Plan(NamedTuple):
    """How the work is split: parts of the rows, columns per block, rows per step of a part and per tile."""

    parts: int
    rows_of_part: int
    columns: int
    step: int
    tile: int
    warps: int
    whole: bool

    @staticmethod
    def of(rows: int, width: int) -> "Plan":
        """For few numbers, few parts in narrow blocks; for many, whole rows and several parts per multiprocessor."""
        many = rows * width > MIN_WHOLE
        columns = min(triton.next_power_of_2(width), 128 if many else 32)
        step = max(8, (4096 if many else 1024) // columns)
        rows_of_part = triton.cdiv(triton.cdiv(rows, 264 if many else 64), step) * step
        tile = max(16, (4096 if many else 2048) // columns)
        return Plan(triton.cdiv(rows, rows_of_part), rows_of_part, columns, step, tile, 8 if many else 4, many)


def batch_norm(
    x: Tensor,
    state: BatchNormState,
    *,
    training: bool,
    count: Tensor | None = None,
    before: str | None = None,
    after: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """:func:`lrga.ops.norm.definition.batch_norm` by Triton's kernels."""
    y: Tensor = _Normalize.apply(x, state.weight, state.bias, residual, state, count, training, before, after)
    return y


class _Normalize(Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        """The result; in training, updates the running statistics. Saves mean and 1/√(variance + ε), ``[2, D]``."""
        x, weight, bias, residual, state, count, training, before, after = args
        rows, width = x.shape
        dtype = x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)
        y, kept = torch.empty(rows, width, dtype=dtype, device=x.device), torch.empty(2, width, device=x.device)
        ctx.save_for_backward(x, weight, bias, kept, count)
        ctx.options, ctx.residual = (training, before, after), None if residual is None else residual.dtype
        if not y.numel():
            kept.zero_()
            return y
        how = Plan.of(rows, width)
        x, residual, weight, bias = x.contiguous(), dense(residual), dense(weight), dense(bias)
        running = state.running
        mean, var = running[0].contiguous(), running[1].contiguous()
        part_mean, part_dev = torch.empty(2, how.parts, width, device=x.device).unbind() if training else (None, None)
        blocks = triton.cdiv(width, how.columns)
        share = {"WIDTH": width, "BD": how.columns, "num_warps": how.warps}
        average = state.batches if training and state.momentum is None else None
        statistics = (part_mean, part_dev, mean, var, average, kept, count, rows, how.parts, how.rows_of_part)
        numbers = (state.momentum or 0.0, state.eps)
        choices = {"TRAINING": training, "BEFORE": before == "relu"}
        whole = training and how.whole
        if training:
            launch(
                kernels.part_statistics, (how.parts, blocks),
                x, count, state.batches, part_mean, part_dev, rows, how.rows_of_part, BEFORE=before == "relu",
                BR=how.step, **share,
            )  # fmt: skip
        if whole:
            columns = triton.cdiv(width, 16)
            launch(kernels.whole_statistics, (columns,), x, *statistics, *numbers, WIDTH=width, **choices, **WHOLE)
        launch(
            kernels.normalize_rows, (triton.cdiv(rows, how.tile), blocks),
            x, weight, bias, residual, y, *statistics, *numbers,
            AFTER=after or "", WHOLE=whole, BP=64, BR=how.tile, **choices, **share,
        )  # fmt: skip
        if training:
            for given, written in zip(running, (mean, var), strict=True):
                if written is not given:  # columns of another tensor: a copy was updated
                    given.copy_(written)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (grad,), needed = grads, ctx.needs_input_grad
        x, weight, bias, kept, count = ctx.saved_tensors
        grad_x = grad_weight = grad_bias = None
        if any(needed[:3]):
            grad_x, sums = batch_norm_gradient_op(x, grad, kept, weight, bias, count, *ctx.options)
            grad_weight = sums[1].to(weight.dtype) if weight is not None else None
            grad_bias = sums[0].to(bias.dtype) if bias is not None else None
        grad_residual = grad.to(ctx.residual) if needed[3] else None
        return grad_x, grad_weight, grad_bias, grad_residual, *(None,) * 5


@operator(
    "lrga::batch_norm_gradient",
    lambda x, *_: (torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty(2, x.size(1), device=x.device)),
    differentiable=False,
)
def batch_norm_gradient_op(
    x: Tensor,
    grad: Tensor,
    kept: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    count: Tensor | None,
    training: bool,
    before: str | None,
    after: str | None,
) -> tuple[Tensor, Tensor]:
    """The gradient of x ``[R, D]``, and those of bias and weight ``[2, D]`` in float32."""
    rows, width = x.shape
    grad_x, sums = torch.empty_like(x, memory_format=torch.contiguous_format), torch.empty(2, width, device=x.device)
    if not grad_x.numel():
        return grad_x, sums.zero_()
    how = Plan.of(rows, width)
    parts = torch.empty(2, how.parts, width, device=x.device)
    part_bias, part_weight = parts.unbind()
    blocks = triton.cdiv(width, how.columns)
    share = {"WIDTH": width, "BD": how.columns, "num_warps": how.warps}
    grad = grad if grad.stride(1) == 1 and grad.stride(0) >= width else grad.contiguous()
    choices = {"BEFORE": before == "relu", "AFTER": after or "", "STRIDE": grad.stride(0)}
    inputs = (x.contiguous(), grad, kept.contiguous(), dense(weight), dense(bias), count, part_bias, part_weight)
    launch(
        kernels.part_gradients, (how.parts, blocks), *inputs, rows, how.rows_of_part, BR=how.step, **choices, **share
    )
    if how.whole:
        columns = triton.cdiv(width, 16)
        launch(kernels.whole_gradients, (columns,), part_bias, part_weight, sums, how.parts, WIDTH=width, **WHOLE)
    launch(
        kernels.gradient_rows, (triton.cdiv(rows, how.tile), blocks),
        *inputs, sums, grad_x, rows, how.parts, TRAINING=training, WHOLE=how.whole, BP=64, BR=how.tile, **choices,
        **share,
    )  # fmt: skip
    return grad_x, sums


class UnitRows(Function):
    """:func:`lrga.ops.norm.definition.unit_rows`; one kernel computes the values and the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.eps = eps
        return _unit_rows(x, None, eps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (grad,), (x,) = grads, ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is differentiated
            return torch.autograd.grad(F.normalize(x, eps=ctx.eps), x, grad, create_graph=True)[0], None
        return _unit_rows(x, grad, ctx.eps), None


def _unit_rows(x: Tensor, grad: Tensor | None, eps: float) -> Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    if y.numel():
        (rows, width), block = x.shape, triton.next_power_of_2(x.size(1))
        tile = max(1, 2048 // block)
        launch(
            kernels.unit_rows, (triton.cdiv(rows, tile),), x.contiguous(), dense(grad), y, rows, eps,
            WIDTH=width, BR=tile, BD=block,
        )  # fmt: skip
    return y
