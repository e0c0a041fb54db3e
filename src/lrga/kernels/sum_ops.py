"""The sums of :mod:`lrga.kernels.triton_sum` as PyTorch operators with derivatives.

Letters: N nodes, E edges, H heads, D channels.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from lrga.kernels.edges import EdgeLayout
from lrga.kernels.refusal import refuse_derivative
from lrga.kernels.triton_sum import launch_dots, launch_spread, launch_sum, may_be_long


def sum_sources(
    x: Tensor,
    layout: EdgeLayout,
    weight: Tensor | None = None,
    *,
    into: Tensor | None = None,
    out_of: Tensor | None = None,
) -> Tensor:
    """:func:`lrga.kernels.message.sum_sources` by Triton's kernels."""
    return sum_sources_op(
        x,
        weight,
        into,
        out_of,
        layout.source,
        layout.target,
        layout.in_ptr,
        layout.out_order,
        turned_targets(layout, x),
        layout.out_ptr,
        may_be_long(layout.num_edges, layout.longest),
    )


def turned_targets(layout: EdgeLayout, *inputs: Tensor) -> Tensor | None:
    """Where the edges end in the order of their sources, if a gradient of ``inputs`` will ask for it."""
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in inputs)):
        return None
    if torch.compiler.is_compiling():  # a compiler does not trace through what a layout keeps
        return layout.target.index_select(0, layout.out_order)
    return layout.out_target


def sum_edges(values: Tensor, layout: EdgeLayout) -> Tensor:
    """:func:`lrga.kernels.message.sum_edges` by Triton's kernels."""
    return sum_edges_op(values, layout.target, layout.in_ptr, may_be_long(layout.num_edges, layout.longest))


def _sum_dtype(x: Tensor, weight: Tensor | None) -> torch.dtype:
    return x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)


@custom_op("lrga::sum_sources", mutates_args=())
def sum_sources_op(
    x: Tensor,
    weight: Tensor | None,
    into: Tensor | None,
    out_of: Tensor | None,
    source: Tensor,
    target: Tensor,
    in_ptr: Tensor,
    out_order: Tensor,
    out_target: Tensor | None,
    out_ptr: Tensor,
    split: bool,
) -> Tensor:
    """Σ over the edges j → i of into_i · weight · out_of_j · x_j. ``out_target`` is needed for the gradient of x."""
    return launch_sum(x, weight, None, into, out_of, in_ptr, source, target, split, _sum_dtype(x, weight))


@sum_sources_op.register_fake
def _(x: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    return torch.empty(x.shape, dtype=_sum_dtype(x, weight), device=x.device)


def _keep_sum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, *others, split = inputs
    ctx.save_for_backward(x if weight is not None else None, weight, *others)
    ctx.split, ctx.dtype = split, x.dtype


def _sum_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, into, out_of, source, target, in_ptr, out_order, out_target, out_ptr = ctx.saved_tensors
    grad_x = grad_weight = None
    if ctx.needs_input_grad[0]:
        grad_x = turned_sum_op(
            grad, weight, out_order, out_of, into, out_ptr, out_target, source, ctx.split, ctx.dtype
        )  # fmt: skip
    if weight is not None and ctx.needs_input_grad[1]:
        grad_weight = edge_dots_op(x, grad, source, target, into, out_of, in_ptr, weight.dtype)
    return grad_x, grad_weight, *(None,) * 9


sum_sources_op.register_autograd(_sum_gradient, setup_context=_keep_sum)


@custom_op("lrga::turned_sum", mutates_args=())
def turned_sum_op(
    grad: Tensor,
    weight: Tensor | None,
    order: Tensor | None,
    into: Tensor | None,
    out_of: Tensor | None,
    ptr: Tensor,
    columns: Tensor,
    rows: Tensor,
    split: bool,
    dtype: torch.dtype,
) -> Tensor:
    """The gradient of x: the sum over the edges that leave each node."""
    return launch_sum(grad, weight, order, into, out_of, ptr, columns, rows, split, dtype)


@turned_sum_op.register_fake
def _(grad: Tensor, *rest: Any) -> Tensor:
    return torch.empty(grad.shape, dtype=rest[-1], device=grad.device)


@custom_op("lrga::edge_dots", mutates_args=())
def edge_dots_op(
    x: Tensor,
    grad: Tensor,
    source: Tensor,
    target: Tensor,
    into: Tensor | None,
    out_of: Tensor | None,
    in_ptr: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """The gradient of the weight: a scalar product for each edge and head."""
    return launch_dots(x, grad, source, target, into, out_of, in_ptr, dtype)


@edge_dots_op.register_fake
def _(x: Tensor, grad: Tensor, source: Tensor, *rest: Any) -> Tensor:
    return torch.empty(source.size(0), *x.shape[1:-1], dtype=rest[-1], device=x.device)


@custom_op("lrga::sum_edges", mutates_args=())
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
    return spread_op(grad, *ctx.saved_tensors, ctx.dtype), None, None, None


sum_edges_op.register_autograd(_edges_gradient, setup_context=_keep_edges)


@custom_op("lrga::spread", mutates_args=())
def spread_op(grad: Tensor, target: Tensor, in_ptr: Tensor, dtype: torch.dtype) -> Tensor:
    """The row of its target for each edge."""
    return launch_spread(grad, target, in_ptr, dtype)


@spread_op.register_fake
def _(grad: Tensor, target: Tensor, in_ptr: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty(target.size(0), *grad.shape[1:], dtype=dtype, device=grad.device)


for operator in (turned_sum_op, edge_dots_op, spread_op):
    refuse_derivative(operator)
