r"""The Triton kernels of GAT's terms of the scores. Their definition is :mod:`lrga.kernels.node_scores`.

Forward, a program takes a few nodes and a group of heads and reads their rows once for both terms. Backward, with the
gradients :math:`\bar s` and :math:`\bar t`, a program walks a part of the nodes, where

.. math::
    \bar x_i = \bar s_i a_s + \bar t_i a_t, \qquad
    \bar a_s = \sum_i \bar s_i x_i, \qquad
    \bar a_t = \sum_i \bar t_i x_i,

and the sums of the parts are then added up by a second launch. No atomics: results do not vary between runs.

Letters: N nodes, H heads, D channels of a head, P parts.
"""

# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

from lrga.kernels.node_scores import score_dtype
from lrga.kernels.refusal import refuse_derivative
from lrga.kernels.support import launch
from lrga.kernels.triton_columns import launch_column_sum
from lrga.kernels.triton_softmax import heads_of_program, of_nodes, rows_of_nodes

MOST_PARTS = 512


@triton.jit
def score_rows(
    x, att_source, att_target, by_source, by_target, num_rows, DEPTH: tl.constexpr, HEADS: tl.constexpr,
    GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Both terms of a group of heads of ``ROWS`` nodes."""
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    source = tl.load(att_source + place, mask=inside, other=0.0).to(tl.float32)
    target = tl.load(att_target + place, mask=inside, other=0.0).to(tl.float32)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = row < num_rows
    values = rows_of_nodes(x, row, place, real, inside, HEADS * DEPTH)
    where, counted = row[:, None] * HEADS + head[None, :], real[:, None] & is_head[None, :]
    s, t = tl.sum(values * source[None, :, :], 2), tl.sum(values * target[None, :, :], 2)
    tl.store(by_source + where, s.to(by_source.dtype.element_ty), mask=counted)
    tl.store(by_target + where, t.to(by_target.dtype.element_ty), mask=counted)


@triton.jit
def score_gradient_rows(
    x, att_source, att_target, grad_source, grad_target, grad_x, parts, num_rows, rows_of_part, DEPTH: tl.constexpr,
    HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A group of heads of a part of the nodes: gradients of x, and sums for those of both vectors."""
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    source = tl.load(att_source + place, mask=inside, other=0.0).to(tl.float32)
    target = tl.load(att_target + place, mask=inside, other=0.0).to(tl.float32)
    part = tl.program_id(0).to(tl.int64)
    first = part * rows_of_part
    end = tl.minimum(first + rows_of_part, num_rows)
    to_source = tl.zeros([ROWS, GROUP, BLOCK], tl.float32)
    to_target = tl.zeros([ROWS, GROUP, BLOCK], tl.float32)
    for at in range(first, end, ROWS):
        row = at + tl.arange(0, ROWS).to(tl.int64)
        real = row < end
        counted = real[:, None] & is_head[None, :]
        values = rows_of_nodes(x, row, place, real, inside, HEADS * DEPTH)
        s = of_nodes(grad_source, row, head, counted, HEADS)[:, :, None]
        t = of_nodes(grad_target, row, head, counted, HEADS)[:, :, None]
        where = grad_x + row[:, None, None] * (HEADS * DEPTH) + place[None, :, :]
        result = s * source[None, :, :] + t * target[None, :, :]
        tl.store(where, result.to(grad_x.dtype.element_ty), mask=real[:, None, None] & inside[None, :, :])
        to_source += s * values
        to_target += t * values
    where = parts + part * (2 * HEADS * DEPTH) + place
    tl.store(where, tl.sum(to_source, 0), mask=inside)
    tl.store(where + HEADS * DEPTH, tl.sum(to_target, 0), mask=inside)


def node_scores(x: Tensor, att_source: Tensor, att_target: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`lrga.kernels.node_scores.node_scores` by Triton's kernels."""
    by_source, by_target = scores_op(x, att_source, att_target)
    return by_source, by_target


def _sizes(heads: int, depth: int) -> dict[str, int]:
    """All heads or those that fit, and nodes for 16 numbers of each thread."""
    block = triton.next_power_of_2(depth)
    group = min(triton.next_power_of_2(heads), max(1, 1024 // block))
    rows = max(1, min(64, 2048 // (group * block)))
    return {"DEPTH": depth, "HEADS": heads, "GROUP": group, "ROWS": rows, "BLOCK": block, "num_warps": 4}


@custom_op("lrga::node_scores", mutates_args=())
def scores_op(x: Tensor, att_source: Tensor, att_target: Tensor) -> tuple[Tensor, Tensor]:
    """Both terms, ``[N, H]`` each."""
    num_rows, heads, depth = x.shape
    by_source, by_target = _empty_scores(x, att_source, att_target)
    if not x.numel():
        return by_source.zero_(), by_target.zero_()
    sizes = _sizes(heads, depth)
    launch(
        score_rows, (triton.cdiv(num_rows, sizes["ROWS"]), triton.cdiv(heads, sizes["GROUP"])),
        x.contiguous(), att_source.contiguous(), att_target.contiguous(), by_source, by_target, num_rows, **sizes,
    )  # fmt: skip
    return by_source, by_target


def _empty_scores(x: Tensor, att_source: Tensor, att_target: Tensor) -> tuple[Tensor, Tensor]:
    dtype = score_dtype(x, att_source, att_target)
    by_source, by_target = (torch.empty(x.shape[:2], dtype=dtype, device=x.device) for _ in range(2))
    return by_source, by_target


scores_op.register_fake(_empty_scores)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad_source: Tensor, grad_target: Tensor) -> tuple[Tensor, ...]:
    x, att_source, att_target = ctx.saved_tensors
    grad_x, sums = scores_gradient_op(grad_source, grad_target, x, att_source, att_target)
    return grad_x, sums[0].to(att_source.dtype), sums[1].to(att_target.dtype)


scores_op.register_autograd(_backward, setup_context=_keep)


@custom_op("lrga::node_scores_gradient", mutates_args=())
def scores_gradient_op(
    grad_source: Tensor, grad_target: Tensor, x: Tensor, att_source: Tensor, att_target: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of x, and of both vectors ``[2, H, D]`` in float32."""
    num_rows, heads, depth = x.shape
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return grad_x, torch.zeros(2, heads, depth, device=x.device)
    sizes = _sizes(heads, depth)
    rows_of_part = triton.cdiv(triton.cdiv(num_rows, MOST_PARTS), sizes["ROWS"]) * sizes["ROWS"]
    num_parts = triton.cdiv(num_rows, rows_of_part)
    parts = torch.empty(1, num_parts, 2 * heads * depth, device=x.device)
    given = (t.contiguous() for t in (x, att_source, att_target, grad_source, grad_target))
    launch(
        score_gradient_rows, (num_parts, triton.cdiv(heads, sizes["GROUP"])),
        *given, grad_x, parts, num_rows, rows_of_part, **sizes,
    )  # fmt: skip
    return grad_x, launch_column_sum(parts).view(2, heads, depth)


@scores_gradient_op.register_fake
def _(grad_source: Tensor, grad_target: Tensor, x: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return grad_x, torch.empty(2, *x.shape[1:], device=x.device)


refuse_derivative(scores_gradient_op)
