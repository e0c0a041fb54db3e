r"""The Triton kernels of low-rank attention of one large graph, and what is between the products of the library.

The mathematics is that of :mod:`lrga.kernels.triton_attention`. ``reduce_rows`` projects blocks of rows itself; its
weight comes as ``[H, 4, B, D]``, every map filled up with zeros to ``B`` rows (a power of two of at least 16), already
in the type of the products. The others read products ``P = x Wᵀ`` made by the vendor's library, before bias and
activation: C columns for every map, rows ``STRIDE`` numbers apart. Every program has its own partial sums: no atomics.

Letters: R rows, D channels, H heads, K rank, C columns of a product, B columns of a map, P programs, M tiles of rows.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

from lrga.kernels.triton_attention import _dot, _inverse_eta, _load, _relu, _rounded, _store


@triton.jit
def _block_of_x(x, rows, inside, d0, D: tl.constexpr, BD: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr):
    d = d0 + tl.arange(0, BD)
    mask = inside[:, None] if D % BD == 0 else inside[:, None] & (d < D)[None, :]
    return _rounded(tl.load(x + rows[:, None] * D + d[None, :], mask=mask, other=0.0).to(COMPUTE), PRECISION)


@triton.jit
def _block_of_weight(weight, d0, D: tl.constexpr, B: tl.constexpr, BD: tl.constexpr):
    d, k = d0 + tl.arange(0, BD), tl.arange(0, B)
    at = weight + k[None, :] * D + d[:, None]
    if D % BD == 0:
        return tl.load(at)
    else:
        return tl.load(at, mask=(d < D)[:, None], other=0.0)


@triton.jit
def _activated(product, bias, inside, B: tl.constexpr):
    value = _relu(product + tl.load(bias + tl.arange(0, B))[None, :])
    return tl.where(inside[:, None], value, 0.0)


@triton.jit
def _four_maps(
    x, weight, bias, rows, inside, D: tl.constexpr, B: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """U, V, Z and m4 of a block of rows, float32; zero outside."""
    u, v = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
    z, m4 = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
    for d0 in range(0, D, BD):
        tile = _block_of_x(x, rows, inside, d0, D, BD, COMPUTE, PRECISION)
        u = tl.dot(tile, _block_of_weight(weight, d0, D, B, BD), u, input_precision=PRECISION)
        v = tl.dot(tile, _block_of_weight(weight + B * D, d0, D, B, BD), v, input_precision=PRECISION)
        z = tl.dot(tile, _block_of_weight(weight + 2 * B * D, d0, D, B, BD), z, input_precision=PRECISION)
        m4 = tl.dot(tile, _block_of_weight(weight + 3 * B * D, d0, D, B, BD), m4, input_precision=PRECISION)
    u, v = _activated(u, bias, inside, B), _activated(v, bias + B, inside, B)
    z, m4 = _activated(z, bias + 2 * B, inside, B), _activated(m4, bias + 3 * B, inside, B)
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
        rows = (tile * BM + tl.arange(0, BM)).to(tl.int64)
        inside = rows < num_rows
        u, v, z, m4 = _four_maps(
            x, weight + h * 4 * B * D, bias + h * 4 * B, rows, inside, D, B, BM, BD, COMPUTE, PRECISION
        )
        _store(out + h * 2 * K, rows, inside, H * 2 * K, K, u, B)
        _store(out + h * 2 * K + K, rows, inside, H * 2 * K, K, m4, B)
        u_sum += tl.sum(u, 0)
        v_sum += tl.sum(v, 0)
        s += _dot(tl.trans(v.to(COMPUTE)), z.to(COMPUTE), PRECISION)
    k = tl.arange(0, B)
    part = parts + (h * tl.num_programs(0) + tl.program_id(0)) * (B * B + 2 * B)
    tl.store(part + k[:, None] * B + k[None, :], s)
    tl.store(part + B * B + k, u_sum)
    tl.store(part + B * B + B + k, v_sum)


@triton.jit
def _map_of(maps, bias, rows, inside, STRIDE: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr):
    """relu(P + b) of a block of rows, float32, from the C columns at ``maps``, of which K count; zero outside."""
    k = tl.arange(0, B)
    at = maps + rows[:, None] * STRIDE + k[None, :]
    product = tl.load(at, mask=inside[:, None] & (k < C)[None, :], other=0.0).to(tl.float32)
    value = _relu(product + tl.load(bias + k, mask=k < K, other=0.0).to(tl.float32)[None, :])
    return tl.where(inside[:, None] & (k < K)[None, :], value, 0.0)


@triton.jit(do_not_specialize=["num_rows"])
def reduce_maps(
    maps, bias, out, parts, num_rows,
    STRIDE: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr, ADD: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """What :func:`reduce_rows` does, from the products ``maps`` ``[R, H, 4, C]``; with ``ADD`` the sums go on."""
    h = tl.program_id(1)
    s = tl.zeros((B, B), tl.float32)
    u_sum, v_sum = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    maps += h * 4 * C
    bias += h * 4 * K
    for tile in range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0)):
        rows = (tile * BM + tl.arange(0, BM)).to(tl.int64)
        inside = rows < num_rows
        u = _map_of(maps, bias, rows, inside, STRIDE, K, C, B)
        _store(out + h * 2 * K, rows, inside, H * 2 * K, K, u, B)
        u_sum += tl.sum(u, 0)
        m4 = _map_of(maps + 3 * C, bias + 3 * K, rows, inside, STRIDE, K, C, B)
        _store(out + h * 2 * K + K, rows, inside, H * 2 * K, K, m4, B)
        v = _map_of(maps + C, bias + K, rows, inside, STRIDE, K, C, B)
        v_sum += tl.sum(v, 0)
        z = _map_of(maps + 2 * C, bias + 2 * K, rows, inside, STRIDE, K, C, B)
        s += _dot(tl.trans(v.to(COMPUTE)), z.to(COMPUTE), PRECISION)
    k = tl.arange(0, B)
    part = parts + (h * tl.num_programs(0) + tl.program_id(0)) * (B * B + 2 * B)
    at_s, at_u, at_v = part + k[:, None] * B + k[None, :], part + B * B + k, part + B * B + B + k
    if ADD:
        s += tl.load(at_s)
        u_sum += tl.load(at_u)
        v_sum += tl.load(at_v)
    tl.store(at_s, s)
    tl.store(at_u, u_sum)
    tl.store(at_v, v_sum)


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


@triton.jit(do_not_specialize=["num_rows"])
def reduce_gradient_maps(
    maps, bias, grad, parts, num_rows,
    STRIDE: tl.constexpr, HEAD: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    ADD: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """T = Uᵀ dA into ``parts`` ``[H, P, B²]``; the first C columns of every ``HEAD`` in ``maps`` are U's."""
    h = tl.program_id(1)
    t = tl.zeros((B, B), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0)):
        rows = (tile * BM + tl.arange(0, BM)).to(tl.int64)
        inside = rows < num_rows
        u = _map_of(maps + h * HEAD, bias + h * 4 * K, rows, inside, STRIDE, K, C, B)
        da = _load(grad + h * 2 * K, rows, inside, H * 2 * K, K, B)
        t += _dot(tl.trans(u.to(COMPUTE)), da.to(COMPUTE), PRECISION)
    k = tl.arange(0, B)
    at = parts + (h * tl.num_programs(0) + tl.program_id(0)) * (B * B) + k[:, None] * B + k[None, :]
    if ADD:
        t += tl.load(at)
    tl.store(at, t)


