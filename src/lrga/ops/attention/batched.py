"""Low-rank attention of many graphs on a GPU, from node features to result in three kernels.

The kernels compute the projections, forward and again backward, so no tensor of size N × 4K is stored.
:func:`fused_attention` is the counterpart of ``segmented_attention(relu(linear(x)))``, its reference
in tests; :func:`tiled_attention` has u, v, z as inputs.

Letters: N nodes, D channels, G graphs, H heads, K rank, Z columns of z, M tiles.
"""

from typing import Any

import torch
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import block, cdiv, compute_type, dot_precision, launch
from lrga.ops.attention import batched_kernels as kernels
from lrga.ops.attention.segments import Tiles
from lrga.ops.linear import launch_column_sum
from lrga.ops.streams import current_streams, in_parallel, parallel_streams

Inputs = tuple[Tensor | None, ...]  # x, weight and bias, or u, v and z; the other three are None
NO_STRIDES = dict.fromkeys(("stride_u", "stride_v", "stride_z", "head_u", "head_v", "head_z"), 0)


def fused_attention(
    x: Tensor, weight: Tensor, bias: Tensor, tiles: Tiles, *, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> Tensor:
    """``[attended, m4]`` of each head, ``[N, H * 2K]`` in ``dtype``, from x ``[N, D]`` and the weight ``[H * 4K, D]``.

    D and K must fit in the memory of a program, see :mod:`lrga.ops.attention`.
    """
    return fused_forward(x, weight, bias, tiles.table, heads, rank, eps, dtype)[0]


def tiled_attention(u: Tensor, v: Tensor, z: Tensor, tiles: Tiles, *, eps: float) -> Tensor:
    """``u (vᵀ z) / η`` of each graph; ``u, v: [N, H, K]``, ``z: [N, H, Z]``, all of one dtype."""
    return tiled_forward(u, v, z, tiles.table, eps)[0]


@operator(
    "lrga::fused_forward",
    lambda x, _weight, _bias, table, heads, rank, _eps, dtype: (
        x.new_empty(x.size(0), heads * 2 * rank, dtype=dtype),
        x.new_empty(heads, table[4].size(0), rank * rank + 2 * rank, dtype=torch.float32),
    ),
)
def fused_forward(
    x: Tensor, weight: Tensor, bias: Tensor, table: list[Tensor], heads: int, rank: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Returns the result, and S, Σu and Σv of every graph and head, ``[H, G, K² + 2K]``."""
    out, tiles = x.new_empty(x.size(0), heads, 2 * rank, dtype=dtype), Tiles(*table)
    inputs = x.contiguous(), weight.contiguous(), bias.contiguous(), None, None, None
    totals = _attend(out, rank, rank, tiles, eps, inputs)
    return out.view(x.size(0), heads * 2 * rank), totals


@operator(
    "lrga::tiled_forward",
    lambda u, _v, z, table, _eps: (
        z.new_empty(z.shape),
        z.new_empty(u.size(1), table[4].size(0), u.size(2) * z.size(2) + 2 * u.size(2), dtype=torch.float32),
    ),
)
def tiled_forward(u: Tensor, v: Tensor, z: Tensor, table: list[Tensor], eps: float) -> tuple[Tensor, Tensor]:
    """Returns the result ``[N, H, Z]``, and S, Σu and Σv, ``[H, G, K·Z + 2K]``."""
    out, tiles = z.new_empty(z.shape), Tiles(*table)
    inputs = None, None, None, _dense_rows(u), _dense_rows(v), _dense_rows(z)
    return out, _attend(out, u.size(2), z.size(2), tiles, eps, inputs)


@operator("lrga::fused_backward")
def fused_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, totals: Tensor, table: list[Tensor],
    heads: int, rank: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, weight and bias."""
    tiles, dtype = Tiles(*table), grad.dtype
    if not tiles.number:
        return x.new_zeros(x.shape), weight.new_zeros(weight.shape), bias.new_zeros(bias.shape)
    inputs = x.contiguous(), weight.contiguous(), bias.contiguous(), None, None, None
    grad, out = (_dense_rows(t).view(-1, heads, 2 * rank) for t in (grad, out))
    projected = grad.new_empty(x.size(0), heads, 4 * rank)  # gradients before the activation
    bias_parts = totals.new_empty(heads, tiles.number, 4 * rank)
    _differentiate(grad, totals, rank, rank, tiles, eps, inputs, (projected, None, None), out, bias_parts)
    flat = projected.view(-1, heads * 4 * rank)

    def of_parameters() -> tuple[Tensor, Tensor]:
        dw = torch.mm(flat.t(), x.to(dtype)).to(weight.dtype)
        return dw, launch_column_sum(bias_parts).view(-1).to(bias.dtype)

    dx, (dw, db) = in_parallel("projection", lambda: torch.mm(flat, weight.to(dtype)).to(x.dtype), of_parameters)
    return dx, dw, db


fused_backward.gives_gradients_of("x", "weight", "bias")


@operator("lrga::tiled_backward")
def tiled_backward(
    grad: Tensor, u: Tensor, v: Tensor, z: Tensor, totals: Tensor, table: list[Tensor], eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of u, v and z."""
    du, dv, dz = u.new_empty(u.shape), v.new_empty(v.shape), z.new_empty(z.shape)
    tiles, rank, columns = Tiles(*table), u.size(2), z.size(2)
    if not tiles.number or not rank or not columns:
        return du.zero_(), dv.zero_(), dz.zero_()
    inputs = None, None, None, _dense_rows(u), _dense_rows(v), _dense_rows(z)
    _differentiate(_dense_rows(grad), totals, rank, columns, tiles, eps, inputs, (du, dv, dz))
    return du, dv, dz


tiled_backward.gives_gradients_of("u", "v", "z")


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Saves, for either forward operator, its three inputs, both results, the tiles and the numbers for backward."""
    *learned, table = inputs[:4]
    ctx.numbers = inputs[4:7]  # heads, rank and eps, or only eps
    ctx.streams = current_streams()
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # do not create zeros for missing gradients
    ctx.save_for_backward(*learned, *(output if len(ctx.numbers) > 1 else output[1:]), *table)


def _backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor, ...]:
    saved = ctx.saved_tensors
    with parallel_streams(ctx.streams):
        return fused_backward(grad, *saved[:5], [*saved[5:]], *ctx.numbers)


def _backward_tiled(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor, ...]:
    saved = ctx.saved_tensors
    return tiled_backward(grad, *saved[:4], [*saved[4:]], *ctx.numbers)


fused_forward.register_autograd(_backward, setup_context=_keep)
tiled_forward.register_autograd(_backward_tiled, setup_context=_keep)


def _attend(out: Tensor, rank: int, columns: int, tiles: Tiles, eps: float, inputs: Inputs) -> Tensor:
    """Returns S, Σu, Σv and writes the result into ``out`` ``[N, H, …]``."""
    heads, (x, _, _, u, v, z) = out.size(1), inputs
    parts = out.new_empty(heads, tiles.number, rank * columns + 2 * rank, dtype=torch.float32)
    if not parts.numel() or not columns:
        out.zero_()
        return parts.new_zeros(heads, tiles.counts.size(0), parts.size(2))
    grid, how = (tiles.number, heads), _constants(rank, columns, out.dtype)
    launch(
        kernels.reduce_tiles, grid,
        *inputs, out, parts, tiles.order, tiles.start, tiles.end, stride_out=out.stride(0),
        **_strides_of_inputs(x, u, v, z), **_projection(x, out.dtype), **how,
    )  # fmt: skip
    totals = _total(parts, tiles)
    u = out if u is None else u
    launch(
        kernels.apply_tiles, grid,
        u, out, totals, tiles.order, tiles.start, tiles.end, tiles.graph, tiles.counts, eps, tiles.counts.size(0),
        stride_u=u.stride(0), head_u=u.stride(1), stride_out=out.stride(0), head_out=out.stride(1),
        HALF=out.dtype == torch.float16, **how,
    )  # fmt: skip
    return totals


def _differentiate(
    grad: Tensor, totals: Tensor, rank: int, columns: int, tiles: Tiles, eps: float, inputs: Inputs,
    gradients: tuple[Tensor, Tensor | None, Tensor | None], out: Tensor | None = None, bias_parts: Tensor | None = None,
) -> None:  # fmt: skip
    """Writes the gradients of u, v and z. Given x, weight, bias and the result ``out``: the gradients of all four maps
    before their activation, next to each other, and the partial sums of the bias gradient."""
    heads, (x, weight, bias, u, v, z), (du, _, dz) = grad.size(1), inputs, gradients
    parts = totals.new_empty(heads, tiles.number, rank * columns)
    grid, how, strides = (tiles.number, heads), _constants(rank, columns, grad.dtype), _strides_of_inputs(x, u, v, z)
    how |= {"stride_grad": grad.stride(0), "head_grad": grad.stride(1), **_projection(x, grad.dtype)}
    launch(
        kernels.reduce_gradient, grid,
        x, weight, bias, u, grad, parts, tiles.order, tiles.start, tiles.end, stride_x=strides["stride_x"],
        stride_u=strides["stride_u"], head_u=strides["head_u"], **how,
    )  # fmt: skip
    launch(
        kernels.gradient_tiles, grid,
        *inputs, out, grad, totals.contiguous(), _total(parts, tiles), *gradients, bias_parts,
        tiles.order, tiles.start, tiles.end, tiles.graph, tiles.counts, eps, tiles.counts.size(0),
        stride_out=0 if out is None else out.stride(0), **strides,
        stride_du=du.stride(0), head_du=du.stride(1), stride_dz=0 if dz is None else dz.stride(0),
        head_dz=0 if dz is None else dz.stride(1), HALF=grad.dtype == torch.float16, **how,
    )  # fmt: skip


def _total(parts: Tensor, tiles: Tiles) -> Tensor:
    """``[H, M, F]`` summed over the tiles of each graph, ``[H, G, F]``."""
    heads, number, width = parts.shape
    totals = parts.new_empty(heads, tiles.counts.size(0), width)
    grid = (tiles.counts.size(0), heads, cdiv(width, 128))
    launch(kernels.sum_tiles, grid, parts, totals, tiles.ptr, width, number, ROWS=8, BF=128, num_warps=4)
    return totals


def _constants(rank: int, columns: int, dtype: torch.dtype) -> dict[str, Any]:
    """Block sizes (powers of two) and the precision of products."""
    sizes = {"BM": 64, "BK": block(rank), "BZ": block(columns), "num_warps": 4, "num_stages": 1}
    return {"K": rank, "KZ": columns, "PRECISION": dot_precision(dtype), **sizes}


def _projection(x: Tensor | None, dtype: torch.dtype) -> dict[str, Any]:
    channels = 0 if x is None else x.size(1)
    return {"D": channels, "COMPUTE": compute_type(dtype), "BD": block(max(channels, 1))}


def _strides_of_inputs(x: Tensor | None, u: Tensor | None, v: Tensor | None, z: Tensor | None) -> dict[str, int]:
    """Strides of rows and heads."""
    if u is None or v is None or z is None:
        assert x is not None
        return {"stride_x": x.stride(0), **NO_STRIDES}
    (stride_u, head_u, _), (stride_v, head_v, _), (stride_z, head_z, _) = u.stride(), v.stride(), z.stride()
    heads = {"head_u": head_u, "head_v": head_v, "head_z": head_z}
    return {"stride_x": 0, "stride_u": stride_u, "stride_v": stride_v, "stride_z": stride_z, **heads}


def _dense_rows(t: Tensor) -> Tensor:
    return t if t.stride(-1) == 1 or t.size(-1) < 2 else t.contiguous()
