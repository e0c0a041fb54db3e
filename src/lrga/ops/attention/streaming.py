"""Low-rank attention of one large graph on a GPU, without storing its projections.

Forward, x is read once: blocks of rows are projected, V and Z are summed, U and m4 are written to the result; a
second pass turns U into U S / η in place.

Backward, the library computes the projections U, V and Z again. T = Uᵀ dA is summed, then a kernel turns U, V and Z
(the sign of m4 is read from the result) into gradients before the activation; the library multiplies these with x and
the weight. The buffer of x's gradient serves as scratch space until its rows are written. If U, V, Z and their
gradients fit into it, all rows are projected at once. (For float32 x and 16-bit products, x in 16 bits must fit too; a
kernel then converts and projects it.) If they do not fit, chunks of rows are projected into a buffer, first only U for
T, then all three. Besides inputs, result and gradients only buffers for a chunk of rows are needed, tens of megabytes
for any N. Without atomics, results do not vary between runs.

Letters: N nodes, D channels, H heads, K rank, C = K rounded up to 8 columns of a product, B columns of a map.
"""

import functools
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import block, compute_type, dot_precision, interpreted, launch, shared_memory
from lrga.ops.attention import streaming_kernels as kernels

BUFFER_BYTES = 56 << 20
MIN_ROWS = 1024  # minimum rows of a chunk
PROGRAMS = 4  # in Triton's interpreter; on a GPU, per multiprocessor:
PER_PROCESSOR = {
    "reduce_rows": 1, "reduce_resident": 2, "apply_rows": 4,
    "reduce_gradient_maps": 2, "project_rows": 2, "gradient_maps": 2,
}  # fmt: skip
REDUCE: dict[str, Any] = {"BM": 128, "num_warps": 8, "num_stages": 3, "STAGES": 1}
REDUCE_RESIDENT: dict[str, Any] = {"BM": 64, "num_warps": 4, "STAGES": 3}
APPLY: dict[str, Any] = {"BM": 64, "num_warps": 4, "STAGES": 2}
REDUCE_GRADIENT: dict[str, Any] = {"BM": 64, "STAGES": 3, "num_warps": 4}
PROJECT: dict[str, Any] = {"BM": 64, "BD": 32, "num_warps": 4, "num_stages": 3}
GRADIENT: dict[str, Any] = {"BM": 64, "STAGES": 2, "num_warps": 4}
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
    lambda x, _weight, _bias, heads, rank, _eps, dtype: (
        x.new_empty(x.size(0), heads * 2 * rank, dtype=dtype),
        x.new_empty(heads, block(rank) ** 2 + 2 * block(rank), dtype=torch.float32),
    ),
)
def streaming_forward(
    x: Tensor, weight: Tensor, bias: Tensor, heads: int, rank: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Returns the result, and S, Σu and Σv of every head, ``[H, B² + 2B]``."""
    n, columns = x.size(0), block(rank)
    out = x.new_empty(n, heads * 2 * rank, dtype=dtype)
    if n == 0:
        return out, x.new_zeros(heads, columns * columns + 2 * columns, dtype=torch.float32)
    options, shape = _reduce_options(x, rank, dtype), _shape(heads, rank, dtype)
    programs = _programs(x.device, "reduce_resident" if options["BD"] >= x.size(1) else "reduce_rows", heads)
    parts = x.new_empty(heads, programs, columns * columns + 2 * columns, dtype=torch.float32)
    wide, wide_bias = _wide_maps(weight, bias, heads, rank, dtype)
    launch(
        kernels.reduce_rows, (programs, heads),
        x.contiguous(), wide, wide_bias, out, parts, n, D=x.size(1), COMPUTE=compute_type(dtype),
        **shape, **options,
    )  # fmt: skip
    totals = parts.sum(1)
    half = dtype == torch.float16  # cannot represent S / η
    launch(
        kernels.apply_rows, (_programs(x.device, "apply_rows", heads), heads),
        out, totals, n, eps, HALF=half, COMPUTE=compute_type(torch.float32 if half else dtype), **shape,
        **_fitting(APPLY, rank),
    )  # fmt: skip
    return out, totals


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
    backward = _backward_in_place if in_place else _backward_by_chunks
    saved = _Saved(x.contiguous(), weight, bias.contiguous(), out.contiguous(), grad.contiguous(), heads, rank)
    dw, bias_parts = backward(dx, saved, totals.contiguous(), eps)
    db = bias_parts.sum(1)[:, :, :rank].reshape(bias.shape)
    return dx, dw.to(weight.dtype), db.to(bias.dtype)


class _Saved(NamedTuple):
    """Shared state and kernels of the backward passes."""

    x: Tensor
    weight: Tensor
    bias: Tensor
    out: Tensor
    grad: Tensor
    heads: int
    rank: int

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the products."""
        return self.grad.dtype

    def across(self) -> Tensor:
        """The weight for the products, ``[D, 3 * H * C]``: U of every head, V, Z."""
        heads, rank, channels = self.heads, self.rank, self.x.size(1)
        across = self.weight.new_zeros(3, heads, _padded(rank), channels, dtype=self.dtype)
        across[:, :, :rank] = self.weight.reshape(heads, 4, rank, channels)[:, :3].transpose(0, 1)
        return across.view(-1, channels).t()

    def back(self) -> Tensor:
        """The weight with contiguous columns: products are fastest if both factors are contiguous along the sum."""
        return self.weight.to(self.dtype).t().contiguous().t()

    def parts(self, kernel: str) -> Tensor:
        """Buffer for the sums Uᵀ dA of every program of a kernel."""
        programs = _programs(self.x.device, kernel, self.heads)
        return self.x.new_empty(self.heads, programs, block(self.rank) ** 2, dtype=torch.float32)

    def bias_parts(self) -> Tensor:
        """Buffer for the bias gradient of every program."""
        programs = _programs(self.x.device, "gradient_maps", self.heads)
        return self.x.new_empty(self.heads, programs, 4, block(self.rank), dtype=torch.float32)

    def reduce_gradient(self, maps: Tensor, first: int, last: int, parts: Tensor, *, add: bool) -> None:
        """Uᵀ dA of some rows with the products ``maps``."""
        launch(
            kernels.reduce_gradient_maps, (parts.size(1), self.heads),
            maps, self.bias, self.grad[first:last], parts, last - first, int(add),
            STRIDE=maps.stride(0), COMPUTE=compute_type(self.dtype), **self._shape(),
            **_fitting(REDUCE_GRADIENT, self.rank),
        )  # fmt: skip

    def factors(self, totals: Tensor, t_totals: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """The factors of the activations in ``gradient_maps``; float16 cannot represent them."""
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
            int(add), STRIDE=maps.stride(0), TARGET=target.stride(0), **self._shape(), **_fitting(GRADIENT, self.rank),
        )  # fmt: skip

    def _shape(self) -> dict[str, Any]:
        return {"C": _padded(self.rank), **_shape(self.heads, self.rank, self.dtype)}


def _backward_in_place(dx: Tensor, saved: _Saved, totals: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Writes the gradient of x into ``dx``, used as scratch space for products until then; returns the
    gradient of the weight and partial sums of the bias gradient."""
    n, width = dx.size(0), saved.heads * 4 * saved.rank
    rows, given, t_totals = _project(dx, saved)
    factors, bias_parts = saved.factors(totals, t_totals, eps), saved.bias_parts()
    step = rows_of_chunk(n, width * saved.dtype.itemsize)
    begin = max(n - step, 0) // 128 * 128  # start of the last chunk
    buffer = rows.new_empty(n - begin, width)
    back = saved.back()
    # From the last chunk to the first, the gradients of a row are written further back, to rows that are not needed
    # any more; those of the last chunk have no such rows and go into the buffer.
    saved.differentiate(rows[begin:], begin, n, factors, buffer, bias_parts, add=False)
    gradients = rows[n - begin :, :width]
    earlier = [(max(last - step, 0), last) for last in range(begin, 0, -step)]
    for first, last in earlier:
        saved.differentiate(rows[first:last], first, last, factors, gradients[first:last], bias_parts, add=True)
    dw = _sum_mm(None, gradients.t(), given[:begin]) if begin else None
    dw = _sum_mm(dw, buffer.t(), given[begin:])
    for first, last in reversed(earlier):
        _mm(gradients[first:last], back, dx[first:last])
    _mm(buffer, back, dx[begin:])
    return dw, bias_parts


def _narrows(given: torch.dtype, dtype: torch.dtype) -> bool:
    """Whether x is twice as wide as the dtype of the products; its gradient's buffer then also holds converted x."""
    return given == torch.float32 and dtype.itemsize == 2


def _project(dx: Tensor, saved: _Saved) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the buffer of ``dx`` that begin with the products U, V and Z, x in their dtype (in the same buffer
    if it must be converted), and T = Uᵀ dA of every head, ``[H, B²]``."""
    x, heads, rank, dtype = saved.x, saved.heads, saved.rank, saved.dtype
    n, channels = x.shape
    rows = dx.view(dtype)
    if not _narrows(x.dtype, dtype):
        across, parts = saved.across(), saved.parts("reduce_gradient_maps")
        torch.mm(x, across, out=rows[:, : across.size(1)])
        saved.reduce_gradient(rows, 0, n, parts, add=False)
        return rows, x, parts.sum(1)
    given, parts = rows[:, channels:], saved.parts("project_rows")
    wide, wide_bias = _wide_maps(saved.weight, saved.bias, heads, rank, dtype)
    launch(
        kernels.project_rows, (parts.size(1), heads),
        x, wide, wide_bias, saved.grad, rows, given, parts, n, STRIDE=rows.stride(0), D=channels, C=_padded(rank),
        COMPUTE=compute_type(dtype), **_shape(heads, rank, dtype), **_fitting(PROJECT, rank),
    )  # fmt: skip
    return rows, given, parts.sum(1)


def _backward_by_chunks(dx: Tensor, saved: _Saved, totals: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The same, with products and gradients of a chunk of rows in a buffer."""
    x, heads, rank, dtype = saved.x, saved.heads, saved.rank, saved.dtype
    n, narrowed = x.size(0), 0 if x.dtype == dtype else x.size(1)
    across, back, width = saved.across(), saved.back(), heads * 4 * rank
    step = rows_of_chunk(n, (across.size(1) + width + narrowed) * dtype.itemsize)
    chunks = [(first, min(first + step, n)) for first in range(0, n, step)]
    products = x.new_empty(min(step, n), across.size(1), dtype=dtype)
    buffer = x.new_empty(min(step, n), width, dtype=dtype)
    parts, only_u = saved.parts("reduce_gradient_maps"), heads * _padded(rank)
    for first, last in chunks:
        maps = products[: last - first]
        torch.mm(x[first:last].to(dtype), across[:, :only_u], out=maps[:, :only_u])
        saved.reduce_gradient(maps, first, last, parts, add=first > 0)
    factors, bias_parts = saved.factors(totals, parts.sum(1), eps), saved.bias_parts()
    dw: Tensor | None = None
    for first, last in chunks:
        given, maps, gradients = x[first:last].to(dtype), products[: last - first], buffer[: last - first]
        torch.mm(given, across, out=maps)
        saved.differentiate(maps, first, last, factors, gradients, bias_parts, add=first > 0)
        _mm(gradients, back, dx[first:last])
        dw = _sum_mm(dw, gradients.t(), given)
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
    """Weight ``[H, 4, B, D]`` and bias ``[H, 4, B]``, padded with zeros; the weight is rounded as in the products."""
    columns, channels = block(rank), weight.size(1)
    wide = weight.new_empty(heads, 4, columns, channels, dtype=dtype)
    wide_bias = bias.new_empty(heads, 4, columns, dtype=torch.float32)
    launch(
        kernels.fill_maps, (heads * 4 * columns,),
        weight, bias.contiguous(), wide, wide_bias, *weight.stride(), D=channels, K=rank, B=columns,
        PRECISION=dot_precision(dtype), BD=triton.next_power_of_2(channels), num_warps=1,
    )  # fmt: skip
    return wide, wide_bias


def rows_of_chunk(n: int, row_bytes: int) -> int:
    """Number of rows, a multiple of 128, of equal chunks of at most ``BUFFER_BYTES``."""
    most = max(MIN_ROWS, BUFFER_BYTES // row_bytes // 128 * 128)
    return -(-n // -(-n // most) // 128) * 128


def _fitting(options: dict[str, Any], rank: int) -> dict[str, Any]:
    """The options of a kernel, for wide maps those with which its values fit into registers."""
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
    return {"H": heads, "K": rank, "B": block(rank), "PRECISION": dot_precision(dtype)}


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


def _programs(device: torch.device, kernel: str, heads: int) -> int:
    """Programs per head that hold partial sums: all heads together fill the GPU."""
    return -(-_processors(device) * PER_PROCESSOR[kernel] // heads) if device.type == "cuda" else PROGRAMS


@functools.cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
