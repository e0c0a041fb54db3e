r"""The Triton kernels of low-rank attention of one large graph.

The formulas are those of :mod:`lrga.ops.attention.batched_kernels`. Every program has its own partial sums, so there
are no atomics.

``reduce_rows`` projects blocks of rows itself. Its weight has shape ``[H, 4, B, D]``, every map padded with zeros to
``B`` rows (a power of two, at least 16), in the dtype of the products: ``fill_maps``. The other kernels read products
``x Wᵀ`` of the library, before bias and activation: C columns per map, with a row stride of ``STRIDE`` numbers.

Letters: R rows, D channels, H heads, K rank, C columns of a product, B columns of a map, P programs.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

from lrga.ops.attention.batched_kernels import _block_of_rows, _dot, _inverse_eta, _load, _relu, _rounded, _store


@triton.jit
def fill_maps(
    weight, bias, wide, wide_bias, stride_row, stride_column,
    D: tl.constexpr, H: tl.constexpr, K: tl.constexpr, B: tl.constexpr, BY_HEAD: tl.constexpr, PRECISION: tl.constexpr,
    BD: tl.constexpr,
):  # fmt: skip
    """Writes the four maps of every head, padded with zeros to B rows, into ``wide`` ``[H, 4, B, D]`` (without
    ``BY_HEAD`` ``[4, H, B, D]``) in its dtype, rounded as in a product, and their bias into ``wide_bias``."""
    row = tl.program_id(0)
    k, which = row % B, row // B
    if not BY_HEAD:
        which = which % H * 4 + which // H
    source = which * K + k
    d = tl.arange(0, BD)
    at = weight + source.to(tl.int64) * stride_row + d * stride_column
    value = tl.load(at, mask=d < tl.where(k < K, D, 0), other=0.0).to(wide.dtype.element_ty)
    tl.store(wide + row.to(tl.int64) * D + d, _rounded(value, PRECISION), mask=d < D)
    value = tl.load(bias + tl.where(k < K, source, 0)).to(tl.float32)
    tl.store(wide_bias + row, tl.where(k < K, value, 0.0))


@triton.jit
def _rows_of_tile(tile, num_rows, BM: tl.constexpr):
    """First row of a tile, its row offsets in 32 bits (fewer registers), and the mask of existing rows."""
    rows = tl.arange(0, BM)
    return tile * tl.full((), BM, tl.int64), rows, rows < num_rows - tile * BM


@triton.jit
def _block_of_weight(weight, d0, D: tl.constexpr, B: tl.constexpr, BD: tl.constexpr, COMPUTE: tl.constexpr):
    """A block ``[BD, B]`` of a map."""
    d, k = d0 + tl.arange(0, BD), tl.arange(0, B)
    at = weight + k[None, :] * D + d[:, None]
    if D % BD == 0:
        return tl.load(at).to(COMPUTE)
    else:
        return tl.load(at, mask=(d < D)[:, None], other=0.0).to(COMPUTE)


@triton.jit
def _activated(product, bias, inside, B: tl.constexpr):
    value = _relu(product + tl.load(bias + tl.arange(0, B))[None, :])
    return tl.where(inside[:, None], value, 0.0)


@triton.jit
def reduce_rows(
    x, weight, bias, out, parts, num_rows,
    D: tl.constexpr, H: tl.constexpr, K: tl.constexpr, B: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BD: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Writes U and m4 into ``out`` ``[R, H, 2, K]``; VᵀZ and the sums of U and V into ``parts`` ``[H, P, B² + 2B]``.
    With ``BD`` of at least D the weight is read once and stays in shared memory."""
    h = tl.program_id(1)
    weight += h * 4 * B * D
    bias += h * 4 * B
    out += h * 2 * K
    s = tl.zeros((B, B), tl.float32)
    u_sum, v_sum = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    if BD >= D:
        wu = _block_of_weight(weight, 0, D, B, BD, COMPUTE)
        wv = _block_of_weight(weight + B * D, 0, D, B, BD, COMPUTE)
        wz = _block_of_weight(weight + 2 * B * D, 0, D, B, BD, COMPUTE)
        w4 = _block_of_weight(weight + 3 * B * D, 0, D, B, BD, COMPUTE)
    for tile in tl.range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0), num_stages=STAGES):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        u, v = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
        z, m4 = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
        for d0 in range(0, D, BD):
            block = _block_of_rows(x + first * D, rows, inside, d0, D, BD, COMPUTE, PRECISION)
            if BD < D:
                wu = _block_of_weight(weight, d0, D, B, BD, COMPUTE)
                wv = _block_of_weight(weight + B * D, d0, D, B, BD, COMPUTE)
                wz = _block_of_weight(weight + 2 * B * D, d0, D, B, BD, COMPUTE)
                w4 = _block_of_weight(weight + 3 * B * D, d0, D, B, BD, COMPUTE)
            u = tl.dot(block, wu, u, input_precision=PRECISION)
            v = tl.dot(block, wv, v, input_precision=PRECISION)
            z = tl.dot(block, wz, z, input_precision=PRECISION)
            m4 = tl.dot(block, w4, m4, input_precision=PRECISION)
        # One map after the other, each stored immediately, to use fewer registers.
        u = _activated(u, bias, inside, B)
        _store(out + first * (H * 2 * K), rows, inside, H * 2 * K, K, u, B)
        u_sum += tl.sum(u, 0)
        m4 = _activated(m4, bias + 3 * B, inside, B)
        _store(out + first * (H * 2 * K) + K, rows, inside, H * 2 * K, K, m4, B)
        v = _activated(v, bias + B, inside, B)
        v_sum += tl.sum(v, 0)
        z = _activated(z, bias + 2 * B, inside, B)
        s += _dot(tl.trans(v.to(COMPUTE)), z.to(COMPUTE), PRECISION)
    k = tl.arange(0, B)
    part = parts + (h * tl.num_programs(0) + tl.program_id(0)) * (B * B + 2 * B)
    tl.store(part + k[:, None] * B + k[None, :], s)
    tl.store(part + B * B + k, u_sum)
    tl.store(part + B * B + B + k, v_sum)


