r"""The Triton kernels of GAT's sum. Their definition is :mod:`lrga.kernels.attention_sum`.

Forward, a program takes one head of a few nodes: it finds the largest score among the edges that end there, then adds
up :math:`e^{s - \max}` and its products with the sources in a second walk, and keeps the logarithm of the sum
:math:`\ell_i` beside the result. Backward, with :math:`\delta_i = \langle g_i, y_i \rangle`, a program takes one head
of a few sources and walks the edges that leave them, where

.. math::
    \alpha_{ji} = e^{\mathrm{score}_{ji} - \ell_i}, \qquad
    \mathrm{d}x_j = \sum_i \alpha_{ji} g_i, \qquad
    \mathrm{d}\,\mathrm{score}_{ji} = \alpha_{ji} (\langle g_i, x_j \rangle - \delta_i),

and writes the latter for each edge, to be summed by target. No atomics: results do not vary between runs. Nodes with
very many edges are not divided between programs.

Letters: N nodes, E edges, H heads, D channels of a head.
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
from lrga.kernels.triton_sum import launch_sum, may_be_long


@triton.jit
def _scores(terms, node, own, head, real, slope, HEADS: tl.constexpr):
    """Sums of the terms of other nodes and of this one, before and after the LeakyReLU; −∞ outside."""
    raw = tl.load(terms + node * HEADS + head, mask=real, other=0.0).to(tl.float32) + own
    return raw, tl.where(real, tl.where(raw > 0.0, raw, raw * slope), -float("inf"))


@triton.jit
def _attend_rows(
    x, by_source, by_target, source, ptr, y, log_total, num_rows, slope, DEPTH: tl.constexpr, HEADS: tl.constexpr,
    ROWS: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One head of ``ROWS`` nodes."""
    head = tl.program_id(1)
    column = tl.arange(0, BLOCK)
    begin = tl.program_id(0).to(tl.int64) * ROWS
    for row in range(begin, tl.minimum(begin + ROWS, num_rows)):
        first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        own = tl.load(by_target + row * HEADS + head).to(tl.float32)
        largest = tl.full([EDGES], -float("inf"), tl.float32)
        for at in range(first, end, EDGES):
            edge = at + tl.arange(0, EDGES).to(tl.int64)
            j = tl.load(source + edge, mask=edge < end, other=0)
            _, score = _scores(by_source, j, own, head, edge < end, slope, HEADS)
            largest = tl.maximum(largest, score)
        top = tl.max(largest, 0)
        total = tl.zeros([EDGES], tl.float32)
        sums = tl.zeros([EDGES, BLOCK], tl.float32)
        for at in range(first, end, EDGES):
            edge = at + tl.arange(0, EDGES).to(tl.int64)
            j = tl.load(source + edge, mask=edge < end, other=0)
            _, score = _scores(by_source, j, own, head, edge < end, slope, HEADS)
            weight = tl.exp(score - top)
            where = x + j[:, None] * (HEADS * DEPTH) + head * DEPTH + column[None, :]
            inside = (edge < end)[:, None] & (column < DEPTH)[None, :]
            sums += weight[:, None] * tl.load(where, mask=inside, other=0.0).to(tl.float32)
            total += weight
        whole = tl.where(end > first, tl.sum(total, 0), 1.0)
        result = tl.sum(sums, 0) / whole
        where = y + row * (HEADS * DEPTH) + head * DEPTH + column
        tl.store(where, result.to(y.dtype.element_ty), mask=column < DEPTH)
        tl.store(log_total + row * HEADS + head, tl.where(end > first, top + tl.log(whole), 0.0))


