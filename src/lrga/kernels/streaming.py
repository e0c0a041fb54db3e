"""Low-rank attention of one large graph on a GPU, without its projections ever being stored.

Forward, x is read once: blocks of rows are projected, V and Z are summed, U and m4 go to their places in the result; a
second pass turns U into U S / η in place. Backward, the projections are computed again: once U alone for T = Uᵀ dA,
then U, V and Z (of m4 the result tells the sign) for
the gradients before the activation, which go chunk by chunk into a buffer that is multiplied with the
weight and with x by the vendor's library. Beyond inputs, result and gradients there is only that buffer, tens of
megabytes whatever N is. No atomics: results do not vary between runs.

Letters: N nodes, D channels, H heads, K rank, B columns of a map, P programs.
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

BUFFER_BYTES = 48 << 20
PROGRAMS = 4  # in Triton's interpreter; on a GPU one for each multiprocessor
REDUCE: dict[str, Any] = {"BM": 128, "BD": 32, "num_warps": 8, "num_stages": 3}
REDUCE_GRADIENT: dict[str, Any] = {"BM": 64, "BD": 32, "num_warps": 4, "num_stages": 4}
GRADIENT: dict[str, Any] = {"BM": 128, "BD": 32, "num_warps": 8, "num_stages": 3}
APPLY: dict[str, Any] = {"BM": 128, "num_warps": 4, "num_stages": 1}
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
    programs = _programs(x.device)
    parts = x.new_empty(heads, programs, columns * columns + 2 * columns, dtype=torch.float32)
    if n == 0:
        return out, parts.new_zeros(heads, parts.size(2))
    wide, wide_bias = _wide_maps(weight, bias, heads, rank, dtype)
    shape = _shape(heads, rank, dtype)
    product = {"D": x.size(1), "COMPUTE": COMPUTE[dtype], **REDUCE}
    kernels.reduce_rows[programs, heads](x.contiguous(), wide, wide_bias, out, parts, n, **shape, **product)
    totals = parts.sum(1)
    kernels.apply_rows[-(-n // APPLY["BM"]), heads](out, totals, n, eps, HALF=dtype == torch.float16, **shape, **APPLY)
    return out, totals


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
    dx = torch.empty_like(x)
    if n == 0:
        return dx, torch.zeros_like(weight), torch.zeros_like(bias)
    grad, x = grad.contiguous(), x.contiguous()
    wide, wide_bias = _wide_maps(weight, bias, heads, rank, dtype)
    shape = {"D": x.size(1), "COMPUTE": COMPUTE[dtype], **_shape(heads, rank, dtype)}
    programs = _programs(x.device)
    parts = totals.new_empty(heads, 2 * programs, columns * columns)
    kernels.reduce_gradient_rows[2 * programs, heads](x, wide, wide_bias, grad, parts, n, **shape, **REDUCE_GRADIENT)
    t_totals = parts.sum(1)
    bias_parts = totals.new_empty(heads, programs, 4 * columns)
    across = weight.to(dtype).t().contiguous()  # the library multiplies fastest along contiguous rows of both sides
    dw = torch.zeros_like(weight, dtype=torch.float32)
    step = rows_of_chunk(heads * 4 * rank, dtype)
    buffer = x.new_empty(min(step, n), heads * 4 * rank, dtype=dtype)
    shape.update(GRADIENT, HALF=dtype == torch.float16)
    for first, last in _chunks(n, step):
        chunk, maps = x[first:last], buffer[: last - first]
        kernels.gradient_rows[programs, heads](
            chunk, wide, wide_bias, out[first:last], grad[first:last], totals, t_totals, maps, bias_parts,
            last - first, n, eps, ADD=first > 0, **shape,
        )  # fmt: skip
        _mm(maps, across.t(), dx[first:last])
        _add_mm(dw, maps.t(), chunk.to(dtype))
    db = bias_parts.sum(1).view(heads, 4, columns)[:, :, :rank].reshape(bias.shape)
    return dx, dw.to(weight.dtype), db.to(bias.dtype)


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
    return torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)


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
    w = F.pad(weight.view(heads, 4, rank, -1), (0, 0, 0, more)).to(dtype)
    b = F.pad(bias.view(heads, 4, rank), (0, more)).float()
    if dtype == torch.float32 and dot_precision(dtype) == "tf32":
        rounded = ((w.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
        w = torch.where(w == w, rounded, w)
    return w, b


def _shape(heads: int, rank: int, dtype: torch.dtype) -> dict[str, Any]:
    precision = dot_precision(dtype) if dtype == torch.float32 else "tf32"
    return {"H": heads, "K": rank, "B": block(rank), "PRECISION": precision}


def _mm(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``a b`` into ``out``, which may be float32 where a and b are narrower."""
    if out.dtype == a.dtype:
        torch.mm(a, b, out=out)
    elif MIXED_PRODUCTS and a.is_cuda:
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


def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def _chunks(n: int, step: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + step, n)) for first in range(0, n, step))


def rows_of_chunk(columns: int, dtype: torch.dtype) -> int:
    """Rows whose projections fill the buffer; a multiple of 1024."""
    return max(1024, BUFFER_BYTES // (columns * dtype.itemsize) // 1024 * 1024)
