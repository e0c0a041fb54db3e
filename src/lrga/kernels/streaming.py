"""Low-rank attention of one large graph on a GPU, without its projections ever being kept.

Forward, chunks of rows are projected by the vendor's library into a buffer that stays in the cache of the GPU; a kernel
adds bias and activation, sums V and Z up and puts U and m4 in their places in the result; a second pass turns U into
U S / η in place. (Where x must be converted as well, one kernel does it all and reads x once: ``FUSED``.)

Backward, the projections are computed again. The gradient of x is a result, so its memory is free until its rows are
written: where U, V and Z fit in there (and x in the type of the products, if that is another), one product over all
rows puts them there; elsewhere they are projected chunk by chunk, U alone in a first sweep. T = Uᵀ dA is summed, then
chunk by chunk a kernel turns U, V and Z (of m4 the result tells the sign) into the gradients before the activation, in
a buffer; the library multiplies it with x and with the weight, whose product overwrites the rows just used. Beyond
inputs, result and gradients there is only that buffer, tens of megabytes whatever N is. No atomics: results do not vary
between runs.

Letters: N nodes, D channels, H heads, K rank, C = K rounded up to 8 columns of a product, B columns of a map.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.kernels import triton_streaming as kernels
from lrga.kernels.launch import COMPUTE, block
from lrga.kernels.refusal import refuse_derivative
from lrga.kernels.support import dot_precision

BUFFER_BYTES = 48 << 20  # backward
FORWARD_BYTES = 32 << 20  # less than what the cache of a large GPU holds
FEWEST_ROWS = 1024  # of a chunk
WHOLE_WAVES = True  # chunks of as many rows as the multiprocessors divide evenly
IN_PLACE = True  # the products of the backward pass may lie in the memory of the gradient of x
FUSED = {(torch.float32, torch.bfloat16), (torch.float32, torch.float16)}  # types of x and products: forward fused
FUSED_CHANNELS = 0  # channels up to which the forward pass is fused whatever the types
CONVERT_AND_PROJECT = True  # backward, where x is of another type than the products, by one kernel
PROGRAMS = 4  # in Triton's interpreter; on a GPU so many for each multiprocessor:
PER_PROCESSOR = {"reduce_rows": 1, "reduce_maps": 2, "reduce_gradient_maps": 2, "project_rows": 2}
REDUCE: dict[str, Any] = {"BM": 64, "BD": 32, "num_warps": 8, "num_stages": 3}
REDUCE_MAPS: dict[str, Any] = {"BM": 64, "num_warps": 4, "num_stages": 2}
APPLY: dict[str, Any] = {"BM": 128, "num_warps": 8, "num_stages": 1}
REDUCE_GRADIENT: dict[str, Any] = {"BM": 64, "num_warps": 4, "num_stages": 2}
PROJECT: dict[str, Any] = {"BM": 64, "BD": 32, "num_warps": 4, "num_stages": 3}
GRADIENT: dict[str, Any] = {"BM": 64, "num_warps": 4, "num_stages": 1}
MIXED_PRODUCTS = "dtype" in torch.ops.aten.mm.overloads()  # narrow factors, float32 product: torch 2.8 and later


def streaming_attention(
    x: Tensor, weight: Tensor, bias: Tensor, *, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> Tensor:
    """``[attended, m4]`` of each head of one graph, ``[N, H * 2K]``; x is ``[N, D]``, the weight ``[H * 4K, D]``."""
    out, _ = streaming_forward(x, weight, bias, heads, rank, eps, dtype)
    return out


@torch.library.custom_op("lrga::streaming_forward", mutates_args=())
def streaming_forward(
    x: Tensor, weight: Tensor, bias: Tensor, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The result, and S, Σu and Σv of every head, ``[H, B² + 2B]``."""
    n, columns = x.size(0), block(rank)
    out = x.new_empty(n, heads * 2 * rank, dtype=dtype)
    if n == 0:
        return out, x.new_zeros(heads, columns * columns + 2 * columns, dtype=torch.float32)
    reduce = _reduce_fused if (x.dtype, dtype) in FUSED or x.size(1) <= FUSED_CHANNELS else _reduce_by_chunks
    totals = reduce(x.contiguous(), weight, bias.contiguous(), out, heads, rank, dtype).sum(1)
    shape = _shape(heads, rank, dtype)
    kernels.apply_rows[-(-n // APPLY["BM"]), heads](out, totals, n, eps, HALF=dtype == torch.float16, **shape, **APPLY)
    return out, totals


def _reduce_fused(
    x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, heads: int, rank: int, dtype: torch.dtype
) -> Tensor:
    """U and m4 into ``out``; partial sums of VᵀZ, U and V, ``[H, P, B² + 2B]``. One kernel, x read once."""
    programs, columns = _programs(x.device, "reduce_rows", heads), block(rank)
    parts = x.new_empty(heads, programs, columns * columns + 2 * columns, dtype=torch.float32)
    wide, wide_bias = _wide_maps(weight, bias, heads, rank, dtype)
    product = {"D": x.size(1), "COMPUTE": COMPUTE[dtype], **REDUCE}
    kernels.reduce_rows[programs, heads](
        x, wide, wide_bias, out, parts, x.size(0), **_shape(heads, rank, dtype), **product
    )
    return parts


def _reduce_by_chunks(
    x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, heads: int, rank: int, dtype: torch.dtype
) -> Tensor:
    """The same, the products by the library."""
    programs, columns = _programs(x.device, "reduce_maps", heads), block(rank)
    parts = x.new_empty(heads, programs, columns * columns + 2 * columns, dtype=torch.float32)
    across = _map_rows(weight, 4, heads, rank, dtype).t()
    room = _Room(x, dtype, across.size(1), FORWARD_BYTES)
    shape = {"STRIDE": across.size(1), "C": _padded(rank), **_shape(heads, rank, dtype), "COMPUTE": COMPUTE[dtype]}
    for first, last in room.chunks():
        maps = room.maps[: last - first]
        torch.mm(room.rows_of_x(first, last), across, out=maps)
        kernels.reduce_maps[programs, heads](
            maps, bias, out[first:last], parts, last - first, ADD=first > 0, **shape, **REDUCE_MAPS
        )
    return parts


@streaming_forward.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    columns = block(rank)
    totals = x.new_empty(heads, columns * columns + 2 * columns, dtype=torch.float32)
    return x.new_empty(x.size(0), heads * 2 * rank, dtype=dtype), totals


@torch.library.custom_op("lrga::streaming_backward", mutates_args=())
def streaming_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, totals: Tensor,
    heads: int, rank: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, weight and bias."""
    n, dtype, columns = x.size(0), grad.dtype, block(rank)
    dx = x.new_empty(x.shape)
    if n == 0:
        return dx, torch.zeros_like(weight), torch.zeros_like(bias)
    grad, x, bias = grad.contiguous(), x.contiguous(), bias.contiguous()
    half, precision, width = dtype == torch.float16, _precision(dtype), heads * 4 * rank
    whole, t_totals = _project(dx, x, weight, bias, grad, heads, rank)
    factors = totals.new_empty(heads, 2 * columns * columns + 2 * columns)
    kernels.gradient_factors[heads,](totals, t_totals, factors, n, eps, B=columns, HALF=half, PRECISION=precision)
    # the library multiplies fastest along contiguous rows of both sides
    back = weight.to(dtype).t().contiguous().t()
    dw = torch.zeros_like(weight, dtype=torch.float32, memory_format=torch.contiguous_format)
    columns_of_maps = 0 if whole else heads * 3 * _padded(rank)
    room = _Room(x, dtype, columns_of_maps, BUFFER_BYTES, beside=width, convert=whole is None)
    across = None if whole else _map_rows(weight, 3, heads, rank, dtype).t()
    tiles = -(-room.step // GRADIENT["BM"])
    bias_parts = totals.new_zeros(heads, tiles, 4 * columns)
    shape = {**_shape(heads, rank, dtype), "C": _padded(rank), **GRADIENT}
    for first, last in room.chunks():
        rows = last - first
        if whole is None:
            assert across is not None
            given, maps = room.rows_of_x(first, last), room.maps[:rows]
            torch.mm(given, across, out=maps)
        else:
            maps, given = (tensor[first:last] for tensor in whole)
        gradients = room.beside[:rows]
        kernels.gradient_maps[2 * -(-rows // GRADIENT["BM"]), heads](
            maps, bias, out[first:last], grad[first:last], factors, gradients, bias_parts, rows, tiles,
            STRIDE=maps.stride(0), **shape,
        )  # fmt: skip
        _add_mm(dw, gradients.t(), given)
        _mm(gradients, back, dx[first:last])  # last: maps and given may lie in these rows
    db = bias_parts.sum(1).view(heads, 4, columns)[:, :, :rank].reshape(bias.shape)
    return dx, dw.to(weight.dtype), db.to(bias.dtype)


def _project(
    dx: Tensor, x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor, heads: int, rank: int
) -> tuple[tuple[Tensor, Tensor] | None, Tensor]:
    """The products U, V and Z of all rows and x in their type, in the memory of ``dx`` (``None`` where they do not
    fit), and T = Uᵀ dA of every head, ``[H, B²]``."""
    dtype, channels, columns = grad.dtype, x.size(1), heads * 3 * _padded(rank)
    if not IN_PLACE or columns > channels or (x.dtype != dtype and x.dtype.itemsize != 2 * dtype.itemsize):
        return None, _sum_t_by_chunks(x, weight, bias, grad, heads, rank).sum(1)
    if x.dtype == dtype:
        maps, given = dx[:, :columns], x
    else:
        halves = dx.view(dtype)
        maps, given = halves[:, :columns], halves[:, channels:]
        if CONVERT_AND_PROJECT:
            return (maps, given), _convert_and_project(x, weight, bias, grad, maps, given, heads, rank).sum(1)
        given.copy_(x)
    torch.mm(given, _map_rows(weight, 3, heads, rank, dtype).t(), out=maps)
    parts = _t_parts(x, heads, rank, "reduce_gradient_maps")
    _sum_t(maps, 3 * _padded(rank), bias, grad, parts, heads, rank, add=False)
    return (maps, given), parts.sum(1)


def _convert_and_project(
    x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor, maps: Tensor, given: Tensor, heads: int, rank: int
) -> Tensor:
    """The same by one kernel, where x is of another type than the products; partial sums of T, ``[H, P, B²]``."""
    parts = _t_parts(x, heads, rank, "project_rows")
    wide, wide_bias = _wide_maps(weight, bias, heads, rank, grad.dtype)
    kernels.project_rows[parts.size(1), heads](
        x, wide, wide_bias, grad, maps, given, parts, x.size(0), STRIDE=maps.stride(0), D=x.size(1), C=_padded(rank),
        COMPUTE=COMPUTE[grad.dtype], **_shape(heads, rank, grad.dtype), **PROJECT,
    )  # fmt: skip
    return parts


def _sum_t_by_chunks(x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor, heads: int, rank: int) -> Tensor:
    """Partial sums of T = Uᵀ dA, ``[H, P, B²]``, the products of U made here."""
    dtype, padded = grad.dtype, _padded(rank)
    parts = _t_parts(x, heads, rank, "reduce_gradient_maps")
    across = _map_rows(weight, 1, heads, rank, dtype).t()
    room = _Room(x, dtype, heads * padded, FORWARD_BYTES)
    for first, last in room.chunks():
        maps = room.maps[: last - first]
        torch.mm(room.rows_of_x(first, last), across, out=maps)
        _sum_t(maps, padded, bias, grad[first:last], parts, heads, rank, add=first > 0)
    return parts


def _sum_t(
    maps: Tensor, head: int, bias: Tensor, grad: Tensor, parts: Tensor, heads: int, rank: int, *, add: bool
) -> None:
    """T of some rows into ``parts``; the U of every head begins so many columns of ``maps`` after the one before."""
    places = {"STRIDE": maps.stride(0), "HEAD": head, "C": _padded(rank), **_shape(heads, rank, grad.dtype)}
    kernels.reduce_gradient_maps[parts.size(1), heads](
        maps, bias, grad, parts, grad.size(0), ADD=add, COMPUTE=COMPUTE[grad.dtype], **places, **REDUCE_GRADIENT
    )


def _t_parts(x: Tensor, heads: int, rank: int, kernel: str) -> Tensor:
    return x.new_empty(heads, _programs(x.device, kernel, heads), block(rank) ** 2, dtype=torch.float32)


@streaming_backward.register_fake
def _(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    out: Tensor,
    totals: Tensor,
    heads: int,
    rank: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(t.new_empty(t.shape) for t in (x, weight, bias))  # type: ignore[return-value]


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    x, weight, bias, ctx.heads, ctx.rank, ctx.eps, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(x, weight, bias, *output)


def _backward(ctx, grad: Tensor, _: Tensor):  # type: ignore[no-untyped-def]
    gradients = streaming_backward(grad, *ctx.saved_tensors, ctx.heads, ctx.rank, ctx.eps)
    return *gradients, None, None, None, None


streaming_forward.register_autograd(_backward, setup_context=_setup)
refuse_derivative(streaming_backward)


def _wide_maps(weight: Tensor, bias: Tensor, heads: int, rank: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Weight ``[H, 4, B, D]`` and bias ``[H, 4, B]``, filled up with zeros; the weight rounded as its products are."""
    more = block(rank) - rank
    w = F.pad(weight.reshape(heads, 4, rank, -1), (0, 0, 0, more)).to(dtype)
    b = F.pad(bias.view(heads, 4, rank), (0, more)).float()
    if dtype == torch.float32 and dot_precision(dtype) == "tf32":
        rounded = ((w.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
        w = torch.where(w == w, rounded, w)
    return w, b


def _map_rows(weight: Tensor, maps: int, heads: int, rank: int, dtype: torch.dtype) -> Tensor:
    """The first so many maps of every head, each filled up to C rows, ``[H * maps * C, D]``."""
    rows = weight.reshape(heads, 4, rank, -1)[:, :maps]
    return F.pad(rows, (0, 0, 0, _padded(rank) - rank)).to(dtype).reshape(-1, weight.size(1))


class _Room:
    """Memory for the chunks of a pass: products, x in their type where it is of another, and what stands beside."""

    def __init__(
        self, x: Tensor, dtype: torch.dtype, columns: int, limit: int, *, beside: int = 0, convert: bool = True
    ) -> None:
        self.x = x
        channels = x.size(1) if convert and x.dtype != dtype else 0
        wave = 128 * _processors(x.device) if WHOLE_WAVES else 0
        self.step = rows_of_chunk(x.size(0), (columns + beside + channels) * dtype.itemsize, limit, wave)
        self.maps, self.beside, self.converted = (
            x.new_empty(self.step, width, dtype=dtype) for width in (columns, beside, channels)
        )

    def chunks(self) -> Iterator[tuple[int, int]]:
        n = self.x.size(0)
        return ((first, min(first + self.step, n)) for first in range(0, n, self.step))

    def rows_of_x(self, first: int, last: int) -> Tensor:
        chunk = self.x[first:last]
        return self.converted[: last - first].copy_(chunk) if self.converted.size(1) else chunk


def rows_of_chunk(n: int, row_bytes: int, limit: int, wave: int = 0) -> int:
    """Rows of chunks of at most ``limit`` bytes, a multiple of 128: whole waves where one fits, else equal chunks.

    A wave is what all multiprocessors do at once; the last of a product, half empty, takes as long as a full one.
    """
    most = max(FEWEST_ROWS, limit // row_bytes // 128 * 128)
    if 0 < wave <= most < n:
        return most // wave * wave
    return -(-n // -(-n // most) // 128) * 128


def _padded(rank: int) -> int:
    """Columns of a product: rows then begin where 16 bytes can be read at once."""
    return -(-rank // 8) * 8


def _precision(dtype: torch.dtype) -> str:
    return dot_precision(dtype) if dtype == torch.float32 else "tf32"


def _shape(heads: int, rank: int, dtype: torch.dtype) -> dict[str, Any]:
    return {"H": heads, "K": rank, "B": block(rank), "PRECISION": _precision(dtype)}


def _mm(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``a b`` into ``out``, which may be float32 where a and b are narrower."""
    if out.dtype == a.dtype:
        torch.mm(a, b, out=out)
    elif MIXED_PRODUCTS and a.is_cuda and out.dtype == torch.float32:
        torch.mm(a, b, out_dtype=out.dtype, out=out)
    else:
        out.copy_(torch.mm(a, b))


def _add_mm(total: Tensor, a: Tensor, b: Tensor) -> None:
    """``total += a b`` in float32."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif MIXED_PRODUCTS and a.is_cuda:
        total.add_(torch.mm(a, b, out_dtype=total.dtype))
    else:
        total.add_(torch.mm(a.float(), b.float()))


def _programs(device: torch.device, kernel: str, heads: int) -> int:
    """Programs for each head that keep partial sums: all heads together fill the GPU."""
    processors = _processors(device)
    return -(-processors * PER_PROCESSOR[kernel] // heads) if processors else PROGRAMS


def _processors(device: torch.device) -> int:
    """Multiprocessors of a GPU; none in Triton's interpreter."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 0
