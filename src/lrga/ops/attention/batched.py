"""Low-rank attention of many graphs on a GPU, from the node features to the result in three kernels.

The projections are computed inside the kernels, forward and again backward, so that nothing of size N × 4K is kept.
:func:`fused_attention` is the counterpart of ``segmented_attention(relu(linear(x)))``, which is what it is compared
with; :func:`tiled_attention` takes u, v, z as they are.

Letters: N nodes, D channels, G graphs, H heads, K rank, M tiles.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

import torch
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops.attention import batched_launch as launch
from lrga.ops.attention.batched_launch import Blocks
from lrga.ops.attention.tiles import Tiles
from lrga.ops.linear import column_sum


def fused_attention(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    tiles: Tiles,
    *,
    heads: int,
    rank: int,
    eps: float,
    dtype: torch.dtype,
) -> Tensor:
    """``[attended, m4]`` of each head, ``[N, H * 2K]`` in ``dtype``, from x ``[N, D]`` and the weight ``[H * 4K, D]``.

    D and K are small enough to be held by a program, see :mod:`lrga.ops.attention`.
    """
    out, _ = fused_forward(x, weight, bias, *_table(tiles), heads, rank, eps, dtype)
    return out


def tiled_attention(u: Tensor, v: Tensor, z: Tensor, tiles: Tiles, *, eps: float) -> Tensor:
    """``u (vᵀ z) / η`` of each graph; ``u, v: [N, H, K]``, ``z: [N, H, Z]``, all of one dtype."""
    out, _ = tiled_forward(u, v, z, *_table(tiles), eps)
    return out


@operator("lrga::fused_forward")
def fused_forward(
    x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, end: Tensor, graph: Tensor, ptr: Tensor, counts: Tensor,
    order: Tensor | None, heads: int, rank: int, eps: float, dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result, and S, Σu and Σv of every graph and head, ``[H, G, K² + 2K]``."""
    out = x.new_empty(x.size(0), heads * 2 * rank, dtype=dtype)
    tiles, blocks = Tiles(start, end, graph, ptr, counts, order), _blocks(x, rank, dtype)
    parts = x.new_empty(heads, tiles.number, rank * rank + 2 * rank, dtype=torch.float32)
    if not tiles.number:
        return out, parts.new_zeros(heads, counts.size(0), parts.size(2))
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    launch.reduce(tiles, blocks, heads, parts, x=x, weight=weight, bias=bias, out=out)
    totals = launch.total(tiles, heads, parts)
    attended = _attended(out, heads, rank)
    launch.apply(tiles, blocks, heads, attended, attended, totals, eps)
    return out, totals


@fused_forward.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, end: Tensor, graph: Tensor, ptr: Tensor, counts: Tensor,
    order: Tensor | None, heads: int, rank: int, eps: float, dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    totals = x.new_empty(heads, counts.size(0), rank * rank + 2 * rank, dtype=torch.float32)
    return x.new_empty(x.size(0), heads * 2 * rank, dtype=dtype), totals


@operator("lrga::fused_backward")
def fused_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, totals: Tensor, start: Tensor, end: Tensor,
    graph: Tensor, ptr: Tensor, counts: Tensor, order: Tensor | None, heads: int, rank: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, weight and bias."""
    n, dtype = x.size(0), grad.dtype
    tiles, blocks = Tiles(start, end, graph, ptr, counts, order), _blocks(x, rank, dtype)
    if not tiles.number:
        return x.new_zeros(x.shape), weight.new_zeros(weight.shape), bias.new_zeros(bias.shape)
    grad, x, weight, bias = _dense_rows(grad), x.contiguous(), weight.contiguous(), bias.contiguous()
    out, totals = out.contiguous(), totals.contiguous()
    attended = _attended(grad, heads, rank)
    parts = totals.new_empty(heads, tiles.number, rank * rank)
    launch.reduce_gradient(tiles, blocks, heads, parts, attended, x=x, weight=weight, bias=bias)
    t_totals = launch.total(tiles, heads, parts)
    projected = grad.new_empty(n, heads, 4, rank)  # gradient before the activation
    bias_parts = totals.new_empty(heads, tiles.number, 4 * rank)
    du, dv, dz, dm4 = projected.unbind(2)
    launch.gradient(
        tiles, blocks, heads, attended, totals, t_totals, (du, dv, dz), eps,
        x=x, weight=weight, bias=bias, out=out, dm4=dm4, bias_parts=bias_parts,
    )  # fmt: skip
    flat = projected.flatten(1)
    dx = torch.mm(flat, weight.to(dtype)).to(x.dtype)
    dw = torch.mm(flat.t(), x.to(dtype)).to(weight.dtype)
    return dx, dw, column_sum(bias_parts).view(-1).to(bias.dtype)


@fused_backward.register_fake
def _(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, totals: Tensor, start: Tensor, end: Tensor,
    graph: Tensor, ptr: Tensor, counts: Tensor, order: Tensor | None, heads: int, rank: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return x.new_empty(x.shape), weight.new_empty(weight.shape), bias.new_empty(bias.shape)  # contiguous, as they are


@operator("lrga::tiled_forward")
def tiled_forward(
    u: Tensor, v: Tensor, z: Tensor, start: Tensor, end: Tensor, graph: Tensor, ptr: Tensor, counts: Tensor,
    order: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result ``[N, H, Z]``, and S, Σu and Σv, ``[H, G, K·Z + 2K]``."""
    heads, rank, columns = u.size(1), u.size(2), z.size(2)
    out = z.new_empty(z.size(0), heads, columns)
    tiles, blocks = Tiles(start, end, graph, ptr, counts, order), Blocks(rank, columns, u.dtype)
    parts = z.new_empty(heads, tiles.number, rank * columns + 2 * rank, dtype=torch.float32)
    if not tiles.number or not rank or not columns:
        return out.zero_(), parts.new_zeros(heads, counts.size(0), parts.size(2))
    u, v, z = (_dense_rows(t) for t in (u, v, z))
    launch.reduce(tiles, blocks, heads, parts, u=u, v=v, z=z)
    totals = launch.total(tiles, heads, parts)
    launch.apply(tiles, blocks, heads, u, out, totals, eps)
    return out, totals