@triton.jit
def project_rows(
    x, weight, bias, grad, maps, narrow, parts, num_rows,
    STRIDE: tl.constexpr, D: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    COMPUTE: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """x in the type of the products into ``narrow`` ``[R, D]``, the products U, V and Z into ``maps`` ``[R, H, 3, C]``
    (rows of both ``STRIDE`` apart), and T = Uᵀ dA into ``parts`` ``[H, P, B²]``; x is read once for every head."""
    h = tl.program_id(1)
    t = tl.zeros((B, B), tl.float32)
    weight += h * 4 * B * D
    maps += h * 3 * C
    for tile in range(tl.program_id(0), tl.cdiv(num_rows, BM), tl.num_programs(0)):
        rows = (tile * BM + tl.arange(0, BM)).to(tl.int64)
        inside = rows < num_rows
        u, v, z = tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32), tl.zeros((BM, B), tl.float32)
        for d0 in range(0, D, BD):
            block = _block_of_x(x, rows, inside, d0, D, BD, COMPUTE, PRECISION)
            if h == 0:
                _store(narrow + d0, rows, inside, STRIDE, D - d0, block, BD)
            u = tl.dot(block, _block_of_weight(weight, d0, D, B, BD), u, input_precision=PRECISION)
            v = tl.dot(block, _block_of_weight(weight + B * D, d0, D, B, BD), v, input_precision=PRECISION)
            z = tl.dot(block, _block_of_weight(weight + 2 * B * D, d0, D, B, BD), z, input_precision=PRECISION)
        _store(maps + C, rows, inside, STRIDE, C, v, B)
        _store(maps + 2 * C, rows, inside, STRIDE, C, z, B)
        _store(maps, rows, inside, STRIDE, C, u, B)
        u = _activated(u, bias + h * 4 * B, inside, B)
        da = _load(grad + h * 2 * K, rows, inside, H * 2 * K, K, B)
        t += _dot(tl.trans(u.to(COMPUTE)), da.to(COMPUTE), PRECISION)
    k = tl.arange(0, B)
    tl.store(parts + (h * tl.num_programs(0) + tl.program_id(0)) * (B * B) + k[:, None] * B + k[None, :], t)


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
def _add_up(at, value):
    tl.store(at, tl.load(at) + tl.sum(value, 0))


