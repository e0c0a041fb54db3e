"""Sums and maxima over neighbours on a GPU, as PyTorch operators (see :mod:`lrga.ops.neighbors.reduce`).

Letters: N nodes, E edges, H heads, D channels, W = H·D columns.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

from typing import Any

import torch
import triton
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import dense, launch
from lrga.ops.neighbors import kernels
from lrga.ops.neighbors.edges import EdgeLayout

CHUNK = 1024
MAX_RUN = 2048  # at least CHUNK, so that no third such node lies inside a chunk
MIN_SPLIT_EDGES = 1 << 15  # edges in all below which even one node with all of them takes no time to speak of


def plan(width: int) -> dict[str, int]:
    """Blocks that waste few columns, about 16 numbers for each thread, one warp, one node to a program: the best of
    two dozen on an H200 at 7,600 nodes of 50 edges and 100 channels."""
    block = block_of(width)
    return {"WIDTH": width, "EDGES": max(4, 512 // max(block, 32)), "BLOCK": block, "num_warps": 1}


def block_of(width: int) -> int:
    """Columns of a block: those that waste least; 16 for each further block, which reads the edges again."""
    if width <= 32:
        return triton.next_power_of_2(max(width, 1))
    return min((128, 64, 32), key=lambda block: triton.cdiv(width, block) * (block + 16))


def may_be_long(num_edges: int, longest: int | None) -> bool:
    """Whether a node may have so many edges that they are worth dividing."""
    return num_edges > MIN_SPLIT_EDGES if longest is None else longest > MAX_RUN


def sum_sources(
    x: Tensor,
    layout: EdgeLayout,
    weight: Tensor | None = None,
    *,
    dst_scale: Tensor | None = None,
    src_scale: Tensor | None = None,
) -> Tensor:
    """:func:`lrga.ops.neighbors.reduce.sum_sources` by Triton's kernels."""
    split = may_be_long(layout.num_edges, layout.longest)
    return sum_sources_op(x, weight, dst_scale, src_scale, graph_of(layout, x), split)


def graph_of(layout: EdgeLayout, *inputs: Tensor) -> list[Tensor]:
    """The edges as operators take them: source, target, in_ptr, out_order, out_target and out_ptr.

    Where no gradient of ``inputs`` will ask for out_target, out_order stands in its place.
    """
    out_target = layout.out_order
    if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
        compiling = torch.compiler.is_compiling()  # a compiler does not trace through what a layout keeps
        out_target = layout.target.index_select(0, layout.out_order) if compiling else layout.out_target
    return [layout.source, layout.target, layout.in_ptr, layout.out_order, out_target, layout.out_ptr]


def sum_edges(values: Tensor, layout: EdgeLayout) -> Tensor:
    """:func:`lrga.ops.neighbors.reduce.sum_edges` by Triton's kernels."""
    return sum_edges_op(values, layout.target, layout.in_ptr, may_be_long(layout.num_edges, layout.longest))


def _sum_dtype(x: Tensor, weight: Tensor | None) -> torch.dtype:
    return x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)


@operator("lrga::sum_sources")
def sum_sources_op(
    x: Tensor,
    weight: Tensor | None,
    dst_scale: Tensor | None,
    src_scale: Tensor | None,
    graph: list[Tensor],
    split: bool,
) -> Tensor:
    """Σ over the edges j → i of into_i · weight · out_of_j · x_j; ``graph`` is that of :func:`graph_of`."""
    source, target, in_ptr, *_ = graph
    return launch_sum(x, weight, None, dst_scale, src_scale, in_ptr, source, target, split, _sum_dtype(x, weight))


