"""Low-rank attention of one large graph on a GPU, without its projections ever being kept.

Forward, x is read once: blocks of rows are projected, V and Z are summed, U and m4 go to their places in the result; a
second pass turns U into U S / η in place.

Backward, the projections are computed again. The gradient of x is a result, so its memory is free until its rows are
written. Where U, V, Z and their gradients fit in there (and x in the type of the products, if x is float32 and that
has 16 bits), one product over all rows puts U, V and Z there: the library's, or where x must be narrowed too a
kernel's. T = Uᵀ dA is summed, then from the last chunk of rows to the first a kernel turns U, V and Z (of m4 the
result tells the sign) into the gradients before the activation; those of the last chunk go into a buffer, the others
into rows of the gradient of x whose projections have been used. The library multiplies them with x and with the
weight. Where they do not fit, kernels project blocks of rows themselves, U alone in a first sweep, and the gradients
of every chunk go into the buffer. Beyond inputs, result and gradients there is only that buffer, tens of megabytes
whatever N is. No atomics: results do not vary between runs.

Letters: N nodes, D channels, H heads, K rank, C = K rounded up to 8 columns of a product, B columns of a map.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

import functools
from typing import Any

import torch
import triton
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import block, compute_type, dot_precision, launch, shared_memory
from lrga.ops.attention import streaming_kernels as kernels

BUFFER_BYTES = 56 << 20
MIN_ROWS = 1024  # of a chunk
PROGRAMS = 4  # in Triton's interpreter; on a GPU so many for each multiprocessor:
PER_PROCESSOR = {
    "reduce_rows": 1, "reduce_gradient_maps": 2, "project_rows": 2, "reduce_gradient_rows": 2, "gradient_rows": 1,
}  # fmt: skip
REDUCE: dict[str, Any] = {"BM": 128, "num_warps": 8, "num_stages": 3}
APPLY: dict[str, Any] = {"BM": 128, "num_warps": 4, "num_stages": 1}
REDUCE_GRADIENT: dict[str, Any] = {"BM": 64, "STAGES": 3, "num_warps": 4}
PROJECT: dict[str, Any] = {"BM": 64, "BD": 32, "num_warps": 4, "num_stages": 3}
GRADIENT: dict[str, Any] = {"BM": 32, "num_warps": 4}
RECOMPUTE_REDUCE: dict[str, Any] = {"BM": 64, "BD": 32, "num_warps": 4, "num_stages": 4}
RECOMPUTE: dict[str, Any] = {"BM": 128, "BD": 32, "num_warps": 8, "num_stages": 3}
# Bytes of shared memory that the largest ranks need with these, and what is taken where there is less:
SCARCE: dict[str, tuple[int, dict[str, Any]]] = {
    "reduce_rows": (163_840, {"BM": 64, "num_warps": 4, "num_stages": 2}),
    "gradient_rows": (196_608, {"BM": 64, "num_warps": 4, "num_stages": 2}),
}


def streaming_attention(
    x: Tensor, weight: Tensor, bias: Tensor, *, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> Tensor:
    """``[attended, m4]`` of each head of one graph, ``[N, H * 2K]``; x is ``[N, D]``, the weight ``[H * 4K, D]``."""
    out, _ = streaming_forward(x, weight, bias, heads, rank, eps, dtype)
    return out


@operator("lrga::streaming_forward")
def streaming_forward(
    x: Tensor, weight: Tensor, bias: Tensor, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The result, and S, Σu and Σv of every head, ``[H, B² + 2B]``."""
    n, columns = x.size(0), block(rank)
    out = x.new_empty(n, heads * 2 * rank, dtype=dtype)
    if n == 0:
        return out, x.new_zeros(heads, columns * columns + 2 * columns, dtype=torch.float32)
    programs, shape = _programs(x.device, "reduce_rows", heads), _shape(heads, rank, dtype)
    parts = x.new_empty(heads, programs, columns * columns + 2 * columns, dtype=torch.float32)
    wide, wide_bias = _wide_maps(weight, bias, heads, rank, dtype)
    launch(
        kernels.reduce_rows, (programs, heads),
        x.contiguous(), wide, wide_bias, out, parts, n, D=x.size(1), COMPUTE=compute_type(dtype),
        **shape, **fitting("reduce_rows", {"BD": 128 // dtype.itemsize, **REDUCE}, x.device),
    )  # fmt: skip
    totals = parts.sum(1)
    launch(
        kernels.apply_rows, (-(-n // APPLY["BM"]), heads),
        out, totals, n, eps, HALF=dtype == torch.float16, **shape, **APPLY,
    )  # fmt: skip
    return out, totals


@streaming_forward.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    columns = block(rank)
    totals = x.new_empty(heads, columns * columns + 2 * columns, dtype=torch.float32)
    return x.new_empty(x.size(0), heads * 2 * rank, dtype=dtype), totals


@operator("lrga::streaming_backward")
def streaming_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, totals: Tensor,
    heads: int, rank: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, weight and bias."""
    dx = x.new_empty(x.shape)
    if x.size(0) == 0:
        return dx, weight.new_zeros(weight.shape), bias.new_zeros(bias.shape)
    fits = heads * max(3 * _padded(rank), 4 * rank) <= x.size(1)
    in_place = fits and (x.dtype == grad.dtype or _narrows(x.dtype, grad.dtype))
    backward = _backward_in_place if in_place else _backward_by_blocks
    dw, bias_parts = backward(
        dx, grad.contiguous(), x.contiguous(), weight, bias.contiguous(), out.contiguous(), totals.contiguous(),
        heads, rank, eps,
    )  # fmt: skip
    db = bias_parts.sum(1).view(heads, 4, block(rank))[:, :, :rank].reshape(bias.shape)
    return dx, dw.to(weight.dtype), db.to(bias.dtype)


def _backward_in_place(
    dx: Tensor, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, totals: Tensor,
    heads: int, rank: int, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradient of x into ``dx``, where products and their gradients lie meanwhile; that of the weight, and parts of
    the bias'."""
    n, dtype, columns, width = x.size(0), grad.dtype, block(rank), heads * 4 * rank
    rows, given, t_totals = _project(dx, x, weight, bias, grad, heads, rank)
    factors = totals.new_empty(heads, 2 * columns * columns + 2 * columns)
    launch(
        kernels.gradient_factors, (heads,),
        totals, t_totals, factors, n, eps, B=columns, HALF=dtype == torch.float16, PRECISION=_precision(dtype),
    )  # fmt: skip
    step = rows_of_chunk(n, width * dtype.itemsize)
    begin = max(n - step, 0) // 128 * 128  # of the last chunk
    buffer = x.new_empty(n - begin, width, dtype=dtype)
    programs = -(-buffer.size(0) // GRADIENT["BM"])  # so many for U and m4, so many for V and Z
    bias_parts = totals.new_empty(heads, programs, 4 * columns)
    shape = {**_shape(heads, rank, dtype), "C": _padded(rank), "STRIDE": rows.stride(0), **GRADIENT}
    back = _back(weight, dtype)

    def differentiate(first: int, last: int, target: Tensor, *, add: bool) -> None:
        launch(
            kernels.gradient_maps, (2 * programs, heads),
            rows[first:], bias, out[first:], grad[first:], factors, target, bias_parts, last - first, int(add),
            TARGET=target.stride(0), **shape,
        )  # fmt: skip

    # From the last chunk to the first, the gradients of a row go to one so much further on that nothing in it is needed
    # any more; those of the last chunk, for which there is none, go into the buffer.
    differentiate(begin, n, buffer, add=False)
    gradients = rows[n - begin :, :width]
    earlier = [(max(last - step, 0), last) for last in range(begin, 0, -step)]
    for first, last in earlier:
        differentiate(first, last, gradients[first:last], add=True)
    dw = _sum_mm(None, gradients.t(), given[:begin]) if begin else None
    dw = _sum_mm(dw, buffer.t(), given[begin:])
    for first, last in reversed(earlier):
        _mm(gradients[first:last], back, dx[first:last])
    _mm(buffer, back, dx[begin:])
    return dw, bias_parts


def _narrows(given: torch.dtype, dtype: torch.dtype) -> bool:
    """Whether x is twice as wide as the products: the memory of its gradient holds these and a narrow x."""
    return given == torch.float32 and dtype.itemsize == 2


def _project(
    dx: Tensor, x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor, heads: int, rank: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the memory of ``dx`` that begin with the products U, V and Z, x in the type of these (in the same memory
    where it is of another), and T = Uᵀ dA of every head, ``[H, B²]``."""
    dtype, channels, padded = grad.dtype, x.size(1), _padded(rank)
    narrows = _narrows(x.dtype, dtype)
    kernel = "project_rows" if narrows else "reduce_gradient_maps"
    rows = dx.view(dtype)
    parts = x.new_empty(heads, _programs(x.device, kernel, heads), block(rank) ** 2, dtype=torch.float32)
    shape = {"STRIDE": rows.stride(0), "C": padded, "COMPUTE": compute_type(dtype), **_shape(heads, rank, dtype)}
    if narrows:
        given = rows[:, channels:]
        wide, wide_bias = _wide_maps(weight, bias, heads, rank, dtype)
        launch(
            kernels.project_rows, (parts.size(1), heads),
            x, wide, wide_bias, grad, rows, given, parts, x.size(0), D=channels, **shape, **PROJECT,
        )  # fmt: skip
        return rows, given, parts.sum(1)
    across = _filled(weight, None, 3, padded, heads, rank, dtype, "tf32x3")[0].view(-1, channels).t()
    torch.mm(x, across, out=rows[:, : across.size(1)])
    launch(
        kernels.reduce_gradient_maps, (parts.size(1), heads),
        rows, bias, grad, parts, x.size(0), **shape, **REDUCE_GRADIENT,
    )  # fmt: skip
    return rows, x, parts.sum(1)


def _backward_by_blocks(
    dx: Tensor, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, totals: Tensor,
    heads: int, rank: int, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same, the projections of blocks of rows computed in the kernels."""
    n, dtype, columns = x.size(0), grad.dtype, block(rank)
    wide, wide_bias = _wide_maps(weight, bias, heads, rank, dtype)
    shape = {"D": x.size(1), "COMPUTE": compute_type(dtype), **_shape(heads, rank, dtype)}
    programs = _programs(x.device, "reduce_gradient_rows", heads)
    parts = totals.new_empty(heads, programs, columns * columns)
    launch(
        kernels.reduce_gradient_rows, (programs, heads),
        x, wide, wide_bias, grad, parts, n, **shape, **RECOMPUTE_REDUCE,
    )  # fmt: skip
    t_totals = parts.sum(1)
    programs = _programs(x.device, "gradient_rows", heads)
    bias_parts = totals.new_empty(heads, programs, 4 * columns)
    step = rows_of_chunk(n, heads * 4 * rank * dtype.itemsize)
    buffer = x.new_empty(min(step, n), heads * 4 * rank, dtype=dtype)
    back, tiles = _back(weight, dtype), fitting("gradient_rows", RECOMPUTE, x.device)
    dw: Tensor | None = None
    for first in range(0, n, step):
        last = min(first + step, n)
        given, gradients = x[first:last], buffer[: last - first]
        launch(
            kernels.gradient_rows, (programs, heads),
            given, wide, wide_bias, out[first:last], grad[first:last], totals, t_totals, gradients, bias_parts,
            last - first, n, eps, ADD=first > 0, HALF=dtype == torch.float16, **shape, **tiles,
        )  # fmt: skip
        _mm(gradients, back, dx[first:last])
        dw = _sum_mm(dw, gradients.t(), given.to(dtype))
    assert dw is not None
    return dw, bias_parts


streaming_backward.gives_gradients_of("x", "weight", "bias")


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *learned, heads, rank, eps, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*learned, *output)
    ctx.numbers = heads, rank, eps


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, ...]:
    return streaming_backward(grad, *ctx.saved_tensors, *ctx.numbers)


streaming_forward.register_autograd(_backward, setup_context=_keep)


def _wide_maps(weight: Tensor, bias: Tensor, heads: int, rank: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Weight ``[H, 4, B, D]`` and bias ``[H, 4, B]``, filled up with zeros; the weight rounded as its products are."""
    wide_bias = bias.new_empty(heads, 4, block(rank), dtype=torch.float32)
    return _filled(weight, (bias.contiguous(), wide_bias), 4, block(rank), heads, rank, dtype, _precision(dtype))


def _filled(
    weight: Tensor, biases: tuple[Tensor, Tensor] | None, maps: int, height: int, heads: int, rank: int,
    dtype: torch.dtype, precision: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The first so many maps of every head, each filled up to ``height`` rows, ``[H, maps, height, D]``."""
    wide = weight.new_empty(heads, maps, height, weight.size(1), dtype=dtype)
    bias, wide_bias = biases if biases is not None else (None, None)
    launch(
        kernels.fill_maps, (heads * maps * height,),
        weight, bias, wide, wide_bias, *weight.stride(), D=weight.size(1), K=rank, B=height, MAPS=maps,
        PRECISION=precision, BD=triton.next_power_of_2(weight.size(1)), num_warps=1,
    )  # fmt: skip
    return wide, wide if wide_bias is None else wide_bias


def _back(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The weight, columns together: the library multiplies fastest along contiguous rows of both sides."""
    return weight.to(dtype).t().contiguous().t()


def rows_of_chunk(n: int, row_bytes: int) -> int:
    """Rows of equal chunks of at most ``BUFFER_BYTES``, a multiple of 128."""
    most = max(MIN_ROWS, BUFFER_BYTES // row_bytes // 128 * 128)
    return -(-n // -(-n // most) // 128) * 128


def fitting(kernel: str, options: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The options of a kernel, with smaller tiles where the shared memory of the device does not hold them."""
    needed, smaller = SCARCE[kernel]
    return options if shared_memory(device) >= needed else {**options, **smaller}


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
    elif a.is_cuda and out.dtype == torch.float32:
        torch.mm(a, b, out_dtype=out.dtype, out=out)
    else:
        out.copy_(torch.mm(a, b))


def _sum_mm(total: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
    """``total + a b`` in float32, in place; ``a b`` where there is no total yet."""
    if a.dtype == torch.float32:
        return torch.mm(a, b) if total is None else total.addmm_(a, b)
    product = torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else torch.mm(a.float(), b.float())
    return product if total is None else total.add_(product)


def _programs(device: torch.device, kernel: str, heads: int) -> int:
    """Programs for each head that keep partial sums: all heads together fill the GPU."""
    return -(-_processors(device) * PER_PROCESSOR[kernel] // heads) if device.type == "cuda" else PROGRAMS


@functools.cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
