"""GAT's sum and score terms on a GPU, as PyTorch operators (see :mod:`lrga.ops.gat.definition`).

Letters: N nodes, E edges, H heads, D channels of a head, P parts.
"""

# ruff: noqa: ARG001  (shape and derivative functions of an operator receive all of its arguments)

from typing import Any

import torch
import triton
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import launch
from lrga.ops.gat import kernels
from lrga.ops.gat.definition import score_dtype
from lrga.ops.linear import launch_column_sum
from lrga.ops.neighbors.gpu import launch_sum

MAX_WIDTH = 256  # maximum numbers in a row (heads and channels padded to powers of two) for one group of heads
NUMBERS = 32  # numbers of a tile per thread
MAX_PARTS = 512


def _sizes(heads: int, depth: int) -> dict[str, int]:
    """As many heads as fit, then edges; one warp unless a single head is wide."""
    block = triton.next_power_of_2(depth)
    group = min(triton.next_power_of_2(heads), max(1, MAX_WIDTH // block))
    warps = min(16, max(1, group * block // MAX_WIDTH))
    edges = max(2, min(32, warps * 32 * NUMBERS // (group * block)))
    return {"DEPTH": depth, "HEADS": heads, "GROUP": group, "EDGES": edges, "BLOCK": block, "num_warps": warps}


def _empty_sums(x: Tensor, by_source: Tensor, by_target: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    y = by_target.new_empty(*by_target.shape, x.size(2), dtype=score_dtype(x, by_source, by_target))
    return y, torch.empty(by_target.shape, device=x.device)


@operator("lrga::attention_sum", _empty_sums)
def attend_op(
    x: Tensor, by_source: Tensor, by_target: Tensor, graph: list[Tensor], slope: float, split: bool
) -> tuple[Tensor, Tensor]:
    """Returns the sums ``[T, H, D]``, and the logarithm of each node's sum of exponentials, ``[T, H]``."""
    source, _, in_ptr, *_ = graph
    y, log_total = _empty_sums(x, by_source, by_target)
    if not y.numel():
        return y, log_total.zero_()
    num_rows, heads, depth = y.shape
    sizes = _sizes(heads, depth)
    launch(
        kernels._attend_rows, (num_rows, triton.cdiv(heads, sizes["GROUP"])),
        x.contiguous(), by_source.contiguous(), by_target.contiguous(), source, in_ptr, y, log_total, slope,
        **sizes,
    )  # fmt: skip
    return y, log_total


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, by_source, by_target, graph, ctx.slope, ctx.split = inputs
    ctx.save_for_backward(x, by_source, by_target, *output, *graph)


def _backward(ctx: Any, grad: Tensor, grad_log: Tensor | None) -> tuple[Tensor, ...]:
    saved = ctx.saved_tensors
    return attend_gradient_op(grad, *saved[:5], [*saved[5:]], ctx.slope, ctx.split)


attend_op.register_autograd(_backward, setup_context=_keep)


@operator("lrga::attention_sum_gradient")
def attend_gradient_op(
    grad: Tensor,
    x: Tensor,
    by_source: Tensor,
    by_target: Tensor,
    y: Tensor,
    log_total: Tensor,
    graph: list[Tensor],
    slope: float,
    split: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x and of both score terms."""
    _, target, in_ptr, out_order, out_target, out_ptr = graph
    num_rows, heads, depth = x.shape
    given = (grad, x, by_source, by_target, y, log_total)
    grad, x, by_source, by_target, y, log_total = (t.contiguous() for t in given)
    grad_x, grad_source = torch.empty_like(x), torch.empty_like(by_source)
    if not x.numel():
        return grad_x, grad_source.zero_(), torch.zeros_like(by_target)
    sizes, of_rows, delta = _sizes(heads, depth), _score_sizes(heads, depth), torch.empty_like(log_total)
    launch(
        kernels.dot_rows,
        (triton.cdiv(delta.size(0), of_rows["ROWS"]), triton.cdiv(heads, of_rows["GROUP"])),
        grad, y, delta, delta.size(0), **of_rows,
    )  # fmt: skip
    grad_scores = torch.empty(target.size(0), heads, device=x.device)
    launch(
        kernels._attend_gradient_rows, (num_rows, triton.cdiv(heads, sizes["GROUP"])),
        x, grad, by_source, by_target, log_total, delta, out_target, out_order, out_ptr, grad_x, grad_source,
        grad_scores, slope, **sizes,
    )  # fmt: skip
    grad_target = launch_sum(grad_scores, None, None, None, None, in_ptr, None, target, split, by_target.dtype)
    return grad_x, grad_source, grad_target


attend_gradient_op.gives_gradients_of("x", "by_source", "by_target")


def _score_sizes(heads: int, depth: int) -> dict[str, int]:
    """All heads or as many as fit, and nodes so that each thread has 16 numbers."""
    block = triton.next_power_of_2(depth)
    group = min(triton.next_power_of_2(heads), max(1, 1024 // block))
    rows = max(1, min(64, 2048 // (group * block)))
    return {"DEPTH": depth, "HEADS": heads, "GROUP": group, "ROWS": rows, "BLOCK": block, "num_warps": 4}


def _empty_scores(x: Tensor, att_source: Tensor, att_target: Tensor) -> tuple[Tensor, Tensor]:
    dtype = score_dtype(x, att_source, att_target)
    by_source, by_target = (torch.empty(x.shape[:2], dtype=dtype, device=x.device) for _ in range(2))
    return by_source, by_target


@operator("lrga::node_scores", _empty_scores)
def node_scores(x: Tensor, att_source: Tensor, att_target: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`lrga.ops.gat.definition.node_scores` by Triton's kernels."""
    num_rows, heads, depth = x.shape
    by_source, by_target = _empty_scores(x, att_source, att_target)
    if not x.numel():
        return by_source.zero_(), by_target.zero_()
    sizes = _score_sizes(heads, depth)
    launch(
        kernels.score_rows, (triton.cdiv(num_rows, sizes["ROWS"]), triton.cdiv(heads, sizes["GROUP"])),
        x.contiguous(), att_source.contiguous(), att_target.contiguous(), by_source, by_target, num_rows, **sizes,
    )  # fmt: skip
    return by_source, by_target


def _scores_backward(ctx: Any, grad_source: Tensor, grad_target: Tensor) -> tuple[Tensor, ...]:
    x, att_source, att_target = ctx.saved_tensors
    grad_x, sums = scores_gradient_op(grad_source, grad_target, x, att_source, att_target)
    return grad_x, sums[0].to(att_source.dtype), sums[1].to(att_target.dtype)


node_scores.register_autograd(_scores_backward, setup_context=lambda ctx, inputs, _: ctx.save_for_backward(*inputs))


@operator(
    "lrga::node_scores_gradient",
    lambda _source, _target, x, *_: (x.new_empty(x.shape), torch.empty(2, *x.shape[1:], device=x.device)),
    differentiable=False,
)
def scores_gradient_op(
    grad_source: Tensor, grad_target: Tensor, x: Tensor, att_source: Tensor, att_target: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of x, and of both vectors ``[2, H, D]`` in float32."""
    num_rows, heads, depth = x.shape
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return grad_x, torch.zeros(2, heads, depth, device=x.device)
    sizes = _score_sizes(heads, depth)
    rows_of_part = triton.cdiv(triton.cdiv(num_rows, MAX_PARTS), sizes["ROWS"]) * sizes["ROWS"]
    num_parts = triton.cdiv(num_rows, rows_of_part)
    parts = torch.empty(1, num_parts, 2 * heads * depth, device=x.device)
    given = (t.contiguous() for t in (x, att_source, att_target, grad_source, grad_target))
    launch(
        kernels.score_gradient_rows, (num_parts, triton.cdiv(heads, sizes["GROUP"])),
        *given, grad_x, parts, num_rows, rows_of_part, **sizes,
    )  # fmt: skip
    return grad_x, launch_column_sum(parts).view(2, heads, depth)
