"""The largest of the in-neighbours in each channel, by Triton. The definition is :mod:`lrga.kernels.message`.

A program takes a few nodes and a block of channels, walks the edges of each, several at a time, and counts how many
share the maximum. The gradient of a source is then a sum over the edges that leave it, each giving its part of the
target's gradient where the source is (one of) the largest there: no scattering, no atomics, the same bits every time.

Letters: N nodes, E edges, D channels.
"""

# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

from lrga.kernels.edges import EdgeLayout
from lrga.kernels.refusal import refuse_derivative
from lrga.kernels.sum_ops import turned_targets
from lrga.kernels.support import launch
from lrga.kernels.triton_sum import plan


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _max_rows(
    x, source, ptr, y, ties, num_rows, WIDTH: tl.constexpr, ROWS: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Maxima of ``ROWS`` nodes, zero for one without edges, and how many of its edges have them."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin = tl.program_id(0).to(tl.int64) * ROWS
    for row in range(begin, tl.minimum(begin + ROWS, num_rows)):
        first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        highest = tl.full([EDGES, BLOCK], -float("inf"), tl.float32)
        times = tl.zeros([EDGES, BLOCK], tl.float32)
        for at in range(first, end, EDGES):
            edge = at + tl.arange(0, EDGES).to(tl.int64)
            j = tl.load(source + edge, mask=edge < end, other=0)
            inside = (edge < end)[:, None] & (column < WIDTH)[None, :]
            value = tl.load(x + j[:, None] * WIDTH + column[None, :], mask=inside, other=-float("inf")).to(tl.float32)
            times = tl.where(value > highest, 0.0, times) + tl.where((value >= highest) & inside, 1.0, 0.0)
            highest = _larger(highest, value)
        top = tl.reduce(highest, 0, _larger)
        count = tl.sum(tl.where(highest == top[None, :], times, 0.0), 0)
        top = tl.where(end > first, top, 0.0)
        where = row * WIDTH + column
        tl.store(y + where, top.to(y.dtype.element_ty), mask=column < WIDTH)
        tl.store(ties + where, count, mask=column < WIDTH)


@triton.jit
def _max_gradient_rows(
    x, y, share, target, ptr, grad, num_rows, WIDTH: tl.constexpr, ROWS: tl.constexpr, EDGES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of ``ROWS`` sources."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin = tl.program_id(0).to(tl.int64) * ROWS
    for row in range(begin, tl.minimum(begin + ROWS, num_rows)):
        first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        own = tl.load(x + row * WIDTH + column, mask=column < WIDTH, other=0.0)
        total = tl.zeros([EDGES, BLOCK], tl.float32)
        for at in range(first, end, EDGES):
            edge = at + tl.arange(0, EDGES).to(tl.int64)
            i = tl.load(target + edge, mask=edge < end, other=0)
            inside = (edge < end)[:, None] & (column < WIDTH)[None, :]
            where = i[:, None] * WIDTH + column[None, :]
            top = tl.load(y + where, mask=inside, other=0.0)
            part = tl.load(share + where, mask=inside, other=0.0)
            nothing = tl.where(top == top, 0.0, top.to(tl.float32))  # a maximum that is no number gives no number
            total += tl.where(top == own[None, :], part, nothing)
        result = tl.sum(total, 0).to(grad.dtype.element_ty)
        tl.store(grad + row * WIDTH + column, result, mask=column < WIDTH)


def max_sources(x: Tensor, layout: EdgeLayout) -> Tensor:
    """:func:`lrga.kernels.message.max_sources` by Triton's kernels."""
    return max_sources_op(x, layout.source, layout.in_ptr, turned_targets(layout, x), layout.out_ptr)[0]


@custom_op("lrga::max_sources", mutates_args=())
def max_sources_op(
    x: Tensor, source: Tensor, in_ptr: Tensor, out_target: Tensor | None, out_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """Maxima ``[N, D]`` and how many edges have them, ``[N, D]`` float32."""
    x = x.contiguous()
    y, ties = torch.empty_like(x), torch.empty(x.shape, device=x.device)
    if not y.numel():
        return y, ties
    num_rows, width = x.shape
    how = plan(width)
    launch(
        _max_rows, (triton.cdiv(num_rows, how.rows), triton.cdiv(width, how.block)),
        x, source, in_ptr, y, ties, num_rows, WIDTH=width, ROWS=how.rows, EDGES=how.edges, BLOCK=how.block,
        num_warps=how.warps,
    )  # fmt: skip
    return y, ties


@max_sources_op.register_fake
def _(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty(x.shape, device=x.device)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, _, _, out_target, out_ptr = inputs
    ctx.save_for_backward(x, *output, out_target, out_ptr)


def _backward(ctx: Any, grad: Tensor, grad_ties: Tensor | None) -> tuple[Tensor | None, ...]:
    x, y, ties, out_target, out_ptr = ctx.saved_tensors
    share = grad / ties.clamp(min=1)
    return max_gradient_op(x, y, share, out_target, out_ptr), None, None, None, None


max_sources_op.register_autograd(_backward, setup_context=_keep)


@custom_op("lrga::max_gradient", mutates_args=())
def max_gradient_op(x: Tensor, y: Tensor, share: Tensor, out_target: Tensor, out_ptr: Tensor) -> Tensor:
    """The gradient of x, given each target's gradient divided by its number of maxima."""
    x = x.contiguous()
    grad = torch.empty_like(x)
    if not grad.numel():
        return grad
    num_rows, width = x.shape
    how = plan(width)
    launch(
        _max_gradient_rows, (triton.cdiv(num_rows, how.rows), triton.cdiv(width, how.block)),
        x, y.contiguous(), share.contiguous(), out_target, out_ptr, grad, num_rows, WIDTH=width, ROWS=how.rows,
        EDGES=how.edges, BLOCK=how.block, num_warps=how.warps,
    )  # fmt: skip
    return grad


@max_gradient_op.register_fake
def _(x: Tensor, *rest: Any) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


refuse_derivative(max_gradient_op)
