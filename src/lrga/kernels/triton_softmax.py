r"""The Triton kernels of GAT's sum. Their definition is :mod:`lrga.kernels.attention_sum`.

A program takes a group of heads of one node, all of them if they are not too wide together: the row of a neighbour and
the scores of its heads are then read in one piece each. Forward it walks the edges that end there, several at a time,
and adds up :math:`e^{s - m}` and its products with the sources, where :math:`m` is the largest score so far: a larger
one shrinks what was added before. The logarithm of the sum :math:`\ell_i` is kept beside the result. Backward, with
:math:`\delta_i = \langle g_i, y_i \rangle`, it walks the edges that leave a source, where

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
from lrga.kernels.support import launch
from lrga.kernels.triton_sum import launch_sum, may_be_long


@triton.jit
def heads_of_program(GROUP: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr, HEADS: tl.constexpr):
    """The heads of this program, their places in a row, and which of both there are."""
    head = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    column = tl.arange(0, BLOCK)
    place = head[:, None] * DEPTH + column[None, :]
    return head, head < HEADS, place, (head < HEADS)[:, None] & (column < DEPTH)[None, :]


@triton.jit
def of_nodes(terms, node, head, real, HEADS: tl.constexpr):
    """A number of some nodes and of each head, ``[EDGES, GROUP]`` in float32; zero outside."""
    return tl.load(terms + node[:, None] * HEADS + head[None, :], mask=real, other=0.0).to(tl.float32)


@triton.jit
def rows_of_nodes(x, node, place, real, inside, WIDTH: tl.constexpr):
    """The rows of some nodes, ``[EDGES, GROUP, BLOCK]`` in float32; zero outside."""
    where = x + node[:, None, None] * WIDTH + place[None, :, :]
    return tl.load(where, mask=real[:, None, None] & inside[None, :, :], other=0.0).to(tl.float32)


@triton.jit
def _attend_rows(
    x, by_source, by_target, source, ptr, y, log_total, slope, DEPTH: tl.constexpr, HEADS: tl.constexpr,
    GROUP: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A group of heads of one node. Each of the ``EDGES`` that are walked at once has its own largest score."""
    row = tl.program_id(0).to(tl.int64)
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
    own = tl.load(by_target + row * HEADS + head, mask=is_head, other=0.0).to(tl.float32)
    top = tl.full([EDGES, GROUP], -float("inf"), tl.float32)
    total = tl.zeros([EDGES, GROUP], tl.float32)
    sums = tl.zeros([EDGES, GROUP, BLOCK], tl.float32)
    step = tl.arange(0, EDGES).to(tl.int64)
    j = tl.load(source + first + step, mask=first + step < end, other=0)
    for at in range(first, end, EDGES):
        edge = at + step
        real = edge < end
        following = tl.load(source + edge + EDGES, mask=edge + EDGES < end, other=0)  # asked for ahead of its use
        counted = real[:, None] & is_head[None, :]
        raw = of_nodes(by_source, j, head, counted, HEADS) + own[None, :]
        score = tl.where(counted, tl.where(raw > 0.0, raw, raw * slope), -float("inf"))
        higher = tl.maximum(top, score)
        shift = tl.where(higher == -float("inf"), 0.0, higher)  # nothing yet: no difference of infinities
        weight, shrink = tl.exp(score - shift), tl.exp(top - shift)
        values = rows_of_nodes(x, j, place, real, inside, HEADS * DEPTH)
        sums = sums * shrink[:, :, None] + weight[:, :, None] * values
        total = total * shrink + weight
        top, j = higher, following
    highest = tl.max(top, 0)
    shrink = tl.exp(top - tl.where(highest == -float("inf"), 0.0, highest)[None, :])
    whole = tl.where(is_head & (end > first), tl.sum(total * shrink, 0), 1.0)
    result = tl.sum(sums * shrink[:, :, None], 0) / whole[:, None]
    tl.store(y + row * (HEADS * DEPTH) + place, result.to(y.dtype.element_ty), mask=inside)
    tl.store(log_total + row * HEADS + head, tl.where(end > first, highest + tl.log(whole), 0.0), mask=is_head)


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
    x, grad, by_source, by_target, log_total, delta, target, order, ptr, grad_x, grad_source, grad_scores, slope,
    DEPTH: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A group of heads of one source: gradients of x and of the source's terms, and of the scores of each edge."""
    row = tl.program_id(0).to(tl.int64)
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
    own = tl.load(by_source + row * HEADS + head, mask=is_head, other=0.0).to(tl.float32)
    mine = tl.load(x + row * (HEADS * DEPTH) + place, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros([EDGES, GROUP], tl.float32)
    sums = tl.zeros([EDGES, GROUP, BLOCK], tl.float32)
    step = tl.arange(0, EDGES).to(tl.int64)
    i = tl.load(target + first + step, mask=first + step < end, other=0)
    for at in range(first, end, EDGES):
        edge = at + step
        real = edge < end
        following = tl.load(target + edge + EDGES, mask=edge + EDGES < end, other=0)
        at_edge = tl.load(order + edge, mask=real, other=0)
        counted = real[:, None] & is_head[None, :]
        upstream = rows_of_nodes(grad, i, place, real, inside, HEADS * DEPTH)
        raw = of_nodes(by_target, i, head, counted, HEADS) + own[None, :]
        score = tl.where(raw > 0.0, raw, raw * slope) - of_nodes(log_total, i, head, counted, HEADS)
        weight = tl.exp(tl.where(counted, score, -float("inf")))
        sums += weight[:, :, None] * upstream
        change = tl.sum(upstream * mine[None, :, :], 2) - of_nodes(delta, i, head, counted, HEADS)
        change *= weight * tl.where(raw > 0.0, 1.0, slope)
        total += change
        tl.store(grad_scores + at_edge[:, None] * HEADS + head[None, :], change, mask=counted)
        i = following
    tl.store(grad_x + row * (HEADS * DEPTH) + place, tl.sum(sums, 0).to(grad_x.dtype.element_ty), mask=inside)
    tl.store(
        grad_source + row * HEADS + head, tl.sum(total, 0).to(grad_source.dtype.element_ty), mask=is_head
    )  # fmt: skip


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


WIDEST = 256  # numbers of a row, heads and channels filled up to powers of two, up to which heads stay together
NUMBERS = 32  # of a tile for each thread


def _sizes(heads: int, depth: int) -> dict[str, int]:
    """As many heads as fit together, then edges; one warp unless a single head is wide."""
    block = triton.next_power_of_2(depth)
    group = min(triton.next_power_of_2(heads), max(1, WIDEST // block))
    warps = min(16, max(1, group * block // WIDEST))
    edges = max(2, min(32, warps * 32 * NUMBERS // (group * block)))
    return {"DEPTH": depth, "HEADS": heads, "GROUP": group, "EDGES": edges, "BLOCK": block, "num_warps": warps}


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
    sizes = _sizes(heads, depth)
    launch(
        _attend_rows, (num_rows, triton.cdiv(heads, sizes["GROUP"])),
        x.contiguous(), by_source.contiguous(), by_target.contiguous(), source, in_ptr, y, log_total, slope,
        **sizes,
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
    given = (grad, x, by_source, by_target, y, log_total)
    grad, x, by_source, by_target, y, log_total = (t.contiguous() for t in given)
    grad_x, grad_source = torch.empty_like(x), torch.empty_like(by_source)
    if not x.numel():
        return grad_x, grad_source.zero_(), torch.zeros_like(by_target)
    sizes = _sizes(heads, depth)
    delta = torch.empty(num_rows, heads, device=x.device)
    grad_scores = torch.empty(target.size(0), heads, device=x.device)
    rows = max(4, 2048 // sizes["BLOCK"])
    launch(
        _dot_rows, (triton.cdiv(num_rows * heads, rows),),
        grad, y, delta, num_rows * heads, DEPTH=depth, ROWS=rows, BLOCK=sizes["BLOCK"],
    )  # fmt: skip
    launch(
        _attend_gradient_rows, (num_rows, triton.cdiv(heads, sizes["GROUP"])),
        x, grad, by_source, by_target, log_total, delta, out_target, out_order, out_ptr, grad_x, grad_source,
        grad_scores, slope, **sizes,
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
