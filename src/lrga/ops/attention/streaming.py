"""Low-rank attention of one large graph on a GPU, in bounded memory.

If the projections (U, V, Z and m4, before bias and activation) are not wider than x and take at most ``STORED_BYTES``,
the library computes them in one product, and they are stored for the backward pass. Otherwise a kernel projects blocks
of rows, sums V and Z and writes U and m4 to the result; a second pass turns U into U S / η in place. The backward pass
then computes U, V and Z again: for narrow x, reading x again is faster than reading stored projections.

Backward, T = Uᵀ dA is summed, then a kernel turns U, V and Z (the sign of m4 is read from the result) into gradients
before the activation; the library multiplies these with x and the weight. The buffer of x's gradient serves as scratch
space until its rows are written: for gradients before the activation, and for recomputed projections. If these do not
fit, chunks of rows are projected into a buffer: first U alone, to sum T, then U, V and Z. Beyond inputs, result,
gradients and at most ``STORED_BYTES`` of projections, only buffers for a chunk of rows are needed, at most about 300
MB for any N. There are no atomics, so results do not vary between runs.

Letters: N nodes, D channels, H heads, K rank, C = K rounded up to 8 columns of a product, B columns of a map.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import block, compute_type, dot_precision, interpreted, launch, next_power_of_2, shared_memory
from lrga.ops.attention import streaming_kernels as kernels
from lrga.ops.linear import launch_column_sum

STORED_BYTES = 512 << 20
BUFFER_BYTES, STORED_BUFFER_BYTES = 56 << 20, 128 << 20
MIN_ROWS = 1024  # minimum rows of a chunk
PROGRAMS = 4  # in Triton's interpreter; on a GPU, per multiprocessor:
PER_PROCESSOR = {
    "reduce_rows": 1, "reduce_resident": 2, "reduce_maps": 4, "apply_rows": 4,
    "reduce_gradient_maps": 4, "gradient_maps": 4,
}  # fmt: skip
REDUCE: dict[str, Any] = {"BM": 128, "num_warps": 8, "num_stages": 3, "STAGES": 1}
REDUCE_RESIDENT: dict[str, Any] = {"BM": 64, "num_warps": 4, "STAGES": 3}
REDUCE_MAPS: dict[str, Any] = {"BM": 32, "STAGES": 3, "num_warps": 4}
APPLY: dict[str, Any] = {"BM": 64, "num_warps": 4, "STAGES": 2}
APPLY_STORED: dict[str, Any] = {"BM": 32, "num_warps": 4, "STAGES": 1}
GRADIENT: dict[str, Any] = {"BM": 64, "STAGES": 3, "num_warps": 4}
SMALLER_REDUCE = {"BM": 64, "num_warps": 4, "num_stages": 2}  # if a program has less shared memory than
MIN_REDUCE_MEMORY = 196_608  # bytes
SCRATCH = 20_480  # bytes of shared memory for other values, at most
WIDE = {"num_warps": 8, "num_stages": 2, "STAGES": 2}  # for ranks above 64, with blocks of at most 64 rows


def streaming_attention(
    x: Tensor, weight: Tensor, bias: Tensor, *, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> Tensor:
    """``[attended, m4]`` of each head of one graph, ``[N, H * 2K]``; x is ``[N, D]``, the weight ``[H * 4K, D]``."""
    return streaming_forward(x, weight, bias, heads, rank, eps, dtype)[0]


@operator(
    "lrga::streaming_forward",
    lambda x, _weight, _bias, heads, rank, _eps, dtype: _empty_results(x, heads, rank, dtype),
)
def streaming_forward(
    x: Tensor, weight: Tensor, bias: Tensor, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the result, S, Σu and Σv of every head, ``[H, B² + 2B]``, and the stored products, ``[N, 4 * H * C]``, or
    ``[0, 4 * H * C]`` if the backward pass recomputes them."""
    n, columns = x.size(0), block(rank)
    out, totals, maps = _empty_results(x, heads, rank, dtype)
    if n == 0:
        return out, totals.zero_(), maps
    bias, shape = bias.contiguous(), _shape(heads, rank, dtype)
    if stored := len(maps) > 0:
        _project(x, _across(weight, bias, heads, rank, dtype), maps)
        parts = _parts(x, heads, "reduce_maps", totals.size(1))
        launch(
            kernels.reduce_maps, (parts.size(1), heads),
            maps, bias, parts, n, STRIDE=maps.size(1), COMPUTE=compute_type(dtype), **shape,
            **_fitting(REDUCE_MAPS, rank),
        )  # fmt: skip
    else:
        options = _reduce_options(x, rank, dtype)
        kernel = "reduce_resident" if options["BD"] >= x.size(1) else "reduce_rows"
        parts = _parts(x, heads, kernel, totals.size(1))
        wide, wide_bias = _fill(weight, bias, heads, rank, columns, dtype, by_head=True)
        launch(
            kernels.reduce_rows, (parts.size(1), heads),
            x.contiguous(), wide, wide_bias, out, parts, n, D=x.size(1), H=heads, K=rank, B=columns,
            COMPUTE=compute_type(dtype), PRECISION=dot_precision(dtype), **options,
        )  # fmt: skip
    totals = launch_column_sum(parts)
    half = dtype == torch.float16  # cannot represent S / η
    launch(
        kernels.apply_rows, (_programs(x.device, "apply_rows", heads), heads),
        out, maps if stored else None, bias, totals, n, eps, STRIDE=maps.size(1), HALF=half,
        COMPUTE=compute_type(torch.float32 if half else dtype), **shape,
        **_fitting(APPLY_STORED if stored else APPLY, rank),
    )  # fmt: skip
    return out, totals, maps