@triton.jit
def _bias_of(bias, K: tl.constexpr, B: tl.constexpr):
    """The bias of a map; in padding columns a value that the activation maps to zero."""
    k = tl.arange(0, B)
    return tl.load(bias + k, mask=k < K, other=float("-inf")).to(tl.float32)


@triton.jit
def _load_map(maps, bias, first, rows, inside, STRIDE: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr):
    """A map after bias and activation, from its product; zero in padding columns and rows."""
    k = tl.arange(0, B)
    at = maps + first * STRIDE + (rows[:, None] * STRIDE + k[None, :])
    value = tl.load(at, mask=inside[:, None] & (k < C)[None, :], other=0.0).to(tl.float32)
    value = _relu(value + tl.load(bias + k, mask=k < K, other=0.0).to(tl.float32)[None, :])
    return tl.where(inside[:, None] & (k < K)[None, :], value, 0.0)


@triton.jit
def reduce_maps(
    maps, bias, parts, num_rows,
    STRIDE: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """VᵀZ and the sums of U and V, from stored products ``[R, 4, H, C]``, into ``parts`` ``[H, P, B² + 2B]``."""
    h = tl.program_id(1) if H > 1 else 0  # with a constant, Triton knows the alignment to 16 bytes
    maps += h * C
    bias += h * 4 * K
    s = tl.zeros((B, B), tl.float32)
    u_sum, v_sum = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0), num_stages=STAGES):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        u_sum += _load_map(maps, bias, first, rows, inside, STRIDE, K, C, B)
        v = _load_map(maps + H * C, bias + K, first, rows, inside, STRIDE, K, C, B)
        z = _load_map(maps + 2 * H * C, bias + 2 * K, first, rows, inside, STRIDE, K, C, B)
        v_sum += v
        s += _dot(tl.trans(v.to(COMPUTE)), z.to(COMPUTE), PRECISION)
    k = tl.arange(0, B)
    part = parts + (h * tl.num_programs(0) + tl.program_id(0)) * (B * B + 2 * B)
    tl.store(part + k[:, None] * B + k[None, :], s)
    tl.store(part + B * B + k, tl.sum(u_sum, 0))
    tl.store(part + B * B + B + k, tl.sum(v_sum, 0))