@sum_sources_op.register_fake
def _(x: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    return torch.empty(rest[2][2].size(0) - 1, *x.shape[1:], dtype=_sum_dtype(x, weight), device=x.device)


def _keep_sum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, dst_scale, src_scale, graph, split = inputs
    ctx.save_for_backward(x if weight is not None else None, weight, dst_scale, src_scale, *graph)
    ctx.split, ctx.dtype = split, x.dtype


def _sum_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, dst_scale, src_scale, source, target, in_ptr, out_order, out_target, out_ptr = ctx.saved_tensors
    grad_x = grad_weight = None
    if ctx.needs_input_grad[0]:
        grad_x = transposed_sum_op(
            grad, weight, out_order, src_scale, dst_scale, out_ptr, out_target, source, ctx.split, ctx.dtype
        )  # fmt: skip
    if weight is not None and ctx.needs_input_grad[1]:
        grad_weight = edge_dots_op(x, grad, source, target, dst_scale, src_scale, in_ptr, weight.dtype)
    return grad_x, grad_weight


sum_sources_op.register_autograd(_sum_gradient, setup_context=_keep_sum)


@operator("lrga::transposed_sum")
def transposed_sum_op(
    grad: Tensor,
    weight: Tensor | None,
    order: Tensor | None,
    dst_scale: Tensor | None,
    src_scale: Tensor | None,
    ptr: Tensor,
    columns: Tensor,
    rows: Tensor,
    split: bool,
    dtype: torch.dtype,
) -> Tensor:
    """The gradient of x: the sum over the edges that leave each node."""
    return launch_sum(grad, weight, order, dst_scale, src_scale, ptr, columns, rows, split, dtype)


@transposed_sum_op.register_fake
def _(grad: Tensor, *rest: Any) -> Tensor:
    return torch.empty(rest[4].size(0) - 1, *grad.shape[1:], dtype=rest[-1], device=grad.device)


@operator("lrga::edge_dots")
def edge_dots_op(
    x: Tensor,
    grad: Tensor,
    source: Tensor,
    target: Tensor,
    dst_scale: Tensor | None,
    src_scale: Tensor | None,
    in_ptr: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """The gradient of the weight: ⟨x of the source, grad of the target⟩ times both factors for each edge and head,
    ``[E]`` or ``[E, H]``; zero for padding."""
    num_edges, depth = source.size(0), x.size(-1)
    heads = x.size(1) if x.dim() == 3 else 1
    dots = torch.empty(num_edges, *x.shape[1:-1], dtype=dtype, device=x.device)
    if not dots.numel():
        return dots
    block = min(128, triton.next_power_of_2(max(depth, 1)))
    edges = max(4, min(128, 2048 // block))
    launch(
        kernels._dot_edges, (triton.cdiv(num_edges, edges), heads),
        x.contiguous(), grad.contiguous(), source, target, dense(dst_scale), dense(src_scale), in_ptr[-1:], dots,
        num_edges, DEPTH=depth, HEADS=heads, EDGES=edges, BLOCK=block, num_warps=2,
    )  # fmt: skip
    return dots


@edge_dots_op.register_fake
def _(x: Tensor, grad: Tensor, source: Tensor, *rest: Any) -> Tensor:
    return torch.empty(source.size(0), *x.shape[1:-1], dtype=rest[-1], device=x.device)


@operator("lrga::sum_edges")
def sum_edges_op(values: Tensor, target: Tensor, in_ptr: Tensor, split: bool) -> Tensor:
    """Σ over the edges that end in each node, ``[E, …]`` to ``[N, …]``."""
    flat = values.flatten(1)
    total = launch_sum(flat, None, None, None, None, in_ptr, None, target, split, values.dtype)
    return total.view(-1, *values.shape[1:]) if total.numel() else total.new_empty(len(total), *values.shape[1:])


@sum_edges_op.register_fake
def _(values: Tensor, target: Tensor, in_ptr: Tensor, split: bool) -> Tensor:
    return values.new_empty(in_ptr.size(0) - 1, *values.shape[1:])


def _keep_edges(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, target, in_ptr, _ = inputs
    ctx.save_for_backward(target, in_ptr)
    ctx.dtype = values.dtype


def _edges_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (spread_op(grad, *ctx.saved_tensors, ctx.dtype),)


sum_edges_op.register_autograd(_edges_gradient, setup_context=_keep_edges)


@operator("lrga::spread")
def spread_op(grad: Tensor, target: Tensor, in_ptr: Tensor, dtype: torch.dtype) -> Tensor:
    """The row of its target for each edge, ``[N, …]`` to ``[E, …]``; zero for padding."""
    num_edges = target.size(0)
    values = torch.empty(num_edges, *grad.shape[1:], dtype=dtype, device=grad.device)
    if not values.numel():
        return values
    width = values.numel() // num_edges
    block = block_of(width)
    edges = max(4, 2048 // max(block, 32))
    launch(
        kernels._spread_rows, (triton.cdiv(num_edges, edges), triton.cdiv(width, block)),
        grad.contiguous(), target, in_ptr[-1:], values, num_edges, WIDTH=width, EDGES=edges, BLOCK=block, num_warps=2,
    )  # fmt: skip
    return values


@spread_op.register_fake
def _(grad: Tensor, target: Tensor, in_ptr: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty(target.size(0), *grad.shape[1:], dtype=dtype, device=grad.device)


for gradient_op in (transposed_sum_op, edge_dots_op, spread_op):
    gradient_op.refuse_derivative()


def launch_sum(
    x: Tensor,
    weight: Tensor | None,
    order: Tensor | None,
    dst_scale: Tensor | None,
    src_scale: Tensor | None,
    ptr: Tensor,
    columns: Tensor | None,
    rows: Tensor,
    split: bool,
    dtype: torch.dtype,
) -> Tensor:
    """Rows of ``x`` ``[R, W]`` or ``[R, H, D]``, summed in the runs that ``ptr`` ``[N + 1]`` marks: ``[N, …]``.

    Args:
        x: What is summed.
        weight: Factor of each edge, ``[E]`` or ``[E, H]``.
        order: At which place of ``weight`` (and of ``rows``) the edges stand, ``[E]``; ``None`` is their own.
        dst_scale: Factor of each sum, ``[N]``.
        src_scale: Factor of each row of x.
        ptr: Where the runs begin.
        columns: Which row of x each edge takes, ``[E]``; ``None`` is its own.
        rows: Which sum each edge belongs to, by place.
        split: Whether long runs are divided, see :func:`may_be_long`.
        dtype: Of the result.
    """
    num_rows, num_edges = ptr.size(0) - 1, rows.size(0)
    y = torch.empty(num_rows, *x.shape[1:], dtype=dtype, device=x.device)
    if not y.numel():
        return y
    width = y.numel() // num_rows
    x, weight, dst_scale, src_scale = x.contiguous(), dense(weight), dense(dst_scale), dense(src_scale)
    sizes = plan(width) | {"HEADS": x.size(1) if x.dim() == 3 else 1, "CHUNK": CHUNK, "MAX_RUN": MAX_RUN}
    blocks = triton.cdiv(width, sizes["BLOCK"])
    partial = None
    if split:
        chunks = triton.cdiv(num_edges, CHUNK)
        partial = torch.empty(chunks, 2, width, device=x.device)
        launch(
            kernels._sum_long, (chunks, blocks),
            x, columns, order, weight, src_scale, ptr, rows, partial, num_rows, **sizes,
        )  # fmt: skip
    launch(
        kernels._sum_rows, (num_rows, blocks),
        x, columns, order, weight, dst_scale, src_scale, ptr, partial, y, num_rows, ROWS=1, **sizes
    )  # fmt: skip
    return y


def max_sources(x: Tensor, layout: EdgeLayout) -> Tensor:
    """:func:`lrga.ops.neighbors.reduce.max_sources` by Triton's kernels."""
    return max_sources_op(x, graph_of(layout, x))[0]


@operator("lrga::max_sources")
def max_sources_op(x: Tensor, graph: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Maxima ``[T, D]`` and how many edges have them, ``[T, D]`` float32."""
    source, _, in_ptr, *_ = graph
    x, num_rows, width = x.contiguous(), in_ptr.size(0) - 1, x.size(1)
    y, ties = x.new_empty(num_rows, width), torch.empty(num_rows, width, device=x.device)
    if not y.numel():
        return y, ties
    grid = (num_rows, triton.cdiv(width, block_of(width)))
    launch(kernels._max_rows, grid, x, source, in_ptr, y, ties, num_rows, ROWS=1, **plan(width))
    return y, ties


@max_sources_op.register_fake
def _(x: Tensor, graph: list[Tensor]) -> tuple[Tensor, Tensor]:
    shape = graph[2].size(0) - 1, x.size(1)
    return torch.empty(shape, dtype=x.dtype, device=x.device), torch.empty(shape, device=x.device)


def _keep_max(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, (*_, out_target, out_ptr) = inputs
    ctx.save_for_backward(x, *output, out_target, out_ptr)


def _max_backward(ctx: Any, grad: Tensor, grad_ties: Tensor | None) -> tuple[Tensor | None, ...]:
    x, y, ties, out_target, out_ptr = ctx.saved_tensors
    share = grad / ties.clamp(min=1)
    return (max_gradient_op(x, y, share, out_target, out_ptr),)


max_sources_op.register_autograd(_max_backward, setup_context=_keep_max)


@operator("lrga::max_gradient")
def max_gradient_op(x: Tensor, y: Tensor, share: Tensor, out_target: Tensor, out_ptr: Tensor) -> Tensor:
    """The gradient of x, given each target's gradient divided by its number of maxima."""
    x = x.contiguous()
    grad = torch.empty_like(x)
    if not grad.numel():
        return grad
    num_rows, width = x.shape
    launch(
        kernels._max_gradient_rows, (num_rows, triton.cdiv(width, block_of(width))),
        x, y.contiguous(), share.contiguous(), out_target, out_ptr, grad, num_rows, ROWS=1, **plan(width),
    )  # fmt: skip
    return grad


max_gradient_op.gives_gradients_of("x")