@tiled_forward.register_fake
def _(
    u: Tensor, v: Tensor, z: Tensor, start: Tensor, end: Tensor, graph: Tensor, ptr: Tensor, counts: Tensor,
    order: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    totals = z.new_empty(u.size(1), counts.size(0), u.size(2) * z.size(2) + 2 * u.size(2), dtype=torch.float32)
    return z.new_empty(z.shape), totals


@operator("lrga::tiled_backward")
def tiled_backward(
    grad: Tensor, u: Tensor, v: Tensor, z: Tensor, totals: Tensor, start: Tensor, end: Tensor, graph: Tensor,
    ptr: Tensor, counts: Tensor, order: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of u, v and z."""
    heads, rank, columns = u.size(1), u.size(2), z.size(2)
    du, dv, dz = (t.new_empty(t.shape) for t in (u, v, z))
    tiles, blocks = Tiles(start, end, graph, ptr, counts, order), Blocks(rank, columns, u.dtype)
    if not tiles.number or not rank or not columns:
        return du.zero_(), dv.zero_(), dz.zero_()
    u, v, z, grad = (_dense_rows(t) for t in (u, v, z, grad))
    totals = totals.contiguous()
    parts = totals.new_empty(heads, tiles.number, rank * columns)
    launch.reduce_gradient(tiles, blocks, heads, parts, grad, u=u)
    t_totals = launch.total(tiles, heads, parts)
    launch.gradient(tiles, blocks, heads, grad, totals, t_totals, (du, dv, dz), eps, maps=(u, v, z))
    return du, dv, dz


@tiled_backward.register_fake
def _(
    grad: Tensor, u: Tensor, v: Tensor, z: Tensor, totals: Tensor, start: Tensor, end: Tensor, graph: Tensor,
    ptr: Tensor, counts: Tensor, order: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return u.new_empty(u.shape), v.new_empty(v.shape), z.new_empty(z.shape)


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    x, weight, bias, *table, ctx.heads, ctx.rank, ctx.eps, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # no zeros for the gradient of what has none
    ctx.save_for_backward(x, weight, bias, *output, *table)


def _backward(ctx, grad: Tensor, _: Tensor | None):  # type: ignore[no-untyped-def]
    x, weight, bias, out, totals, *table = ctx.saved_tensors
    gradients = fused_backward(grad, x, weight, bias, out, totals, *table, ctx.heads, ctx.rank, ctx.eps)
    return *gradients, *[None] * 10


def _setup_tiled(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    u, v, z, *table, ctx.eps = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(u, v, z, output[1], *table)


def _backward_tiled(ctx, grad: Tensor, _: Tensor | None):  # type: ignore[no-untyped-def]
    u, v, z, totals, *table = ctx.saved_tensors
    return *tiled_backward(grad, u, v, z, totals, *table, ctx.eps), *[None] * 7


fused_forward.register_autograd(_backward, setup_context=_setup)
tiled_forward.register_autograd(_backward_tiled, setup_context=_setup_tiled)
fused_backward.refuse_derivative()
tiled_backward.refuse_derivative()


def _table(tiles: Tiles) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    return tiles.start, tiles.end, tiles.graph, tiles.ptr, tiles.counts, tiles.order


def _blocks(x: Tensor, rank: int, dtype: torch.dtype) -> Blocks:
    return Blocks(rank, rank, dtype, width=launch.block(x.size(1)))


def _attended(out: Tensor, heads: int, rank: int) -> Tensor:
    """The columns ``[N, H, K]`` of ``[N, H * 2K]`` that hold what is attended to."""
    return out.view(out.size(0), heads, 2, rank)[:, :, 0]


def _dense_rows(t: Tensor) -> Tensor:
    return t if t.stride(-1) == 1 or t.size(-1) < 2 else t.contiguous()
