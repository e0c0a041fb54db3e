r"""The Triton kernels of low-rank attention of one large graph that project the features themselves.

The mathematics is that of :mod:`lrga.ops.attention.batched_kernels`. Blocks of rows are projected and never stored; the
weight comes as ``[H, 4, B, D]``, every map filled up with zeros to ``B`` rows (a power of two of at least 16), already
in the type of the products: ``fill_maps``. Every program has its own partial sums: no atomics.

The backward pass stands between products of the library: its kernels read products ``P = x Wᵀ`` made by the vendor's
library or by ``project_rows``, before bias and activation: C columns for every map, rows ``STRIDE`` numbers apart.

Letters: R rows, D channels, H heads, K rank, C columns of a product, B columns of a map, P programs.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

from lrga.ops.attention.batched_kernels import _dot, _inverse_eta, _load, _relu, _rounded, _store


@triton.jit
def fill_maps(
    weight, bias, wide, wide_bias, stride_row, stride_column,
    D: tl.constexpr, K: tl.constexpr, B: tl.constexpr, MAPS: tl.constexpr, PRECISION: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The first ``MAPS`` of the four maps of every head, each filled up with zeros to B rows, into ``wide``
    ``[H, MAPS, B, D]`` in its type and rounded as a product does; where ``wide_bias`` is given, their bias too."""
    row = tl.program_id(0)
    k = row % B
    source = ((row // (MAPS * B)) * 4 + (row // B) % MAPS) * K + k
    d = tl.arange(0, BD)
    at = weight + source.to(tl.int64) * stride_row + d * stride_column
    value = tl.load(at, mask=d < tl.where(k < K, D, 0), other=0.0).to(wide.dtype.element_ty)
    tl.store(wide + row.to(tl.int64) * D + d, _rounded(value, PRECISION), mask=d < D)
    if wide_bias is not None:
        value = tl.load(bias + tl.where(k < K, source, 0)).to(tl.float32)
        tl.store(wide_bias + row, tl.where(k < K, value, 0.0))


@triton.jit
def _rows_of_tile(tile, num_rows, BM: tl.constexpr):
    """First row of a tile, its rows counted from there, in 32 bits: fewer registers; and which of them there are."""
    rows = tl.arange(0, BM)
    return tile * tl.full((), BM, tl.int64), rows, rows < num_rows - tile * BM


@triton.jit
def _store_square(parts, value, B: tl.constexpr):
    """A square of this program and head into ``parts`` ``[H, P, B²]``."""
    k = tl.arange(0, B)
    part = parts + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * (B * B)
    tl.store(part + k[:, None] * B + k[None, :], value)


@triton.jit
def _block_of_x(x, rows, inside, d0, D: tl.constexpr, BD: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr):
    d = d0 + tl.arange(0, BD)
    mask = inside[:, None] if D % BD == 0 else inside[:, None] & (d < D)[None, :]
    return _rounded(tl.load(x + rows[:, None] * D + d[None, :], mask=mask, other=0.0).to(COMPUTE), PRECISION)


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
def _maps(
    x, weight, bias, rows, inside, D: tl.constexpr, B: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, FOUR: tl.constexpr,
):  # fmt: skip
    """U, V and Z of a block of rows, and m4 if ``FOUR``, float32; zero outside."""
    u, v = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
    z, m4 = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
    for d0 in range(0, D, BD):
        tile = _block_of_x(x, rows, inside, d0, D, BD, COMPUTE, PRECISION)
        u = tl.dot(tile, _block_of_weight(weight, d0, D, B, BD, COMPUTE), u, input_precision=PRECISION)
        v = tl.dot(tile, _block_of_weight(weight + B * D, d0, D, B, BD, COMPUTE), v, input_precision=PRECISION)
        z = tl.dot(tile, _block_of_weight(weight + 2 * B * D, d0, D, B, BD, COMPUTE), z, input_precision=PRECISION)
        if FOUR:
            w = _block_of_weight(weight + 3 * B * D, d0, D, B, BD, COMPUTE)
            m4 = tl.dot(tile, w, m4, input_precision=PRECISION)
    u, v = _activated(u, bias, inside, B), _activated(v, bias + B, inside, B)
    z = _activated(z, bias + 2 * B, inside, B)
    if FOUR:
        m4 = _activated(m4, bias + 3 * B, inside, B)
    return u, v, z, m4


@triton.jit
def reduce_rows(
    x, weight, bias, out, parts, num_rows,
    D: tl.constexpr, H: tl.constexpr, K: tl.constexpr, B: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """U and m4 into ``out`` ``[R, H, 2, K]``; VᵀZ and the sums of U and V into ``parts`` ``[H, P, B² + 2B]``."""
    h = tl.program_id(1)
    s = tl.zeros((B, B), tl.float32)
    u_sum, v_sum = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0)):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        u, v, z, m4 = _maps(
            x + first * D, weight + h * 4 * B * D, bias + h * 4 * B, rows, inside, D, B, BM, BD, COMPUTE, PRECISION,
            FOUR=True,
        )  # fmt: skip
        _store(out + first * (H * 2 * K) + h * 2 * K, rows, inside, H * 2 * K, K, u, B)
        _store(out + first * (H * 2 * K) + h * 2 * K + K, rows, inside, H * 2 * K, K, m4, B)
        u_sum += tl.sum(u, 0)
        v_sum += tl.sum(v, 0)
        s += _dot(tl.trans(v.to(COMPUTE)), z.to(COMPUTE), PRECISION)
    k = tl.arange(0, B)
    part = parts + (h * tl.num_programs(0) + tl.program_id(0)) * (B * B + 2 * B)
    tl.store(part + k[:, None] * B + k[None, :], s)
    tl.store(part + B * B + k, u_sum)
    tl.store(part + B * B + B + k, v_sum)


@triton.jit
def apply_rows(
    out, totals, num_rows, eps,
    H: tl.constexpr, K: tl.constexpr, B: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """U in ``out`` ``[R, H, 2, K]`` becomes U S / η."""
    h = tl.program_id(1)
    k = tl.arange(0, B)
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    inside = rows < num_rows
    total = totals + h * (B * B + 2 * B)
    c = _inverse_eta(tl.load(total + B * B + k), tl.load(total + B * B + B + k), num_rows, eps, HALF)
    s = tl.load(total + k[:, None] * B + k[None, :]) * c
    u = _load(out + h * 2 * K, rows, inside, H * 2 * K, K, B).to(tl.float32)
    _store(out + h * 2 * K, rows, inside, H * 2 * K, K, _dot(u, s, PRECISION), B)


@triton.jit
def reduce_gradient_rows(
    x, weight, bias, grad, parts, num_rows,
    D: tl.constexpr, H: tl.constexpr, K: tl.constexpr, B: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """T = Uᵀ dA into ``parts`` ``[H, P, B²]``."""
    h = tl.program_id(1)
    t = tl.zeros((B, B), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0)):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        u = tl.zeros((BM, B), tl.float32)
        for d0 in range(0, D, BD):
            w = _block_of_weight(weight + h * 4 * B * D, d0, D, B, BD, COMPUTE)
            block = _block_of_x(x + first * D, rows, inside, d0, D, BD, COMPUTE, PRECISION)
            u = tl.dot(block, w, u, input_precision=PRECISION)
        u = _activated(u, bias + h * 4 * B, inside, B)
        da = _load(grad + first * (H * 2 * K) + h * 2 * K, rows, inside, H * 2 * K, K, B)
        t += _dot(tl.trans(u.to(COMPUTE)), da.to(COMPUTE), PRECISION)
    _store_square(parts, t, B)


@triton.jit
def gradient_rows(
    x, weight, bias, out, grad, totals, t_totals, maps, bias_parts, num_rows, count, eps,
    D: tl.constexpr, H: tl.constexpr, K: tl.constexpr, B: tl.constexpr, ADD: tl.constexpr, HALF: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The gradients before the activation into ``maps`` ``[R, H, 4, K]``, their sums over rows into ``bias_parts``
    ``[H, P, 4B]``. Of m4 only the sign matters: it is read off the result ``out``."""
    h = tl.program_id(1)
    k = tl.arange(0, B)
    total = totals + h * (B * B + 2 * B)
    u_sum, v_sum = tl.load(total + B * B + k), tl.load(total + B * B + B + k)
    c = _inverse_eta(u_sum, v_sum, count, eps, HALF)
    s = tl.load(total + k[:, None] * B + k[None, :]) * c
    t = tl.load(t_totals + h * B * B + k[:, None] * B + k[None, :]) * c
    alpha = -tl.sum(tl.sum(s * t, 1), 0) / count
    b_u, b_v = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    b_z, b_m = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0)):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        base = maps + first * (H * 4 * K) + h * 4 * K
        m4 = _load(out + first * (H * 2 * K) + h * 2 * K + K, rows, inside, H * 2 * K, K, B)
        dm = _load(grad + first * (H * 2 * K) + h * 2 * K + K, rows, inside, H * 2 * K, K, B).to(tl.float32)
        g_m = tl.where(m4 > 0, dm, 0.0)
        _store(base + 3 * K, rows, inside, H * 4 * K, K, g_m, B)
        b_m += tl.sum(g_m, 0)
        u, v, z, _ = _maps(
            x + first * D, weight + h * 4 * B * D, bias + h * 4 * B, rows, inside, D, B, BM, BD, COMPUTE, PRECISION,
            FOUR=False,
        )  # fmt: skip
        da = _load(grad + first * (H * 2 * K) + h * 2 * K, rows, inside, H * 2 * K, K, B).to(tl.float32)
        g_u = tl.where(u > 0, _dot(da, tl.trans(s), PRECISION) + alpha * v_sum[None, :], 0.0)
        _store(base, rows, inside, H * 4 * K, K, g_u, B)
        b_u += tl.sum(g_u, 0)
        g_v = tl.where(v > 0, _dot(z, tl.trans(t), PRECISION) + alpha * u_sum[None, :], 0.0)
        _store(base + K, rows, inside, H * 4 * K, K, g_v, B)
        b_v += tl.sum(g_v, 0)
        g_z = tl.where(z > 0, _dot(v, t, PRECISION), 0.0)
        _store(base + 2 * K, rows, inside, H * 4 * K, K, g_z, B)
        b_z += tl.sum(g_z, 0)
    at = bias_parts + (h * tl.num_programs(0) + tl.program_id(0)) * 4 * B + k
    if ADD:
        b_u += tl.load(at)
        b_v += tl.load(at + B)
        b_z += tl.load(at + 2 * B)
        b_m += tl.load(at + 3 * B)
    tl.store(at, b_u)
    tl.store(at + B, b_v)
    tl.store(at + 2 * B, b_z)
    tl.store(at + 3 * B, b_m)


@triton.jit
def _bias_of(bias, K: tl.constexpr, B: tl.constexpr):
    k = tl.arange(0, B)
    return tl.load(bias + k, mask=k < K, other=0.0).to(tl.float32)


@triton.jit
def _columns(base, rows, inside, STRIDE: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr):
    """Columns ``0 … WIDTH - 1`` of some rows, float32, zero outside."""
    k = tl.arange(0, B)
    at, mask = base + rows[:, None] * STRIDE + k[None, :], inside[:, None] & (k < WIDTH)[None, :]
    return tl.load(at, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _map_of(maps, bias, rows, inside, STRIDE: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr):
    """relu(P + b) of a block of rows, float32, from the C columns at ``maps``, of which K count; zero outside."""
    value = _relu(_columns(maps, rows, inside, STRIDE, C, B) + bias[None, :])
    return tl.where(inside[:, None] & (tl.arange(0, B) < K)[None, :], value, 0.0)


@triton.jit
def reduce_gradient_maps(
    maps, bias, grad, parts, num_rows,
    STRIDE: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """T = Uᵀ dA into ``parts`` ``[H, P, B²]``, from the products ``maps`` ``[R, H, 3, C]``."""
    h = tl.program_id(1)
    t = tl.zeros((B, B), tl.float32)
    bias_u = _bias_of(bias + h * 4 * K, K, B)
    for tile in tl.range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0), num_stages=STAGES):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        u = _map_of(maps + first * STRIDE + h * 3 * C, bias_u, rows, inside, STRIDE, K, C, B)
        da = _columns(grad + first * (H * 2 * K) + h * 2 * K, rows, inside, H * 2 * K, K, B)
        t += _dot(tl.trans(u.to(COMPUTE)), da.to(COMPUTE), PRECISION)
    _store_square(parts, t, B)


@triton.jit
def project_rows(
    x, weight, bias, grad, maps, narrow, parts, num_rows,
    STRIDE: tl.constexpr, D: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The products U, V and Z into ``maps`` ``[R, H, 3, C]``, x in their type into ``narrow`` ``[R, D]`` (rows of both
    ``STRIDE`` apart), and T = Uᵀ dA into ``parts`` ``[H, P, B²]``; x is read once for every head."""
    h = tl.program_id(1)
    t = tl.zeros((B, B), tl.float32)
    weight += h * 4 * B * D
    maps += h * 3 * C
    for tile in range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0)):
        first, rows, inside = _rows_of_tile(tile, num_rows, BM)
        u, v, z = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
        for d0 in range(0, D, BD):
            block = _block_of_x(x + first * D, rows, inside, d0, D, BD, COMPUTE, PRECISION)
            if h == 0:
                _store(narrow + first * STRIDE + d0, rows, inside, STRIDE, D - d0, block, BD)
            u = tl.dot(block, _block_of_weight(weight, d0, D, B, BD, COMPUTE), u, input_precision=PRECISION)
            v = tl.dot(block, _block_of_weight(weight + B * D, d0, D, B, BD, COMPUTE), v, input_precision=PRECISION)
            z = tl.dot(block, _block_of_weight(weight + 2 * B * D, d0, D, B, BD, COMPUTE), z, input_precision=PRECISION)
        _store(maps + first * STRIDE + C, rows, inside, STRIDE, C, v, B)
        _store(maps + first * STRIDE + 2 * C, rows, inside, STRIDE, C, z, B)
        _store(maps + first * STRIDE, rows, inside, STRIDE, C, u, B)
        u = _activated(u, bias + h * 4 * B, inside, B)
        da = _load(grad + first * (H * 2 * K) + h * 2 * K, rows, inside, H * 2 * K, K, B)
        t += _dot(tl.trans(u.to(COMPUTE)), da.to(COMPUTE), PRECISION)
    _store_square(parts, t, B)


@triton.jit
def gradient_factors(
    totals, t_totals, factors, count, eps, B: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr
):
    """c S, c T, α v and α u of every head into ``factors`` ``[H, 2B² + 2B]``."""
    h = tl.program_id(0)
    k = tl.arange(0, B)
    square = k[:, None] * B + k[None, :]
    total, factor = totals + h * (B * B + 2 * B), factors + h * (2 * B * B + 2 * B)
    u_sum, v_sum = tl.load(total + B * B + k), tl.load(total + B * B + B + k)
    c = _inverse_eta(u_sum, v_sum, count, eps, HALF)
    s, t = tl.load(total + square) * c, tl.load(t_totals + h * B * B + square) * c
    alpha = -tl.sum(tl.sum(s * t, 1), 0) / count
    tl.store(factor + square, _rounded(s, PRECISION))
    tl.store(factor + B * B + square, _rounded(t, PRECISION))
    tl.store(factor + 2 * B * B + k, alpha * v_sum)
    tl.store(factor + 2 * B * B + B + k, alpha * u_sum)


@triton.jit
def _keep(base, rows, inside, STRIDE: tl.constexpr, value, K: tl.constexpr, B: tl.constexpr):
    """``_store`` with the addresses first, as with sums that begin at zero: float32 then needs no spilled registers."""
    k = tl.arange(0, B)
    at, mask = base + rows[:, None] * STRIDE + k[None, :], inside[:, None] & (k < K)[None, :]
    tl.store(at, value.to(base.dtype.element_ty), mask=mask)


@triton.jit
def _add_up(at, total, add):
    if add != 0:
        total += tl.load(at)
    tl.store(at, total)


@triton.jit
def _u_and_m4(
    maps, bias, out, grad, s, shift, gradients, rows, inside,
    STRIDE: tl.constexpr, TARGET: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of U and m4 before the activation; of m4 only the sign matters: it is read off the result ``out``."""
    da = _columns(grad, rows, inside, H * 2 * K, K, B)
    u = _map_of(maps, bias, rows, inside, STRIDE, K, C, B)
    m4 = _columns(out + K, rows, inside, H * 2 * K, K, B)
    dm = _columns(grad + K, rows, inside, H * 2 * K, K, B)
    g_m = tl.where(m4 > 0, dm, 0.0)
    _keep(gradients + 3 * K, rows, inside, TARGET, g_m, K, B)
    g_u = tl.where(u > 0, tl.dot(da, s, input_precision=PRECISION) + shift[None, :], 0.0)
    _keep(gradients, rows, inside, TARGET, g_u, K, B)
    return g_u, g_m


@triton.jit
def _v_and_z(
    maps, bias_v, bias_z, t, t_turned, shift, gradients, rows, inside,
    STRIDE: tl.constexpr, TARGET: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of V and Z before the activation."""
    v = _map_of(maps + C, bias_v, rows, inside, STRIDE, K, C, B)
    z = _map_of(maps + 2 * C, bias_z, rows, inside, STRIDE, K, C, B)
    g_v = tl.where(v > 0, tl.dot(z, t_turned, input_precision=PRECISION) + shift[None, :], 0.0)
    _keep(gradients + K, rows, inside, TARGET, g_v, K, B)
    g_z = tl.where(z > 0, tl.dot(v, t, input_precision=PRECISION), 0.0)
    _keep(gradients + 2 * K, rows, inside, TARGET, g_z, K, B)
    return g_v, g_z


@triton.jit(do_not_specialize=["num_rows", "add"])
def gradient_maps(
    maps, bias, out, grad, factors, gradients, bias_parts, num_rows, add,
    STRIDE: tl.constexpr, TARGET: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    PRECISION: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """The gradients before the activation into ``gradients`` ``[R, H, 4, K]``, rows ``TARGET`` apart, from the products
    U, V and Z in ``maps`` ``[R, H, 3, C]``; their sums over rows into ``bias_parts`` ``[H, P / 2, 4B]``, with ``add``
    to what is there. Every program has one tile of rows: of every two one does U and m4, the other V and Z."""
    program, h = tl.program_id(0) // 2, tl.program_id(1)
    k, rows = tl.arange(0, B), tl.arange(0, BM)
    maps += h * 3 * C
    bias += h * 4 * K
    grad += h * 2 * K
    out += h * 2 * K
    gradients += h * 4 * K
    factors += h * (2 * B * B + 2 * B)
    square = k[:, None] * B + k[None, :]
    turned = k[None, :] * B + k[:, None]
    at = bias_parts + (h * (tl.num_programs(0) // 2) + program) * 4 * B + k
    sum_a, sum_b = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    if tl.program_id(0) % 2 == 0:  # each way counts rows from its own beginning, in 32 bits: fewer registers
        first = program * tl.full((), BM, tl.int64)
        inside = rows < num_rows - program * BM
        s, shift, bias_u = tl.load(factors + turned), tl.load(factors + 2 * B * B + k), _bias_of(bias, K, B)
        g_u, g_m = _u_and_m4(
            maps + first * STRIDE, bias_u, out + first * (H * 2 * K), grad + first * (H * 2 * K), s, shift,
            gradients + first * TARGET, rows, inside, STRIDE, TARGET, H, K, C, B, PRECISION,
        )  # fmt: skip
        sum_a += tl.sum(g_u, 0)
        sum_b += tl.sum(g_m, 0)
        _add_up(at, sum_a, add)
        _add_up(at + 3 * B, sum_b, add)
    else:
        first = program * tl.full((), BM, tl.int64)
        inside = rows < num_rows - program * BM
        t, t_turned = tl.load(factors + B * B + square), tl.load(factors + B * B + turned)
        shift = tl.load(factors + 2 * B * B + B + k)
        bias_v, bias_z = _bias_of(bias + K, K, B), _bias_of(bias + 2 * K, K, B)
        g_v, g_z = _v_and_z(
            maps + first * STRIDE, bias_v, bias_z, t, t_turned, shift, gradients + first * TARGET, rows, inside,
            STRIDE, TARGET, K, C, B, PRECISION,
        )  # fmt: skip
        sum_a += tl.sum(g_v, 0)
        sum_b += tl.sum(g_z, 0)
        _add_up(at + B, sum_a, add)
        _add_up(at + 2 * B, sum_b, add)