@operator("lrga::streaming_backward")
def streaming_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, totals: Tensor, maps: Tensor,
    heads: int, rank: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, weight and bias."""
    dx = x.new_empty(x.shape)
    if x.size(0) == 0:
        return dx, weight.new_zeros(weight.shape), bias.new_zeros(bias.shape)
    backward = _backward_in_place if _fits(x, heads * 4 * _padded(rank), grad.dtype) else _backward_by_chunks
    x, bias, out, grad, maps = (t.contiguous() for t in (x, bias, out, grad, maps))
    saved = _Saved(x, weight, bias, out, grad, maps, heads, rank)
    dw, bias_parts = backward(dx, saved, totals.contiguous(), eps)
    dw = dw.view(4, heads, -1, x.size(1))[:, :, :rank].transpose(0, 1).reshape(weight.shape)
    db = launch_column_sum(bias_parts).view(heads, 4, -1)[:, :, :rank].reshape(bias.shape)
    return dx, dw.to(weight.dtype), db.to(bias.dtype)


class _Saved(NamedTuple):
    """Shared state and kernels of the backward passes."""

    x: Tensor
    weight: Tensor
    bias: Tensor
    out: Tensor
    grad: Tensor
    maps: Tensor
    heads: int
    rank: int

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the products."""
        return self.grad.dtype

    def across(self) -> Tensor:
        """See :func:`_across`."""
        return _across(self.weight, self.bias, self.heads, self.rank, self.dtype)

    def reduce_gradient(self, maps: Tensor, first: int, last: int, parts: Tensor, *, add: bool) -> None:
        """Uᵀ dA of some rows with the products ``maps``."""
        launch(
            kernels.reduce_gradient_maps, (parts.size(1), self.heads),
            maps, self.bias, self.grad[first:last], parts, last - first, int(add),
            STRIDE=maps.stride(0), COMPUTE=compute_type(self.dtype), **_shape(self.heads, self.rank, self.dtype),
            **_fitting(REDUCE_MAPS, self.rank),
        )  # fmt: skip

    def factors(self, totals: Tensor, t_totals: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Factors and shifts for ``gradient_maps``; float32 for float16 products, whose range is too small."""
        columns = block(self.rank)
        bfloat = self.dtype == torch.bfloat16 and not interpreted()
        factors = totals.new_empty(self.heads, 3, columns, columns, dtype=self.dtype if bfloat else torch.float32)
        shifts = totals.new_empty(self.heads, 3, columns)
        launch(
            kernels.gradient_factors, (self.heads,),
            totals, t_totals, factors, shifts, self.x.size(0), eps, B=columns, HALF=self.dtype == torch.float16,
            PRECISION=dot_precision(self.dtype), num_warps=8,
        )  # fmt: skip
        return factors, shifts

    def differentiate(
        self, maps: Tensor, first: int, last: int, factors: tuple[Tensor, Tensor], target: Tensor, bias_parts: Tensor,
        *, add: bool,
    ) -> None:  # fmt: skip
        """Writes the gradients before the activation of some rows into ``target``."""
        launch(
            kernels.gradient_maps, (4 * bias_parts.size(1), self.heads),
            maps, self.bias, self.out[first:last], self.grad[first:last], *factors, target, bias_parts, last - first,
            int(add), STRIDE=maps.stride(0), TARGET=target.stride(0), **_shape(self.heads, self.rank, self.dtype),
            **_fitting(GRADIENT, self.rank),
        )  # fmt: skip


def _backward_in_place(dx: Tensor, saved: _Saved, totals: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Writes the gradient of x into ``dx``, used as scratch space until then; returns the gradient of the weight,
    ``[4 * H * C, D]``, and partial sums of the bias gradient."""
    n, rows, x, stored = dx.size(0), dx.view(saved.dtype), saved.x, len(saved.maps) > 0
    columns, width = block(saved.rank), saved.heads * 4 * _padded(saved.rank)
    maps = saved.maps if stored else _project(x, saved.across()[:, : width // 4 * 3], rows[:, : width // 4 * 3])
    parts = _parts(x, saved.heads, "reduce_gradient_maps", columns**2)
    saved.reduce_gradient(maps, 0, n, parts, add=False)
    factors = saved.factors(totals, launch_column_sum(parts), eps)
    bias_parts = _parts(x, saved.heads, "gradient_maps", 4 * columns)
    widest = width if x.dtype == saved.dtype else x.size(1)  # a chunk of x is converted, too
    step = rows_of_chunk(n, widest * saved.dtype.itemsize, STORED_BUFFER_BYTES if stored else BUFFER_BYTES)
    begin = max(n - step, 0) // 128 * 128  # start of the last chunk
    buffer = rows.new_empty(n - begin, width)
    # From the last chunk to the first, the gradients of a row are written further back, to rows that are not needed
    # any more; those of the last chunk have no such rows and go into the buffer.
    saved.differentiate(maps[begin:], begin, n, factors, buffer, bias_parts, add=False)
    gradients = rows[n - begin :, :width]
    chunks = [(max(last - step, 0), last) for last in range(begin, 0, -step)]
    whole = [(0, begin)] if begin else []
    for first, last in whole if stored else chunks:
        saved.differentiate(maps[first:last], first, last, factors, gradients[first:last], bias_parts, add=True)
    dw = _sum_mm(None, buffer.t(), x[begin:].to(saved.dtype))
    for first, last in whole if x.dtype == saved.dtype else chunks:
        dw = _sum_mm(dw, gradients[first:last].t(), x[first:last].to(saved.dtype))
    back = saved.across().contiguous().t()
    for first, last in reversed(chunks):
        _mm(gradients[first:last], back, dx[first:last])
    _mm(buffer, back, dx[begin:])
    return dw, bias_parts


def _backward_by_chunks(dx: Tensor, saved: _Saved, totals: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Like :func:`_backward_in_place`, with products and gradients of a chunk of rows in buffers."""
    x, heads, rank, dtype = saved.x, saved.heads, saved.rank, saved.dtype
    n, narrowed = x.size(0), 0 if x.dtype == dtype else x.size(1)
    across = saved.across()
    back, width = across.contiguous().t(), across.size(1)
    step = rows_of_chunk(n, (width // 4 * 7 + narrowed) * dtype.itemsize, BUFFER_BYTES)
    chunks = [(first, min(first + step, n)) for first in range(0, n, step)]
    products = x.new_empty(min(step, n), width // 4 * 3, dtype=dtype)
    buffer = x.new_empty(min(step, n), width, dtype=dtype)
    parts, only_u = _parts(x, heads, "reduce_gradient_maps", block(rank) ** 2), width // 4
    for first, last in chunks:
        maps = products[: last - first]
        torch.mm(x[first:last].to(dtype), across[:, :only_u], out=maps[:, :only_u])
        saved.reduce_gradient(maps, first, last, parts, add=first > 0)
    factors = saved.factors(totals, launch_column_sum(parts), eps)
    bias_parts = _parts(x, heads, "gradient_maps", 4 * block(rank))
    dw: Tensor | None = None
    for first, last in chunks:
        given, maps, gradients = x[first:last].to(dtype), products[: last - first], buffer[: last - first]
        torch.mm(given, across[:, : maps.size(1)], out=maps)
        saved.differentiate(maps, first, last, factors, gradients, bias_parts, add=first > 0)
        _mm(gradients, back, dx[first:last])
        dw = _sum_mm(dw, gradients.t(), given)
    assert dw is not None
    return dw, bias_parts


streaming_backward.gives_gradients_of("x", "weight", "bias")


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *learned, heads, rank, eps, _ = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # zeros for the stored products would be as large as these
    ctx.save_for_backward(*learned, *output)
    ctx.numbers = heads, rank, eps


def _backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
    return streaming_backward(grad, *ctx.saved_tensors, *ctx.numbers)


streaming_forward.register_autograd(_backward, setup_context=_keep)


def _empty_results(x: Tensor, heads: int, rank: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The results of :func:`streaming_forward`, not filled in."""
    n, columns, width = x.size(0), block(rank), heads * 4 * _padded(rank)
    stored = _fits(x, width, dtype) and n * width * dtype.itemsize <= STORED_BYTES
    totals = x.new_empty(heads, columns * (columns + 2), dtype=torch.float32)
    return x.new_empty(n, heads * 2 * rank, dtype=dtype), totals, x.new_empty(n if stored else 0, width, dtype=dtype)


def _fits(x: Tensor, width: int, dtype: torch.dtype) -> bool:
    """Whether ``width`` products in ``dtype`` fit into a row of x, and x has the same dtype, or float32 for half
    precision."""
    return width <= x.size(1) and (x.dtype == dtype or (x.dtype == torch.float32 and dtype.itemsize == 2))


def _across(weight: Tensor, bias: Tensor, heads: int, rank: int, dtype: torch.dtype) -> Tensor:
    """The weight for the products, ``[D, 4 * H * C]``: U of every head, then V, Z and m4."""
    return _fill(weight, bias, heads, rank, _padded(rank), dtype, by_head=False)[0].t()


def _project(x: Tensor, across: Tensor, out: Tensor) -> Tensor:
    """Writes ``x across`` into ``out``; if x has another dtype, a chunk of rows is converted at a time."""
    n, dtype = x.size(0), out.dtype
    step = n if x.dtype == dtype else rows_of_chunk(n, x.size(1) * dtype.itemsize, STORED_BUFFER_BYTES)
    for first in range(0, n, step):
        torch.mm(x[first : first + step].to(dtype), across, out=out[first : first + step])
    return out


def _fill(
    weight: Tensor, bias: Tensor, heads: int, rank: int, columns: int, dtype: torch.dtype, *, by_head: bool
) -> tuple[Tensor, Tensor]:
    """Weight ``[H * 4 * columns, D]`` and bias ``[H * 4 * columns]``, ordered by head and then by map, or by map and
    then by head; each map is padded with zeros to ``columns`` rows, and the weight is rounded to the precision of the
    products."""
    rows, channels = heads * 4 * columns, weight.size(1)
    wide, wide_bias = weight.new_empty(rows, channels, dtype=dtype), bias.new_empty(rows, dtype=torch.float32)
    launch(
        kernels.fill_maps, (rows,),
        weight, bias, wide, wide_bias, *weight.stride(), D=channels, H=heads, K=rank, B=columns, BY_HEAD=by_head,
        PRECISION=dot_precision(dtype), BD=next_power_of_2(channels), num_warps=1,
    )  # fmt: skip
    return wide, wide_bias


def _parts(x: Tensor, heads: int, kernel: str, width: int) -> Tensor:
    """Buffer for the sums of every program of a kernel, ``[H, P, width]``."""
    return x.new_empty(heads, _programs(x.device, kernel, heads), width, dtype=torch.float32)


def _programs(device: torch.device, kernel: str, heads: int) -> int:
    """Programs per head: all heads together fill the GPU."""
    return -(-_processors(device) * PER_PROCESSOR[kernel] // heads) if device.type == "cuda" else PROGRAMS


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def rows_of_chunk(n: int, row_bytes: int, most_bytes: int) -> int:
    """Number of rows, a multiple of 128, of equal chunks of at most ``most_bytes``."""
    most = max(MIN_ROWS, most_bytes // row_bytes // 128 * 128)
    return -(-n // -(-n // most) // 128) * 128


def _fitting(options: dict[str, Any], rank: int) -> dict[str, Any]:
    """Options of a kernel; for ranks above 64 with smaller blocks and more warps, to fit its values in registers."""
    if rank <= 64:
        return options
    return {**options, "BM": min(options["BM"], 64), **{name: value for name, value in WIDE.items() if name in options}}


def _reduce_options(x: Tensor, rank: int, dtype: torch.dtype) -> dict[str, Any]:
    """The options of ``reduce_rows``: the weight stays in shared memory if two programs fit with their blocks of x."""
    memory, width = shared_memory(x.device), block(x.size(1))
    rows = 4 * block(rank) + REDUCE_RESIDENT["STAGES"] * REDUCE_RESIDENT["BM"]
    fit = 2 * (rows * width * dtype.itemsize + SCRATCH) <= memory
    if fit and rank <= 64 and dot_precision(dtype) == "tf32":  # exact products take twice the memory for each factor
        return {"BD": width, **REDUCE_RESIDENT}
    smaller = SMALLER_REDUCE if memory < MIN_REDUCE_MEMORY else {}
    return _fitting({"BD": 128 // dtype.itemsize, **REDUCE, **smaller}, rank)


def _padded(rank: int) -> int:
    """Columns of a product, rounded up so that rows are aligned to 16 bytes."""
    return -(-rank // 8) * 8


def _shape(heads: int, rank: int, dtype: torch.dtype) -> dict[str, Any]:
    return {"H": heads, "K": rank, "C": _padded(rank), "B": block(rank), "PRECISION": dot_precision(dtype)}


def _mm(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Writes ``a b`` into ``out``, which may be float32 if a and b are in half precision."""
    if out.dtype == a.dtype:
        torch.mm(a, b, out=out)
    elif a.is_cuda and out.dtype == torch.float32:
        torch.mm(a, b, out_dtype=out.dtype, out=out)
    else:
        out.copy_(torch.mm(a, b))


def _sum_mm(total: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
    """``total + a b`` in float32, in place; ``a b`` if there is no total yet."""
    if a.dtype == torch.float32:
        return torch.mm(a, b) if total is None else total.addmm_(a, b)
    product = torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else torch.mm(a.float(), b.float())
    return product if total is None else total.add_(product)
