"""Sums and maxima over neighbours on a GPU, as PyTorch operators (see :mod:`lrga.ops.neighbors.reduce`).

Letters: N nodes, E edges, H heads, D channels, W = H·D columns.
"""

# ruff: noqa: ARG001  (shape and derivative functions of an operator receive all of its arguments)

from typing import Any

import torch
import triton
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import dense, launch
from lrga.ops.neighbors import kernels
from lrga.ops.neighbors.edges import EdgeLayout

CHUNK = 1024
MAX_RUN = 2048  # at least CHUNK, so that a chunk touches at most two such nodes
MIN_SPLIT_EDGES = 1 << 15  # with fewer edges in total, even one node with all of them is fast


def plan(width: int) -> dict[str, int]:
    """Blocks that waste few columns, about 16 numbers per thread, one warp and one node per program: the best of
    24 variants on an H200 with 7,600 nodes of 50 edges and 100 channels."""
    block = block_of(width)
    return {"WIDTH": width, "EDGES": max(4, 512 // max(block, 32)), "BLOCK": block, "num_warps": 1}


def block_of(width: int) -> int:
    """Columns of a block: the size with the least waste; another block reads the edges again, counted as 16 columns."""
    if width <= 32:
        return triton.next_power_of_2(max(width, 1))
    return min((128, 64, 32), key=lambda block: triton.cdiv(width, block) * (block + 16))


def may_be_long(num_edges: int, longest: int | None) -> bool:
    """Whether a node may have so many edges that splitting them is faster."""
    return num_edges > MIN_SPLIT_EDGES if longest is None else longest > MAX_RUN


def graph_of(layout: EdgeLayout, *inputs: Tensor) -> list[Tensor]:
    """The edges as arguments of the operators: source, target, in_ptr, out_order, out_target and out_ptr.

    If the gradients of ``inputs`` do not need out_target, out_order is passed instead.
    """
    out_target = layout.out_order
    if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
        compiling = torch.compiler.is_compiling()  # compilers do not trace cached values
        out_target = layout.target.index_select(0, layout.out_order) if compiling else layout.out_target
    return [layout.source, layout.target, layout.in_ptr, layout.out_order, out_target, layout.out_ptr]


def _sum_dtype(x: Tensor, weight: Tensor | None) -> torch.dtype:
    return x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)


@operator(
    "lrga::sum_sources",
    lambda x, weight, _dst, _src, graph, _split: x.new_empty(
        graph[2].size(0) - 1, *x.shape[1:], dtype=_sum_dtype(x, weight)
    ),
)
def sum_sources_op(
    x: Tensor,
    weight: Tensor | None,
    dst_scale: Tensor | None,
    src_scale: Tensor | None,
    graph: list[Tensor],
    split: bool,
) -> Tensor:
    """Σ over the edges j → i of into_i · weight · out_of_j · x_j; ``graph`` is the result of :func:`graph_of`."""
    source, target, in_ptr, *_ = graph
    return launch_sum(x, weight, None, dst_scale, src_scale, in_ptr, source, target, split, _sum_dtype(x, weight))


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


@operator(
    "lrga::edge_dots",
    lambda x, _grad, source, *rest: x.new_empty(source.size(0), *x.shape[1:-1], dtype=rest[-1]),
    differentiable=False,
)
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


@operator(
    "lrga::sum_edges", lambda values, _target, in_ptr, _split: values.new_empty(in_ptr.size(0) - 1, *values.shape[1:])
)
def sum_edges_op(values: Tensor, target: Tensor, in_ptr: Tensor, split: bool) -> Tensor:
    """Σ over the incoming edges of each node, ``[E, …]`` to ``[N, …]``."""
    return launch_sum(values, None, None, None, None, in_ptr, None, target, split, values.dtype)


def _keep_edges(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, target, in_ptr, _ = inputs
    ctx.save_for_backward(target, in_ptr)
    ctx.dtype = values.dtype


def _edges_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The row of the target for each edge; for padding edges the row of zeros after the last node."""
    target, in_ptr = ctx.saved_tensors
    is_real = torch.arange(target.size(0), device=target.device) < in_ptr[-1]
    rows = torch.cat([grad, grad.new_zeros(1, *grad.shape[1:])])
    return (rows.to(ctx.dtype).index_select(0, torch.where(is_real, target, grad.size(0))),)


sum_edges_op.register_autograd(_edges_gradient, setup_context=_keep_edges)


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
    """Rows of ``x`` ``[R, W]`` or ``[R, H, D]``, summed over the segments given by ``ptr`` ``[N + 1]``: ``[N, …]``.

    The factors are those of :func:`lrga.ops.neighbors.reduce.sum_sources`. For each edge, ``columns`` ``[E]`` is its
    row of x, and ``order`` ``[E]`` its index in ``weight`` and in ``rows``, its segment; ``None`` is the identity. With
    ``split``, long segments are split, see :func:`may_be_long`.
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
        kernels._sum_rows, (num_rows, blocks), x, columns, order, weight, dst_scale, src_scale, ptr, partial, y, **sizes
    )
    return y


# The gradient of x: the sum over the outgoing edges of each node.
transposed_sum_op = operator(
    "lrga::transposed_sum",
    lambda x, *rest: x.new_empty(rest[4].size(0) - 1, *x.shape[1:], dtype=rest[-1]),
    differentiable=False,
)(launch_sum)


def _empty_maxima(x: Tensor, graph: list[Tensor]) -> tuple[Tensor, Tensor]:
    shape = graph[2].size(0) - 1, x.size(1)
    return torch.empty(shape, dtype=x.dtype, device=x.device), torch.empty(shape, device=x.device)


@operator("lrga::max_sources", _empty_maxima)
def max_sources_op(x: Tensor, graph: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Maxima ``[T, D]`` and the number of edges that reach them, at least 1, ``[T, D]`` float32."""
    source, _, in_ptr, *_ = graph
    y, ties = _empty_maxima(x, graph)
    if y.numel():
        width = x.size(1)
        grid = (y.size(0), triton.cdiv(width, block_of(width)))
        launch(kernels._max_rows, grid, x.contiguous(), source, in_ptr, y, ties, **plan(width))
    return y, ties


def _keep_max(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, (*_, out_target, out_ptr) = inputs
    ctx.save_for_backward(x, *output, out_target, out_ptr)


def _max_backward(ctx: Any, grad: Tensor, grad_ties: Tensor | None) -> tuple[Tensor | None, ...]:
    x, y, ties, out_target, out_ptr = ctx.saved_tensors
    return (max_gradient_op(x, y, grad / ties, out_target, out_ptr),)


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
        x, y.contiguous(), share.contiguous(), out_target, out_ptr, grad, **plan(width),
    )  # fmt: skip
    return grad


max_gradient_op.gives_gradients_of("x")
