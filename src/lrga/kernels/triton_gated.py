"""Triton kernels of the edges of a GatedGCN layer (see :mod:`lrga.kernels.gated` for the formula).

The edges are sorted by target, so a program that walks through the edges of some nodes writes their sums without an
atomic addition; the gradients of the sources walk through ``out_order`` in the same manner. A program has a block of
channels and a tile of ``BLOCK_E`` edges at a time; it sums each *slot* of the tile (an edge's place in it) by itself
and adds the slots up at the end, so that nothing crosses between threads within the loop. Node numbers of the next tile
are asked for while this one is computed, by target its rows of edges too. Walks by target start with the last nodes,
whose edges the kernel before left in the cache. Everything is added in float32 and in a fixed order. Edges from
``in_ptr[N]`` on are padding: no node walks through them, and what is written for them is zero.

Letters: N nodes, E edges, D channels, P programs that share the nodes (or edges) in consecutive runs.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

EPS = tl.constexpr(1e-6)


# exp2(-x log2 e) and a reciprocal, each one instruction; Triton's own guard against numbers that a gate's cannot be.
SIGMOID = tl.constexpr(
    "{ .reg .f32 t; mul.f32 t, $1, 0fBFB8AA3B; ex2.approx.ftz.f32 t, t; add.f32 t, t, 0f3F800000; "
    "rcp.approx.ftz.f32 $0, t; }"
)


@triton.jit
def _gate(x, FAST: tl.constexpr):
    """σ(x), in fewer instructions where they are a GPU's (Triton's interpreter knows none)."""
    if FAST:
        return tl.inline_asm_elementwise(SIGMOID, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return tl.sigmoid(x)


@triton.jit
def _zero_padding(pointer, first, num_edges, c, c_ok, D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr):
    """Zeros in the rows ``first … num_edges - 1``, shared among the programs."""
    slot = tl.arange(0, BLOCK_E)
    zeros = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    for k in range(first + tl.program_id(1) * BLOCK_E, num_edges, tl.num_programs(1) * BLOCK_E):
        rows = k + slot
        tl.store(pointer + rows[:, None] * D + c[None, :], zeros, mask=(rows < num_edges)[:, None] & c_ok[None, :])


@triton.jit
def forward_by_target(
    product,  # C e + bias [E, D], where JOIN; else nothing
    gated,  # b [N, D]
    from_source,  # d [N, D]
    from_target,  # t [N, D]
    scale,  # [E] or nothing
    source,  # [E]
    in_ptr,  # [N + 1]
    e_hat,  # [E, D], written here where JOIN
    mean,  # out [N, D]
    denominator,  # out [N, D]
    counts,  # out [P]
    partials,  # out [2, P, D]: mean of the rows of a program, and their squared distances from it
    num_nodes,
    nodes_each,
    gated_stride,  # numbers from one row to the next
    source_stride,
    target_stride,
    D: tl.constexpr,
    JOIN: tl.constexpr,  # the product is the library's, the rows of the ends are added here
    STATISTICS: tl.constexpr,
    SCALED: tl.constexpr,
    FAST: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    program = tl.num_programs(1) - 1 - tl.program_id(1).to(tl.int64)  # the last nodes first
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    local = slot[:, None] * D + c[None, :]
    origin = tl.zeros([BLOCK_D], tl.float32)
    away = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    square = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    first = program * nodes_each
    last = tl.minimum(first + nodes_each, num_nodes)
    begin = tl.load(in_ptr + tl.minimum(first, num_nodes))
    stop = tl.load(in_ptr + tl.maximum(last, 0))
    values = product if JOIN else e_hat
    next_j = tl.load(source + begin + slot, mask=begin + slot < stop, other=0).to(tl.int32)
    next_x = tl.load(values + begin * D + local, mask=(begin + slot < stop)[:, None] & c_ok[None, :], other=0.0)
    if STATISTICS and not JOIN:
        row = begin + 0 * c
        origin = tl.load(e_hat + row * D + c, mask=c_ok & (row < stop), other=0.0).to(tl.float32)
        if SCALED:
            origin *= tl.load(scale + row, mask=row < stop, other=0.0).to(tl.float32)
    end = begin
    for node in range(first, last):
        start = end
        end = tl.load(in_ptr + node + 1)
        if JOIN:
            t = tl.load(from_target + node * target_stride + c, mask=c_ok, other=0.0).to(tl.float32)
        gate_sum = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        total = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        for k in range(start, end, BLOCK_E):
            rows = k + slot
            row_ok = rows < end
            ok = row_ok[:, None] & c_ok[None, :]
            # The next tile begins where this one or its node ends, whoever's the next one is.
            after = tl.minimum(k + BLOCK_E, end)
            after_ok = after + slot < stop
            j = next_j
            next_j = tl.load(source + after + slot, mask=after_ok, other=0).to(tl.int32)
            b = tl.load(gated + j[:, None].to(tl.int64) * gated_stride + c[None, :], mask=ok, other=0.0).to(tl.float32)
            x = next_x
            next_x = tl.load(values + after * D + local, mask=after_ok[:, None] & c_ok[None, :], other=0.0)
            x = x.to(tl.float32)
            if JOIN:
                d = tl.load(from_source + j[:, None].to(tl.int64) * source_stride + c[None, :], mask=ok, other=0.0)
                # As it is stored, so that the backward pass sees the same gate.
                x = (x + d.to(tl.float32) + t[None, :]).to(e_hat.dtype.element_ty)
                tl.store(e_hat + k * D + local, x, mask=ok)
                x = x.to(tl.float32)
            gate = tl.where(ok, _gate(x, FAST), 0.0)
            gate_sum += gate
            total += gate * b
            if STATISTICS:
                if SCALED:
                    x *= tl.load(scale + rows, mask=row_ok, other=0.0).to(tl.float32)[:, None]
                if JOIN:  # noqa: SIM102
                    if k == begin:
                        origin = tl.sum(tl.where((slot == 0)[:, None], x, 0.0), 0)
                # About a row of the program's own: no digits cancel where the mean is large beside the spread.
                x = tl.where(ok, x - origin[None, :], 0.0)
                away += x
                square += x * x
        below = tl.sum(gate_sum, 0) + EPS
        tl.store(mean + node * D + c, tl.sum(total, 0) / below, mask=c_ok)
        tl.store(denominator + node * D + c, below, mask=c_ok)
    if STATISTICS:
        count = (stop - begin).to(tl.float32)
        shift = tl.sum(away, 0) / tl.maximum(count, 1.0)
        squares = tl.sum(square, 0) - count * shift * shift
        tl.store(counts + program, count)  # the same number from each block of channels
        tl.store(partials + program * D + c, origin + shift, mask=c_ok)
        tl.store(partials + (tl.num_programs(1) + program) * D + c, tl.where(squares < 0, 0.0, squares), mask=c_ok)


@triton.jit
def backward_by_target(
    grad_mean,  # [N, D]
    grad_out,  # [E, D] or nothing
    e_hat,  # [E, D]
    gated,  # b [N, D]
    mean,  # [N, D]
    denominator,  # [N, D]
    scale,  # [E] or nothing
    statistics,  # [3, D]
    sums,  # [2, D]
    norm_weight,  # [D]
    norm_bias,  # [D]
    source,  # [E]
    in_ptr,  # [N + 1]
    grad_e_hat,  # out [E, D]
    grad_total,  # out [N, D]: gradient of Σ σ b
    grad_target,  # out [N, D]
    grad_attr,  # out [E, D] or nothing: the residual's share, the gradient of the output
    num_nodes,
    num_edges,
    nodes_each,
    gated_stride,
    D: tl.constexpr,
    EDGES: tl.constexpr,
    NORM: tl.constexpr,
    SCALED: tl.constexpr,
    RESIDUAL: tl.constexpr,
    FAST: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    program = tl.num_programs(1) - 1 - tl.program_id(1).to(tl.int64)  # the last nodes first
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    if EDGES and NORM:
        center = tl.load(statistics + c, mask=c_ok, other=0.0)
        rstd = tl.load(statistics + D + c, mask=c_ok, other=0.0)
        inverse = tl.load(statistics + 2 * D + c, mask=c_ok, other=0.0)
        mean_grad = tl.load(sums + c, mask=c_ok, other=0.0) * inverse
        mean_slope = tl.load(sums + D + c, mask=c_ok, other=0.0) * inverse
        weight = tl.load(norm_weight + c, mask=c_ok, other=0.0).to(tl.float32)
        bias = tl.load(norm_bias + c, mask=c_ok, other=0.0).to(tl.float32)
    local = slot[:, None] * D + c[None, :]
    first = program * nodes_each
    last = tl.minimum(first + nodes_each, num_nodes)
    end = tl.load(in_ptr + tl.minimum(first, num_nodes))
    stop = tl.load(in_ptr + tl.maximum(last, 0))
    next_j = tl.load(source + end + slot, mask=end + slot < stop, other=0).to(tl.int32)
    in_front = (end + slot < stop)[:, None] & c_ok[None, :]
    next_x = tl.load(e_hat + end * D + local, mask=in_front, other=0.0)
    if EDGES:
        next_arriving = tl.load(grad_out + end * D + local, mask=in_front, other=0.0)
    for node in range(first, last):
        start = end
        end = tl.load(in_ptr + node + 1)
        here = node * D + c
        upstream = tl.load(grad_mean + here, mask=c_ok, other=0.0).to(tl.float32)
        upstream = upstream / tl.load(denominator + here, mask=c_ok, other=1.0)
        average = tl.load(mean + here, mask=c_ok, other=0.0).to(tl.float32)
        tl.store(grad_total + here, upstream, mask=c_ok)
        collected = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        for k in range(start, end, BLOCK_E):
            rows = k + slot
            row_ok = rows < end
            ok = row_ok[:, None] & c_ok[None, :]
            after = tl.minimum(k + BLOCK_E, end)  # as in forward_by_target
            j = next_j
            next_j = tl.load(source + after + slot, mask=after + slot < stop, other=0).to(tl.int32)
            b = tl.load(gated + j[:, None].to(tl.int64) * gated_stride + c[None, :], mask=ok, other=0.0).to(tl.float32)
            in_front = (after + slot < stop)[:, None] & c_ok[None, :]
            x = next_x
            next_x = tl.load(e_hat + after * D + local, mask=in_front, other=0.0)
            x = x.to(tl.float32)
            gate = _gate(x, FAST)
            grad = upstream[None, :] * (b - average[None, :]) * gate * (1.0 - gate)
            if EDGES:
                arriving = next_arriving
                next_arriving = tl.load(grad_out + after * D + local, mask=in_front, other=0.0)
                arriving = arriving.to(tl.float32)
                if RESIDUAL:
                    tl.store(grad_attr + k * D + local, arriving, mask=ok)
                if SCALED:
                    factor = tl.load(scale + rows, mask=row_ok, other=0.0).to(tl.float32)[:, None]
                    x *= factor
                if NORM:
                    x = (x - center[None, :]) * rstd[None, :]
                    arriving = tl.where(x * weight[None, :] + bias[None, :] > 0, arriving, 0.0)
                    arriving = (arriving - mean_grad[None, :] - x * mean_slope[None, :]) * (weight * rstd)[None, :]
                else:
                    arriving = tl.where(x > 0, arriving, 0.0)
                if SCALED:
                    arriving *= factor
                grad += arriving
            grad = grad.to(grad_e_hat.dtype.element_ty)
            tl.store(grad_e_hat + k * D + local, grad, mask=ok)
            collected += tl.where(ok, grad.to(tl.float32), 0.0)
        tl.store(grad_target + here, tl.sum(collected, 0), mask=c_ok)
    real = tl.load(in_ptr + num_nodes)
    _zero_padding(grad_e_hat, real, num_edges, c, c_ok, D, BLOCK_E, BLOCK_D)
    if EDGES and RESIDUAL:
        _zero_padding(grad_attr, real, num_edges, c, c_ok, D, BLOCK_E, BLOCK_D)


@triton.jit
def backward_by_source(
    grad_e_hat,  # [E, D]
    e_hat,  # [E, D]
    grad_total,  # [N, D]
    out_target,  # [E]: where the edges end, in the order of their sources
    out_order,  # [E]
    out_ptr,  # [N + 1]
    grad_gated,  # out [N, D]
    grad_source,  # out [N, D]
    num_nodes,
    nodes_each,
    D: tl.constexpr,
    FAST: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    program = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    first = program * nodes_each
    last = tl.minimum(first + nodes_each, num_nodes)
    end = tl.load(out_ptr + tl.minimum(first, num_nodes))
    stop = tl.load(out_ptr + tl.maximum(last, 0))
    next_rows = tl.load(out_order + end + slot, mask=end + slot < stop, other=0)
    next_i = tl.load(out_target + end + slot, mask=end + slot < stop, other=0).to(tl.int32)
    for node in range(first, last):
        start = end
        end = tl.load(out_ptr + node + 1)
        of_gated = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        of_source = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        for k in range(start, end, BLOCK_E):
            ok = (k + slot < end)[:, None] & c_ok[None, :]
            rows = next_rows
            i = next_i
            after = tl.minimum(k + BLOCK_E, end)  # as in forward_by_target
            next_rows = tl.load(out_order + after + slot, mask=after + slot < stop, other=0)
            next_i = tl.load(out_target + after + slot, mask=after + slot < stop, other=0).to(tl.int32)
            at = rows[:, None] * D + c[None, :]
            x = tl.load(e_hat + at, mask=ok, other=0.0).to(tl.float32)
            grad = tl.load(grad_e_hat + at, mask=ok, other=0.0).to(tl.float32)
            upstream = tl.load(grad_total + i[:, None].to(tl.int64) * D + c[None, :], mask=ok, other=0.0)
            of_gated += _gate(x, FAST) * upstream
            of_source += grad
        tl.store(grad_gated + node * D + c, tl.sum(of_gated, 0), mask=c_ok)
        tl.store(grad_source + node * D + c, tl.sum(of_source, 0), mask=c_ok)