@triton.jit(do_not_specialize=["num_rows", "num_parts"])
def gradient_maps(
    maps, bias, out, grad, factors, gradients, bias_parts, num_rows, num_parts,
    STRIDE: tl.constexpr, H: tl.constexpr, K: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
    PRECISION: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """The gradients before the activation into ``gradients`` ``[R, H, 4, K]``, from the products U, V and Z in ``maps``
    ``[R, H, 3, C]``; their sums over the rows of a tile are added to ``bias_parts`` ``[H, M, 4B]``. Of m4 only the
    sign matters: it is read off the result ``out``. Of every two programs one does U and m4, the other V and Z."""
    tile, h = tl.program_id(0) // 2, tl.program_id(1)
    k = tl.arange(0, B)
    first = tile.to(tl.int64) * BM  # rows are counted from here, in 32 bits: fewer registers
    rows = tl.arange(0, BM)
    inside = rows < num_rows - tile * BM
    maps += first * STRIDE + h * 3 * C
    bias += h * 4 * K
    grad += first * (H * 2 * K) + h * 2 * K
    out += first * (H * 2 * K) + h * 2 * K
    gradients += first * (H * 4 * K) + h * 4 * K
    factors += h * (2 * B * B + 2 * B)
    square = k[:, None] * B + k[None, :]
    at = bias_parts + (h * num_parts + tile) * 4 * B + k
    if tl.program_id(0) % 2 == 0:
        da = _load(grad, rows, inside, H * 2 * K, K, B).to(tl.float32)
        u = _map_of(maps, bias, rows, inside, STRIDE, K, C, B)
        m4 = _load(out + K, rows, inside, H * 2 * K, K, B)
        dm = _load(grad + K, rows, inside, H * 2 * K, K, B).to(tl.float32)
        s, shift = tl.load(factors + square), tl.load(factors + 2 * B * B + k)
        g_m = tl.where(m4 > 0, dm, 0.0)
        _store(gradients + 3 * K, rows, inside, H * 4 * K, K, g_m, B)
        _add_up(at + 3 * B, g_m)
        g_u = tl.where(u > 0, tl.dot(da, tl.trans(s), input_precision=PRECISION) + shift[None, :], 0.0)
        _store(gradients, rows, inside, H * 4 * K, K, g_u, B)
        _add_up(at, g_u)
    else:
        v = _map_of(maps + C, bias + K, rows, inside, STRIDE, K, C, B)
        z = _map_of(maps + 2 * C, bias + 2 * K, rows, inside, STRIDE, K, C, B)
        t, shift = tl.load(factors + B * B + square), tl.load(factors + 2 * B * B + B + k)
        g_v = tl.where(v > 0, tl.dot(z, tl.trans(t), input_precision=PRECISION) + shift[None, :], 0.0)
        _store(gradients + K, rows, inside, H * 4 * K, K, g_v, B)
        _add_up(at + B, g_v)
        g_z = tl.where(z > 0, tl.dot(v, t, input_precision=PRECISION), 0.0)
        _store(gradients + 2 * K, rows, inside, H * 4 * K, K, g_z, B)
        _add_up(at + 2 * B, g_z)