@triton.jit
def _dot_rows(a, b, dots, num_rows, DEPTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """⟨a, b⟩ of each row."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < num_rows)[:, None] & (column < DEPTH)[None, :]
    where = row[:, None] * DEPTH + column[None, :]
    left = tl.load(a + where, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(b + where, mask=inside, other=0.0).to(tl.float32)
    tl.store(dots + row, tl.sum(left * right, 1), mask=row < num_rows)


@triton.jit
def _attend_gradient_rows(
    x, grad, by_source, by_target, log_total, delta, target, order, ptr, grad_x, grad_source, grad_scores, num_rows,
    slope, DEPTH: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One head of ``ROWS`` sources: gradients of x and of the source's term, and of the score of each edge."""
    head = tl.program_id(1)
    column = tl.arange(0, BLOCK)
    begin = tl.program_id(0).to(tl.int64) * ROWS
    for row in range(begin, tl.minimum(begin + ROWS, num_rows)):
        first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        own = tl.load(by_source + row * HEADS + head).to(tl.float32)
        place = row * (HEADS * DEPTH) + head * DEPTH + column
        mine = tl.load(x + place, mask=column < DEPTH, other=0.0).to(tl.float32)
        sums = tl.zeros([EDGES, BLOCK], tl.float32)
        total = tl.zeros([EDGES], tl.float32)
        for at in range(first, end, EDGES):
            edge = at + tl.arange(0, EDGES).to(tl.int64)
            real = edge < end
            i = tl.load(target + edge, mask=real, other=0)
            raw, score = _scores(by_target, i, own, head, real, slope, HEADS)
            weight = tl.exp(score - tl.load(log_total + i * HEADS + head, mask=real, other=0.0))
            where = grad + i[:, None] * (HEADS * DEPTH) + head * DEPTH + column[None, :]
            inside = real[:, None] & (column < DEPTH)[None, :]
            upstream = tl.load(where, mask=inside, other=0.0).to(tl.float32)
            sums += weight[:, None] * upstream
            product = tl.sum(upstream * mine[None, :], 1)
            change = weight * (product - tl.load(delta + i * HEADS + head, mask=real, other=0.0))
            change *= tl.where(raw > 0.0, 1.0, slope)
            total += change
            at_edge = tl.load(order + edge, mask=real, other=0)
            tl.store(grad_scores + at_edge * HEADS + head, change, mask=real)
        result = tl.sum(sums, 0)
        tl.store(grad_x + place, result.to(grad_x.dtype.element_ty), mask=column < DEPTH)
        tl.store(grad_source + row * HEADS + head, tl.sum(total, 0).to(grad_source.dtype.element_ty))


def attention_sum(x: Tensor, by_source: Tensor, by_target: Tensor, layout: EdgeLayout, negative_slope: float) -> Tensor:
    """:func:`lrga.kernels.attention_sum.attention_sum` by Triton's kernels, without dropout."""
    return attend_op(
        x,
        by_source,
        by_target,
        layout.source,
        layout.target,
        layout.in_ptr,
        layout.out_order,
        turned_targets(layout, x, by_source, by_target),
        layout.out_ptr,
        negative_slope,
        may_be_long(layout.num_edges, layout.longest),
    )[0]


def _sizes(num_rows: int, heads: int, depth: int) -> dict[str, int]:
    """Whole heads, about 32 numbers for each thread."""
    block = triton.next_power_of_2(depth)
    warps = 1 if block <= 128 else 4
    edges = max(4, min(64, warps * 1024 // block))
    rows = 4 if num_rows * heads >= 1 << 14 else 1
    return {"DEPTH": depth, "HEADS": heads, "ROWS": rows, "EDGES": edges, "BLOCK": block, "num_warps": warps}


def _result_dtype(x: Tensor, by_source: Tensor, by_target: Tensor) -> torch.dtype:
    return torch.promote_types(torch.promote_types(x.dtype, by_source.dtype), by_target.dtype)


@custom_op("lrga::attention_sum", mutates_args=())
def attend_op(
    x: Tensor,
    by_source: Tensor,
    by_target: Tensor,
    source: Tensor,
    target: Tensor,
    in_ptr: Tensor,
    out_order: Tensor,
    out_target: Tensor | None,
    out_ptr: Tensor,
    slope: float,
    split: bool,
) -> tuple[Tensor, Tensor]:
    """The sums ``[N, H, D]``, and the logarithm of each node's sum of exponentials, ``[N, H]``."""
    num_rows, heads, depth = x.shape
    y = torch.empty(x.shape, dtype=_result_dtype(x, by_source, by_target), device=x.device)
    log_total = torch.empty(num_rows, heads, device=x.device)
    if not y.numel():
        return y, log_total.zero_()
    sizes = _sizes(num_rows, heads, depth)
    with torch.cuda.device_of(x):
        _attend_rows[(triton.cdiv(num_rows, sizes["ROWS"]), heads)](
            x.contiguous(), by_source.contiguous(), by_target.contiguous(), source, in_ptr, y, log_total, num_rows,
            slope, **sizes,
        )  # fmt: skip
    return y, log_total


@attend_op.register_fake
def _(x: Tensor, by_source: Tensor, by_target: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    y = torch.empty(x.shape, dtype=_result_dtype(x, by_source, by_target), device=x.device)
    return y, torch.empty(x.size(0), x.size(1), device=x.device)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, by_source, by_target, _, target, in_ptr, out_order, out_target, out_ptr, slope, split = inputs
    ctx.save_for_backward(x, by_source, by_target, *output, target, in_ptr, out_order, out_target, out_ptr)
    ctx.slope, ctx.split = slope, split


def _backward(ctx: Any, grad: Tensor, grad_log: Tensor | None) -> tuple[Tensor | None, ...]:
    return *attend_gradient_op(grad, *ctx.saved_tensors, ctx.slope, ctx.split), *(None,) * 8


attend_op.register_autograd(_backward, setup_context=_keep)


@custom_op("lrga::attention_sum_gradient", mutates_args=())
def attend_gradient_op(
    grad: Tensor,
    x: Tensor,
    by_source: Tensor,
    by_target: Tensor,
    y: Tensor,
    log_total: Tensor,
    target: Tensor,
    in_ptr: Tensor,
    out_order: Tensor,
    out_target: Tensor,
    out_ptr: Tensor,
    slope: float,
    split: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x and of both terms of the scores."""
    num_rows, heads, depth = x.shape
    grad, y, x, by_source, by_target = (t.contiguous() for t in (grad, y, x, by_source, by_target))
    grad_x, grad_source = torch.empty_like(x), torch.empty_like(by_source)
    if not x.numel():
        return grad_x, grad_source.zero_(), torch.zeros_like(by_target)
    sizes = _sizes(num_rows, heads, depth)
    delta = torch.empty(num_rows, heads, device=x.device)
    grad_scores = torch.empty(target.size(0), heads, device=x.device)
    rows = max(4, 2048 // sizes["BLOCK"])
    with torch.cuda.device_of(x):
        _dot_rows[(triton.cdiv(num_rows * heads, rows),)](
            grad, y, delta, num_rows * heads, DEPTH=depth, ROWS=rows, BLOCK=sizes["BLOCK"]
        )
        _attend_gradient_rows[(triton.cdiv(num_rows, sizes["ROWS"]), heads)](
            x, grad, by_source, by_target, log_total, delta, out_target, out_order, out_ptr, grad_x, grad_source,
            grad_scores, num_rows, slope, **sizes,
        )  # fmt: skip
    grad_target = launch_sum(grad_scores, None, None, None, None, in_ptr, None, target, split, by_target.dtype)
    return grad_x, grad_source, grad_target


@attend_gradient_op.register_fake
def _(grad: Tensor, x: Tensor, by_source: Tensor, by_target: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    grad_x, grad_source, grad_target = (
        torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (x, by_source, by_target)
    )
    return grad_x, grad_source, grad_target


refuse_derivative(attend_gradient_op)
