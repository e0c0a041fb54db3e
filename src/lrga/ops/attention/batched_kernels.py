r"""The Triton kernels of low-rank attention. Their definition is :mod:`lrga.ops.attention.reference`.

Every program works on one tile of one graph (:mod:`lrga.ops.attention.segments`) and one head. Forward:

1. ``reduce_tiles`` adds up :math:`V^\top Z` and the sums of U and V over its rows,
2. ``sum_tiles`` adds these over the tiles of each graph,
3. ``apply_tiles`` writes :math:`U (V^\top Z) / \eta`.

Backward, with :math:`T = U^\top \mathrm{d}A`, :math:`c = 1/\eta` and :math:`\alpha = -\langle c S, c T \rangle / n`:

1. ``reduce_gradient`` adds up T over its rows, 2. ``sum_tiles`` over the tiles, 3. ``gradient_tiles`` writes

.. math::
    \mathrm{d}U = c \, \mathrm{d}A \, S^\top + \alpha \, v, \qquad
    \mathrm{d}V = c \, Z \, T^\top + \alpha \, u, \qquad
    \mathrm{d}Z = c \, V \, T

with u, v the sums of U and V over the graph. If x is given, U, V, Z and m4 are computed here from x and the weight,
and again in the backward pass; otherwise they are read. Without atomics, results do not vary between runs.

Letters: N nodes, D channels, K rank, Z columns of z, H heads, M tiles, F = K·Z + 2K numbers of a tile: S, u, v.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl


@triton.jit
def _rows_of(order, offset, end, BM: tl.constexpr):
    """Rows of a block of nodes, and the mask of those inside the tile."""
    position = offset + tl.arange(0, BM)
    inside = position < end
    if order is None:
        rows = position
    else:
        rows = tl.load(order + position, mask=inside, other=0)
    return rows.to(tl.int64), inside


@triton.jit
def _load(base, rows, inside, stride, width, BLOCK: tl.constexpr):
    """Columns ``0 … width - 1`` of some rows, zero outside."""
    column = tl.arange(0, BLOCK)
    return tl.load(
        base + rows[:, None] * stride + column[None, :], mask=inside[:, None] & (column < width)[None, :], other=0.0
    )


@triton.jit
def _store(base, rows, inside, stride, width, value, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    tl.store(
        base + rows[:, None] * stride + column[None, :],
        value.to(base.dtype.element_ty),
        mask=inside[:, None] & (column < width)[None, :],
    )


@triton.jit
def _rounded(value, PRECISION: tl.constexpr):
    """float32 rounded to TF32; a TF32 product alone would truncate towards zero."""
    if value.dtype == tl.float32 and PRECISION == "tf32":
        bits = (value.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
        return tl.where(value == value, bits.to(tl.float32, bitcast=True), value)
    else:
        return value


@triton.jit
def _dot(a, b, PRECISION: tl.constexpr):
    return tl.dot(_rounded(a, PRECISION), _rounded(b, PRECISION), input_precision=PRECISION)


@triton.jit
def _block_of_rows(
    x, rows, inside, d0, D: tl.constexpr, BD: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr
):
    """Columns ``d0 … d0 + BD - 1`` of dense rows of D columns as a factor of a product, zero outside."""
    d = d0 + tl.arange(0, BD)
    mask = inside[:, None] if D % BD == 0 else inside[:, None] & (d < D)[None, :]
    return _rounded(tl.load(x + rows[:, None] * D + d[None, :], mask=mask, other=0.0).to(COMPUTE), PRECISION)


@triton.jit
def _relu(value):
    return tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _map(x, weight, bias, first, inside, D, K, BD: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    """relu(x Wᵀ + b) for the K rows of the weight from ``first`` on; zero outside the tile."""
    k, d = tl.arange(0, BK), tl.arange(0, BD)
    w = tl.load(weight + (first + k)[None, :] * D + d[:, None], mask=(d < D)[:, None] & (k < K)[None, :], other=0.0).to(
        x.dtype
    )
    b = tl.load(bias + first + k, mask=k < K, other=0.0).to(tl.float32)
    value = _relu(_dot(x, w, PRECISION) + b[None, :])
    return tl.where(inside[:, None], value, 0.0)


@triton.jit
def _inverse_eta(u_sum, v_sum, count, eps, HALF: tl.constexpr):
    """1 / (η ± eps); zero for η = 0, where nothing is attended to (float16 cannot represent 1 / eps)."""
    eta = tl.sum(u_sum * v_sum, 0) / tl.maximum(count, 1).to(tl.float32)
    shifted = tl.where(eta < 0, eta - eps, eta + eps)
    if HALF:
        nothing = eta == 0
    else:
        nothing = shifted == 0
    return tl.where(nothing, 0.0, 1.0 / tl.where(nothing, 1.0, shifted))


@triton.jit
def _load_square(base, K, KZ, BK: tl.constexpr, BZ: tl.constexpr):
    k, c = tl.arange(0, BK), tl.arange(0, BZ)
    return tl.load(base + k[:, None] * KZ + c[None, :], mask=(k < K)[:, None] & (c < KZ)[None, :], other=0.0)


@triton.jit
def reduce_tiles(
    x, weight, bias, u, v, z, out, parts, order, start, end,
    D: tl.constexpr, K: tl.constexpr, KZ: tl.constexpr, stride_x: tl.constexpr, stride_u: tl.constexpr,
    stride_v: tl.constexpr, stride_z: tl.constexpr, head_u: tl.constexpr, head_v: tl.constexpr, head_z: tl.constexpr,
    stride_out: tl.constexpr, COMPUTE: tl.constexpr,
    PRECISION: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr, BK: tl.constexpr, BZ: tl.constexpr,
):  # fmt: skip
    """Writes S = VᵀZ and the sums of U and V over the rows of a tile into ``parts`` ``[H, M, F]``.

    With x it also writes U and m4 into ``out``, from which :func:`apply_tiles` reads U.
    """
    m, h = tl.program_id(0), tl.program_id(1)
    first, last = tl.load(start + m), tl.load(end + m)
    s = tl.zeros((BK, BZ), tl.float32)
    u_sum, v_sum = tl.zeros((BK,), tl.float32), tl.zeros((BK,), tl.float32)
    for offset in range(first, last, BM):
        rows, inside = _rows_of(order, offset, last, BM)
        if x is not None:
            tile = _load(x, rows, inside, stride_x, D, BD).to(COMPUTE)
            u_tile = _map(tile, weight, bias, h * 4 * K, inside, D, K, BD, BK, PRECISION)
            _store(out + h * 2 * K, rows, inside, stride_out, K, u_tile, BK)
            m4 = _map(tile, weight, bias, (h * 4 + 3) * K, inside, D, K, BD, BK, PRECISION)
            _store(out + h * 2 * K + K, rows, inside, stride_out, K, m4, BK)
            v_tile = _map(tile, weight, bias, (h * 4 + 1) * K, inside, D, K, BD, BK, PRECISION)
            z_tile = _map(tile, weight, bias, (h * 4 + 2) * K, inside, D, K, BD, BK, PRECISION)
        else:
            u_tile = _load(u + h * head_u, rows, inside, stride_u, K, BK)
            v_tile = _load(v + h * head_v, rows, inside, stride_v, K, BK)
            z_tile = _load(z + h * head_z, rows, inside, stride_z, KZ, BZ)
        u_sum += tl.sum(u_tile.to(tl.float32), 0)
        v_sum += tl.sum(v_tile.to(tl.float32), 0)
        s += _dot(tl.trans(v_tile.to(COMPUTE)), z_tile.to(COMPUTE), PRECISION)
    k, c = tl.arange(0, BK), tl.arange(0, BZ)
    part = parts + (h.to(tl.int64) * tl.num_programs(0) + m) * (K * KZ + 2 * K)
    at, mask = part + k[:, None] * KZ + c[None, :], (k < K)[:, None] & (c < KZ)[None, :]
    at_u, at_v = part + K * KZ + k, part + K * KZ + K + k
    tl.store(at, s, mask=mask)
    tl.store(at_u, u_sum, mask=k < K)
    tl.store(at_v, v_sum, mask=k < K)


@triton.jit
def sum_tiles(parts, totals, ptr, F, num_tiles, ROWS: tl.constexpr, BF: tl.constexpr):
    """``parts`` ``[H, M, F]`` summed over the tiles of each graph, ``totals`` ``[H, G, F]``."""
    g, h = tl.program_id(0), tl.program_id(1)
    f = tl.program_id(2) * BF + tl.arange(0, BF)
    first, last = tl.load(ptr + g), tl.load(ptr + g + 1)
    total = tl.zeros((BF,), tl.float32)
    for offset in range(first, last, ROWS):
        tile = offset + tl.arange(0, ROWS)
        at = parts + (h.to(tl.int64) * num_tiles + tile)[:, None] * F + f[None, :]
        total += tl.sum(tl.load(at, mask=(tile < last)[:, None] & (f < F)[None, :], other=0.0), 0)
    tl.store(totals + (h.to(tl.int64) * tl.num_programs(0) + g) * F + f, total, mask=f < F)


@triton.jit
def apply_tiles(
    u, out, totals, order, start, end, graph, counts,
    eps, num_graphs, K: tl.constexpr, KZ: tl.constexpr, stride_u: tl.constexpr, head_u: tl.constexpr,
    stride_out: tl.constexpr, head_out: tl.constexpr, HALF: tl.constexpr,
    PRECISION: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, BZ: tl.constexpr,
):  # fmt: skip
    """``out = U S / η``; u and out may share memory, because each program reads its rows before it writes them."""
    m, h = tl.program_id(0), tl.program_id(1)
    first, last, g = tl.load(start + m), tl.load(end + m), tl.load(graph + m)
    if first < last:
        k = tl.arange(0, BK)
        total = totals + (h * num_graphs + g) * (K * KZ + 2 * K)
        u_sum = tl.load(total + K * KZ + k, mask=k < K, other=0.0)
        v_sum = tl.load(total + K * KZ + K + k, mask=k < K, other=0.0)
        c = _inverse_eta(u_sum, v_sum, tl.load(counts + g), eps, HALF)
        s = _load_square(total, K, KZ, BK, BZ) * c
        for offset in range(first, last, BM):
            rows, inside = _rows_of(order, offset, last, BM)
            tile = _load(u + h * head_u, rows, inside, stride_u, K, BK).to(tl.float32)
            _store(out + h * head_out, rows, inside, stride_out, KZ, _dot(tile, s, PRECISION), BZ)


@triton.jit
def reduce_gradient(
    x, weight, bias, u, grad, parts, order, start, end,
    D: tl.constexpr, K: tl.constexpr, KZ: tl.constexpr, stride_x: tl.constexpr, stride_u: tl.constexpr,
    head_u: tl.constexpr, stride_grad: tl.constexpr, head_grad: tl.constexpr,
    COMPUTE: tl.constexpr,
    PRECISION: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr, BK: tl.constexpr, BZ: tl.constexpr,
):  # fmt: skip
    """Writes T = Uᵀ dA over the rows of a tile into ``parts`` ``[H, M, K·Z]``."""
    m, h = tl.program_id(0), tl.program_id(1)
    first, last = tl.load(start + m), tl.load(end + m)
    t = tl.zeros((BK, BZ), tl.float32)
    for offset in range(first, last, BM):
        rows, inside = _rows_of(order, offset, last, BM)
        if x is not None:
            tile = _load(x, rows, inside, stride_x, D, BD).to(COMPUTE)
            u_tile = _map(tile, weight, bias, h * 4 * K, inside, D, K, BD, BK, PRECISION)
        else:
            u_tile = _load(u + h * head_u, rows, inside, stride_u, K, BK)
        da = _load(grad + h * head_grad, rows, inside, stride_grad, KZ, BZ)
        t += _dot(tl.trans(u_tile.to(COMPUTE)), da.to(COMPUTE), PRECISION)
    k, c = tl.arange(0, BK), tl.arange(0, BZ)
    at = parts + (h.to(tl.int64) * tl.num_programs(0) + m) * (K * KZ) + k[:, None] * KZ + c[None, :]
    mask = (k < K)[:, None] & (c < KZ)[None, :]
    tl.store(at, t, mask=mask)


@triton.jit
def gradient_tiles(
    x, weight, bias, u, v, z, out, grad, totals, t_totals, du, dv, dz, bias_parts, order, start, end, graph, counts,
    eps, num_graphs, D: tl.constexpr, K: tl.constexpr, KZ: tl.constexpr, stride_x: tl.constexpr,
    stride_u: tl.constexpr, stride_v: tl.constexpr, stride_z: tl.constexpr, head_u: tl.constexpr, head_v: tl.constexpr,
    head_z: tl.constexpr, stride_out: tl.constexpr, stride_grad: tl.constexpr, head_grad: tl.constexpr,
    stride_du: tl.constexpr, stride_dz: tl.constexpr, head_du: tl.constexpr, head_dz: tl.constexpr,
    HALF: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BD: tl.constexpr, BK: tl.constexpr, BZ: tl.constexpr,
):  # fmt: skip
    """Gradients of U, V and Z; dU and dV have the same layout.

    With x: the gradients before the activation, also of m4, next to each other in ``du`` (with Z = K); their sums
    over the rows, the gradient of the bias, go into ``bias_parts`` ``[H, M, 4, K]``. Only m4's sign is needed:
    it is read from the result ``out``, whose rows have the layout of ``grad``.
    """
    m, h = tl.program_id(0), tl.program_id(1)
    first, last, g = tl.load(start + m), tl.load(end + m), tl.load(graph + m)
    k = tl.arange(0, BK)
    total = totals + (h * num_graphs + g) * (K * KZ + 2 * K)
    u_sum = tl.load(total + K * KZ + k, mask=k < K, other=0.0)
    v_sum = tl.load(total + K * KZ + K + k, mask=k < K, other=0.0)
    count = tl.load(counts + g)
    c = _inverse_eta(u_sum, v_sum, count, eps, HALF)
    s = _load_square(total, K, KZ, BK, BZ) * c
    t = _load_square(t_totals + (h * num_graphs + g) * (K * KZ), K, KZ, BK, BZ) * c
    alpha = -tl.sum(tl.sum(s * t, 1), 0) / tl.maximum(count, 1).to(tl.float32)
    b_u, b_v = tl.zeros((BK,), tl.float32), tl.zeros((BK,), tl.float32)
    b_z, b_m = tl.zeros((BZ,), tl.float32), tl.zeros((BZ,), tl.float32)
    for offset in range(first, last, BM):
        rows, inside = _rows_of(order, offset, last, BM)
        da = _load(grad + h * head_grad, rows, inside, stride_grad, KZ, BZ)
        if x is not None:
            tile = _load(x, rows, inside, stride_x, D, BD).to(COMPUTE)
            u_tile = _map(tile, weight, bias, h * 4 * K, inside, D, K, BD, BK, PRECISION)
        else:
            u_tile = _load(u + h * head_u, rows, inside, stride_u, K, BK)
        g_u = _dot(da.to(tl.float32), tl.trans(s), PRECISION) + alpha * v_sum[None, :]
        if x is not None:
            g_u = tl.where(u_tile > 0, g_u, 0.0)
            b_u += tl.sum(tl.where(inside[:, None], g_u, 0.0), 0)
        _store(du + h * head_du, rows, inside, stride_du, K, g_u, BK)
        if x is not None:
            v_tile = _map(tile, weight, bias, (h * 4 + 1) * K, inside, D, K, BD, BK, PRECISION)
            z_tile = _map(tile, weight, bias, (h * 4 + 2) * K, inside, D, K, BD, BK, PRECISION)
        else:
            v_tile = _load(v + h * head_v, rows, inside, stride_v, K, BK)
            z_tile = _load(z + h * head_z, rows, inside, stride_z, KZ, BZ)
        g_v = _dot(z_tile.to(tl.float32), tl.trans(t), PRECISION) + alpha * u_sum[None, :]
        g_z = _dot(v_tile.to(tl.float32), t, PRECISION)
        if x is None:
            _store(dv + h * head_du, rows, inside, stride_du, K, g_v, BK)
            _store(dz + h * head_dz, rows, inside, stride_dz, KZ, g_z, BZ)
        else:
            g_v = tl.where(v_tile > 0, g_v, 0.0)
            g_z = tl.where(z_tile > 0, g_z, 0.0)
            b_v += tl.sum(g_v, 0)
            b_z += tl.sum(g_z, 0)
            _store(du + h * head_du + K, rows, inside, stride_du, K, g_v, BK)
            _store(du + h * head_du + 2 * K, rows, inside, stride_du, K, g_z, BZ)
            m_tile = _load(out + h * head_grad + K, rows, inside, stride_out, K, BZ)
            g_m = _load(grad + h * head_grad + K, rows, inside, stride_grad, K, BZ).to(tl.float32)
            g_m = tl.where(m_tile > 0, g_m, 0.0)
            b_m += tl.sum(g_m, 0)
            _store(du + h * head_du + 3 * K, rows, inside, stride_du, K, g_m, BZ)
    if x is not None:
        at = bias_parts + (h.to(tl.int64) * tl.num_programs(0) + m) * 4 * K + k
        tl.store(at, b_u, mask=k < K)
        tl.store(at + K, b_v, mask=k < K)
        tl.store(at + 2 * K, b_z, mask=k < K)
        tl.store(at + 3 * K, b_m, mask=k < K)