@triton.jit
def apply_rows(
    out, maps, bias, totals, num_rows, eps,
    STRIDE: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr, HALF: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Writes U S / η into ``out`` ``[R, H, 2, K]``. U is read from ``out``. If products ``maps`` ``[R, 4, H, C]`` are
    given, U is read from these instead, and m4 is also written."""
    h = tl.program_id(1) if H > 1 else 0  # with a constant, Triton knows the alignment to 16 bytes
    k = tl.arange(0, B)
    UP: tl.constexpr = (K + 3) // 4 * 4  # columns of U to read, four at a time
    READ: tl.constexpr = UP if UP <= 2 * K else K
    total = totals + h * (B * B + 2 * B)
    c = _inverse_eta(tl.load(total + B * B + k), tl.load(total + B * B + B + k), num_rows, eps, HALF)
    s = _rounded(tl.load(total + k[:, None] * B + k[None, :]) * c, PRECISION).to(COMPUTE)  # zero from row K on
    out += h * 2 * K
    for tile in tl.range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0), num_stages=STAGES):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        if maps is None:
            u = _load(out + first * (H * 2 * K), rows, inside, H * 2 * K, READ, B)
            u = tl.where((k < K)[None, :], u, 0.0)
        else:
            u = _load_map(maps + h * C, bias + h * 4 * K, first, rows, inside, STRIDE, K, C, B)
            m4 = _load_map(maps + (3 * H + h) * C, bias + (h * 4 + 3) * K, first, rows, inside, STRIDE, K, C, B)
            _store(out + first * (H * 2 * K) + K, rows, inside, H * 2 * K, K, m4, B)
        a = tl.dot(_rounded(u.to(COMPUTE), PRECISION), s, input_precision=PRECISION)
        _store(out + first * (H * 2 * K), rows, inside, H * 2 * K, K, a, B)


@triton.jit(do_not_specialize=["num_rows", "add"])
def reduce_gradient_maps(
    maps, bias, grad, parts, num_rows, add,
    STRIDE: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Writes T = Uᵀ dA into ``parts`` ``[H, P, B²]``, or adds it with ``add``. The products of U are the first map in
    ``maps``."""
    h = tl.program_id(1) if H > 1 else 0  # with a constant, Triton knows the alignment to 16 bytes
    t = tl.zeros((B, B), tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0), num_stages=STAGES):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        u = _load_map(maps + h * C, bias + h * 4 * K, first, rows, inside, STRIDE, K, C, B)
        da = _load(grad + first * (H * 2 * K) + h * 2 * K, rows, inside, H * 2 * K, K, B)
        t += _dot(tl.trans(u.to(COMPUTE)), da.to(COMPUTE), PRECISION)
    k = tl.arange(0, B)
    at = parts + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * (B * B) + k[:, None] * B + k[None, :]
    if add != 0:
        t += tl.load(at)
    tl.store(at, t)


@triton.jit
def gradient_factors(
    totals, t_totals, factors, shifts, count, eps, B: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr
):
    """Writes the factors of dA, Z and V (c Sᵀ, c Tᵀ and c T) into ``factors`` ``[H, 3, B, B]``, and the terms added to
    the products (α v, α u and zero) into ``shifts`` ``[H, 3, B]``."""
    h = tl.program_id(0)
    k = tl.arange(0, B)
    square, transposed = k[:, None] * B + k[None, :], k[None, :] * B + k[:, None]
    total, factor, shift = totals + h * (B * B + 2 * B), factors + h * 3 * B * B, shifts + h * 3 * B
    u_sum, v_sum = tl.load(total + B * B + k), tl.load(total + B * B + B + k)
    c = _inverse_eta(u_sum, v_sum, count, eps, HALF)
    s, t = tl.load(total + square) * c, tl.load(t_totals + h * B * B + square) * c
    alpha = -tl.sum(tl.sum(s * t, 1), 0) / count
    s, t = _rounded(s, PRECISION), _rounded(t, PRECISION)
    tl.store(factor + transposed, s.to(factors.dtype.element_ty))
    tl.store(factor + B * B + transposed, t.to(factors.dtype.element_ty))
    tl.store(factor + 2 * B * B + square, t.to(factors.dtype.element_ty))
    tl.store(shift + k, alpha * v_sum)
    tl.store(shift + B + k, alpha * u_sum)
    tl.store(shift + 2 * B + k, tl.zeros((B,), tl.float32))


