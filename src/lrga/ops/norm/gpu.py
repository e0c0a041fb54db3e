"""Batch normalisation by :mod:`lrga.ops.norm.kernels` as PyTorch operators with derivatives.

Outside a compiler one launch less is needed: the kernel that normalises brings the running statistics up to date too.
An operator with a derivative may not change its inputs, so there it stands inside an autograd function; a compiler is
shown an operator that changes nothing, and the running statistics as tensor operations after it.

Letters: R rows, D channels, P parts.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd import Function

from lrga.ops._operator import operator
from lrga.ops._triton import dense, launch
from lrga.ops.norm import kernels
from lrga.ops.norm.definition import BatchNormState, follow

MIN_WHOLE = 1 << 21  # numbers from which putting the parts together again and again would cost more than a launch
WHOLE = {"BP": 256, "BD": 16, "num_warps": 8}  # many parts at once, so that few reads wait for others


@dataclass(frozen=True)
class Plan:
    """How the work is divided: parts of the rows, columns of a block, rows of a step in a part and of a tile."""

    parts: int
    rows_of_part: int
    columns: int
    step: int
    tile: int
    warps: int
    whole: bool

    @staticmethod
    def of(rows: int, width: int) -> "Plan":
        """Few parts, in narrow blocks, for few numbers; for many, whole rows and several parts on each processor."""
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
    learned, options = (x, state.weight, state.bias, residual), (count, training, before, after)
    if not torch.compiler.is_compiling():
        return _Normalize.apply(*learned, state, *options)
    y, kept = batch_norm_op(*learned, *state.running, *options, state.eps)
    if training:
        rows: Tensor | int = x.size(0) if count is None else count
        follow(state, kept[0].detach(), kept[2].detach(), rows)
    return y


class _Normalize(Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        x, weight, bias, residual, state, count, *options = args
        y, kept = launch_norm(x, state, residual, count, *options, track=options[0])
        ctx.save_for_backward(x, weight, bias, kept, count)
        ctx.options, ctx.residual = options, None if residual is None else residual.dtype
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return *_backward(ctx, grads[0], None), *(None,) * 5


def launch_norm(
    x: Tensor,
    state: BatchNormState,
    residual: Tensor | None,
    count: Tensor | None,
    training: bool,
    before: str | None,
    after: str | None,
    *,
    track: bool,
) -> tuple[Tensor, Tensor]:
    """The result ``[R, D]``, and mean, 1/√(variance + ε) and unbiased variance ``[3, D]``."""
    rows, width = x.shape
    y = torch.empty(rows, width, dtype=_result_dtype(x, residual), device=x.device)
    kept = torch.empty(3, width, device=x.device)
    if not y.numel():
        return y, kept.zero_()
    how = Plan.of(rows, width)
    x, residual, weight, bias = x.contiguous(), dense(residual), dense(state.weight), dense(state.bias)
    running = state.running
    mean, var = running[0].contiguous(), running[1].contiguous()
    parts = torch.empty(2, how.parts, width, device=x.device) if training else None
    part_mean, part_dev = (None, None) if parts is None else parts.unbind()
    batches = state.batches if track else None
    blocks = triton.cdiv(width, how.columns)
    share = {"WIDTH": width, "BD": how.columns, "num_warps": how.warps}
    average = batches if state.momentum is None else None
    statistics = (part_mean, part_dev, mean, var, average, kept, count, rows, how.parts, how.rows_of_part)
    numbers = (state.momentum or 0.0, state.eps)
    choices = {"TRAINING": training, "TRACK": track, "BEFORE": before == "relu"}
    whole = training and how.whole
    if training:
        launch(
            kernels.part_statistics, (how.parts, blocks),
            x, count, batches, part_mean, part_dev, rows, how.rows_of_part, BEFORE=before == "relu", BR=how.step,
            **share,
        )  # fmt: skip
    if whole:
        columns = triton.cdiv(width, 16)
        launch(kernels.whole_statistics, (columns,), x, *statistics, *numbers, WIDTH=width, **choices, **WHOLE)
    launch(
        kernels.normalize_rows, (triton.cdiv(rows, how.tile), blocks),
        x, weight, bias, residual, y, *statistics, *numbers,
        AFTER=after or "", WHOLE=whole, BP=64, BR=how.tile, **choices, **share,
    )  # fmt: skip
    if track:
        for given, written in zip(running, (mean, var), strict=True):
            if written is not given:  # columns of another tensor: what was brought up to date is a copy
                given.copy_(written)
    return y, kept


def _result_dtype(x: Tensor, residual: Tensor | None) -> torch.dtype:
    return x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)


@operator("lrga::batch_norm")
def batch_norm_op(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    residual: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    count: Tensor | None,
    training: bool,
    before: str | None,
    after: str | None,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """The result, and mean, 1/√(variance + ε) and unbiased variance; the running statistics stay as they are."""
    state = BatchNormState(weight, bias, running_mean, running_var, None, None, eps)
    return launch_norm(x, state, residual, count, training, before, after, track=False)


@batch_norm_op.register_fake
def _(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, *rest: Any) -> Any:
    y = torch.empty(x.shape, dtype=_result_dtype(x, residual), device=x.device)
    return y, torch.empty(3, x.size(1), device=x.device)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, bias, residual, _, _, count, *options = inputs
    ctx.save_for_backward(x, weight, bias, output[1], count)
    ctx.options, ctx.residual = options[:3], None if residual is None else residual.dtype


def _backward(ctx: Any, grad: Tensor, grad_kept: Tensor | None) -> tuple[Any, ...]:
    """Of x, weight, bias and residual; the residual's is the result's."""
    x, weight, bias, kept, count = ctx.saved_tensors
    needed = ctx.needs_input_grad
    grad_x = grad_weight = grad_bias = grad_residual = None
    if any(needed[:3]):
        grad_x, sums = batch_norm_gradient_op(x, grad, kept, weight, bias, count, *ctx.options)
        grad_weight = sums[1].to(weight.dtype) if weight is not None else None
        grad_bias = sums[0].to(bias.dtype) if bias is not None else None
    if ctx.residual is not None and needed[3]:
        grad_residual = grad.to(ctx.residual)
    return grad_x, grad_weight, grad_bias, grad_residual


batch_norm_op.register_autograd(_backward, setup_context=_keep)


@operator("lrga::batch_norm_gradient")
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
        kernels.part_gradients, (how.parts, blocks),
        *inputs, rows, how.rows_of_part, BR=how.step, **choices, **share,
    )  # fmt: skip
    if how.whole:
        columns = triton.cdiv(width, 16)
        launch(kernels.whole_gradients, (columns,), part_bias, part_weight, sums, how.parts, WIDTH=width, **WHOLE)
    launch(
        kernels.gradient_rows, (triton.cdiv(rows, how.tile), blocks),
        *inputs, sums, grad_x, rows, how.parts, TRAINING=training, WHOLE=how.whole, BP=64, BR=how.tile, **choices,
        **share,
    )  # fmt: skip
    return grad_x, sums


@batch_norm_gradient_op.register_fake
def _(x: Tensor, *rest: Any) -> Any:
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return grad_x, torch.empty(2, x.size(1), device=x.device)


batch_norm_gradient_op.refuse_derivative()