@triton.jit(do_not_specialize=["num_rows", "add"])
def gradient_maps(
    maps, bias, out, grad, factors, shifts, gradients, bias_parts, num_rows, add,
    STRIDE: tl.constexpr, TARGET: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    PRECISION: tl.constexpr, BM: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Writes gradients before the activation into ``gradients`` ``[R, 4, H, C]``, row stride ``TARGET``, from the
    products U, V and Z in ``maps`` ``[R, 3, H, C]``, and their sums over rows into ``bias_parts`` ``[H, P / 4, 4, B]``,
    or adds these with ``add``. A program computes one map: this needs few registers, and U, V and Z share the code. Of
    m4 only the sign is needed, which is read from the result ``out``."""
    kind, program, programs = tl.program_id(0) % 4, tl.program_id(0) // 4, tl.num_programs(0) // 4
    h = tl.program_id(1) if H > 1 else 0  # with a constant, Triton knows the alignment to 16 bytes
    UP: tl.constexpr = (K + 3) // 4 * 4  # columns of dA to read, four at a time
    READ: tl.constexpr = UP if UP <= 2 * K else K
    k = tl.arange(0, B)
    maps += h * C
    bias += h * 4 * K
    grad += h * 2 * K
    out += h * 2 * K
    gradients += (kind * H + h) * C
    at = bias_parts + ((h * programs + program) * 4 + kind) * B + k
    total = tl.zeros((BM, B), tl.float32)  # summing over rows in every step would take many instructions
    if kind < 3:
        other = tl.where(kind == 1, 2, 1)  # the gradient of V is a product with Z, that of Z with V
        factor = tl.load(factors + (h * 3 + kind) * B * B + k[:, None] * B + k[None, :])
        shift = tl.load(shifts + (h * 3 + kind) * B + k)
        own_bias = _bias_of(bias + kind * K, K, B)
        bias_q = tl.where(kind == 0, 0.0, _bias_of(bias + other * K, K, B))
        least = tl.where(kind == 0, float("-inf"), 0.0)
        source, step = grad if kind == 0 else maps + other * (H * C), tl.where(kind == 0, H * 2 * K, STRIDE)
        for tile in tl.range(program, tl.cdiv(num_rows, BM), programs, num_stages=STAGES):
            first, rows, inside = _rows_of_tile(tile, num_rows, BM)
            q = tl.load(
                source + first * step + (rows[:, None] * step + k[None, :]),
                mask=inside[:, None] & (k < READ)[None, :], other=0.0,
            ).to(tl.float32)  # fmt: skip
            own = tl.load(
                maps + first * STRIDE + kind * (H * C) + (rows[:, None] * STRIDE + k[None, :]),
                mask=inside[:, None] & (k < C)[None, :], other=float("-inf"),
            ).to(tl.float32)  # fmt: skip
            q = tl.maximum(q + bias_q[None, :], least, propagate_nan=tl.PropagateNan.ALL)
            q = tl.where((k < K)[None, :], q, 0.0).to(factors.dtype.element_ty)  # truncated to TF32, as in the library
            g = tl.dot(q, factor, input_precision=PRECISION) + shift[None, :]
            g = tl.where(own + own_bias[None, :] > 0, g, 0.0)
            _store(gradients + first * TARGET, rows, inside, TARGET, C, g, B)
            total += g
    else:
        for tile in tl.range(program, tl.cdiv(num_rows, BM), programs, num_stages=STAGES):
            first, rows, inside = _rows_of_tile(tile, num_rows, BM)
            m4 = _load(out + first * (H * 2 * K) + K, rows, inside, H * 2 * K, K, B)
            g = _load(grad + first * (H * 2 * K) + K, rows, inside, H * 2 * K, K, B).to(tl.float32)
            g = tl.where(m4 > 0, g, 0.0)
            _store(gradients + first * TARGET, rows, inside, TARGET, C, g, B)
            total += g
    sums = tl.sum(total, 0)
    if add != 0:
        sums += tl.load(at)
    tl.store(at, sums)
