"""Triton kernels of the edges of a GatedGCN layer (see :mod:`lrga.kernels.gated` for the formula).

The edges are sorted by target, so a program that walks through the edges of some nodes writes their sums without an
atomic addition; the gradients of the sources walk through ``out_order`` in the same manner. A program has a block of
channels and a tile of ``BLOCK_E`` edges at a time; it sums each *slot* of the tile (an edge's place in it) by itself
and adds the slots up at the end, so that nothing crosses between threads within the loop. Everything is added in
float32 and in a fixed order. Edges from ``in_ptr[N]`` on are padding: no node walks through them, and what is written
for them is zero.

Letters: N nodes, E edges, D channels, P programs that share the nodes (or edges) in consecutive runs.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

EPS = tl.constexpr(1e-6)


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
    product,  # C e [E, D]
    gated,  # b [N, D]
    from_source,  # d [N, D]
    from_target,  # t [N, D]
    scale,  # [E] or nothing
    source,  # [E]
    in_ptr,  # [N + 1]
    e_hat,  # out [E, D]
    mean,  # out [N, D]
    denominator,  # out [N, D]
    counts,  # out [P]
    partials,  # out [2, P, D]: mean of the rows of a program, and their squared distances from it
    num_nodes,
    nodes_each,
    D: tl.constexpr,
    STATISTICS: tl.constexpr,
    SCALED: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    program = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    seen = tl.zeros([BLOCK_E], tl.float32)
    center = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    spread = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    first = program * nodes_each
    for node in range(first, tl.minimum(first + nodes_each, num_nodes)):
        start = tl.load(in_ptr + node)
        end = tl.load(in_ptr + node + 1)
        t = tl.load(from_target + node * D + c, mask=c_ok, other=0.0).to(tl.float32)
        gate_sum = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        total = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        for k in range(start, end, BLOCK_E):
            rows = k + slot
            row_ok = rows < end
            ok = row_ok[:, None] & c_ok[None, :]
            at = rows[:, None] * D + c[None, :]
            j = tl.load(source + rows, mask=row_ok, other=0)
            at_source = j[:, None] * D + c[None, :]
            x = tl.load(product + at, mask=ok, other=0.0).to(tl.float32)
            d = tl.load(from_source + at_source, mask=ok, other=0.0).to(tl.float32)
            b = tl.load(gated + at_source, mask=ok, other=0.0).to(tl.float32)
            # As it is stored, so that the backward pass sees the same gate.
            x = (x + d + t[None, :]).to(e_hat.dtype.element_ty)
            tl.store(e_hat + at, x, mask=ok)
            x = x.to(tl.float32)
            gate = tl.where(ok, tl.sigmoid(x), 0.0)
            gate_sum += gate
            total += gate * b
            if STATISTICS:
                if SCALED:
                    x *= tl.load(scale + rows, mask=row_ok, other=0.0).to(tl.float32)[:, None]
                # Welford's recurrence in each slot: no digits cancel where the mean is large beside the spread.
                seen += tl.where(row_ok, 1.0, 0.0)
                share = tl.where(row_ok, 1.0 / tl.maximum(seen, 1.0), 0.0)
                delta = x - center
                center += delta * share[:, None]
                spread += tl.where(ok, delta * (x - center), 0.0)
        below = tl.sum(gate_sum, 0) + EPS
        tl.store(mean + node * D + c, tl.sum(total, 0) / below, mask=c_ok)
        tl.store(denominator + node * D + c, below, mask=c_ok)
    if STATISTICS:
        count = tl.sum(seen, 0)
        middle = tl.sum(center * seen[:, None], 0) / tl.maximum(count, 1.0)
        away = center - middle[None, :]
        squares = tl.sum(spread + away * away * seen[:, None], 0)
        tl.store(counts + program, count)  # the same number from each block of channels
        tl.store(partials + program * D + c, middle, mask=c_ok)
        tl.store(partials + (tl.num_programs(1) + program) * D + c, squares, mask=c_ok)


@triton.jit
def finish_statistics(
    counts,  # [P]
    partials,  # [2, P, D]
    running_mean,  # [D]
    running_var,  # [D]
    momentum,  # scalar tensor, or nothing
    statistics,  # out [3, D]: mean, 1 / √(variance + eps), and 1 / rows (0: the statistics are constants)
    new_running,  # out [2, D]
    num_partials,
    momentum_value,
    eps,
    D: tl.constexpr,
    TRAINING: tl.constexpr,
    HAS_MOMENTUM: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Joins the statistics of the programs (Chan, Golub and LeVeque); fewer than two rows leave the running ones."""
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    old_mean = tl.load(running_mean + c, mask=c_ok, other=0.0).to(tl.float32)
    old_var = tl.load(running_var + c, mask=c_ok, other=1.0).to(tl.float32)
    used_mean, used_var = old_mean, old_var
    inverse = tl.zeros([BLOCK_D], tl.float32)
    if TRAINING:
        slot = tl.arange(0, BLOCK_P)
        seen = tl.zeros([BLOCK_P], tl.float32)
        center = tl.zeros([BLOCK_P, BLOCK_D], tl.float32)
        spread = tl.zeros([BLOCK_P, BLOCK_D], tl.float32)
        for k in range(0, num_partials, BLOCK_P):
            rows = k + slot
            ok = (rows < num_partials)[:, None] & c_ok[None, :]
            more = tl.load(counts + rows, mask=rows < num_partials, other=0.0)
            middle = tl.load(partials + rows[:, None] * D + c[None, :], mask=ok, other=0.0)
            squares = tl.load(partials + (num_partials + rows)[:, None] * D + c[None, :], mask=ok, other=0.0)
            share = more / tl.maximum(seen + more, 1.0)
            delta = middle - center
            spread += squares + delta * delta * (seen * share)[:, None]
            center += delta * share[:, None]
            seen += more
        count = tl.sum(seen, 0)
        batch_mean = tl.sum(center * seen[:, None], 0) / tl.maximum(count, 1.0)
        away = center - batch_mean[None, :]
        squares = tl.sum(spread + away * away * seen[:, None], 0)
        enough = count >= 2.0
        if HAS_MOMENTUM:
            rate = tl.load(momentum).to(tl.float32)
        else:
            rate = momentum_value
        used_mean = tl.where(enough, batch_mean, old_mean)
        used_var = tl.where(enough, squares / tl.maximum(count, 1.0), old_var)
        inverse += tl.where(enough, 1.0 / tl.maximum(count, 1.0), 0.0)
        unbiased = squares / tl.maximum(count - 1.0, 1.0)
        old_mean = tl.where(enough, old_mean + rate * (batch_mean - old_mean), old_mean)
        old_var = tl.where(enough, old_var + rate * (unbiased - old_var), old_var)
    tl.store(statistics + c, used_mean, mask=c_ok)
    tl.store(statistics + D + c, 1.0 / tl.sqrt(used_var + eps), mask=c_ok)
    tl.store(statistics + 2 * D + c, inverse, mask=c_ok)
    tl.store(new_running + c, old_mean, mask=c_ok)
    tl.store(new_running + D + c, old_var, mask=c_ok)


@triton.jit
def edge_output(
    e_hat,  # [E, D]
    edge_attr,  # [E, D]
    scale,  # [E] or nothing
    statistics,  # [3, D]
    norm_weight,  # [D]
    norm_bias,  # [D]
    in_ptr,  # [N + 1]
    out,  # out [E, D]
    num_nodes,
    num_numbers,  # E D
    D: tl.constexpr,
    NORM: tl.constexpr,
    SCALED: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``e + ReLU(normalise(scale · ê))``, one number after the other whatever its row, zero in padding."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    at = start + tl.arange(0, BLOCK)
    # Told apart by their place, not by their row: so the compiler sees that neighbours are read together.
    ok = at < tl.load(in_ptr + num_nodes) * D
    place = (start % D).to(tl.int32) + tl.arange(0, BLOCK)  # 32 bits: a division by D for every number
    c = place % D
    x = tl.load(e_hat + at, mask=ok, other=0.0).to(tl.float32)
    if SCALED:
        x *= tl.load(scale + start // D + place // D, mask=ok, other=0.0).to(tl.float32)
    if NORM:
        slope = tl.load(statistics + D + c) * tl.load(norm_weight + c).to(tl.float32)
        x = (x - tl.load(statistics + c)) * slope + tl.load(norm_bias + c).to(tl.float32)
    x = tl.where(x > 0, x, tl.where(x == x, 0.0, x))  # NaN stays NaN, as in torch
    if RESIDUAL:
        x += tl.load(edge_attr + at, mask=ok, other=0.0).to(tl.float32)
    tl.store(out + at, tl.where(ok, x, 0.0), mask=at < num_numbers)


@triton.jit
def norm_backward_sums(
    grad_out,  # [E, D]
    e_hat,  # [E, D]
    scale,  # [E] or nothing
    statistics,  # [3, D]
    norm_weight,  # [D]
    norm_bias,  # [D]
    in_ptr,  # [N + 1]
    sums,  # out [P, 2, D]
    num_nodes,
    edges_each,
    D: tl.constexpr,
    SCALED: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Σ g and Σ g x̂ over the edges, g the gradient that the ReLU lets through, x̂ the normalised value."""
    program = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    center = tl.load(statistics + c, mask=c_ok, other=0.0)
    rstd = tl.load(statistics + D + c, mask=c_ok, other=0.0)
    weight = tl.load(norm_weight + c, mask=c_ok, other=0.0).to(tl.float32)
    bias = tl.load(norm_bias + c, mask=c_ok, other=0.0).to(tl.float32)
    plain = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    weighted = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    first = program * edges_each
    end = tl.minimum(first + edges_each, tl.load(in_ptr + num_nodes))
    for k in range(first, end, BLOCK_E):
        rows = k + slot
        row_ok = rows < end
        ok = row_ok[:, None] & c_ok[None, :]
        at = rows[:, None] * D + c[None, :]
        x = tl.load(e_hat + at, mask=ok, other=0.0).to(tl.float32)
        grad = tl.load(grad_out + at, mask=ok, other=0.0).to(tl.float32)
        if SCALED:
            x *= tl.load(scale + rows, mask=row_ok, other=0.0).to(tl.float32)[:, None]
        x = (x - center[None, :]) * rstd[None, :]
        grad = tl.where(x * weight[None, :] + bias[None, :] > 0, grad, 0.0)
        plain += grad
        weighted += grad * x
    tl.store(sums + 2 * program * D + c, tl.sum(plain, 0), mask=c_ok)
    tl.store(sums + (2 * program + 1) * D + c, tl.sum(weighted, 0), mask=c_ok)


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
    D: tl.constexpr,
    EDGES: tl.constexpr,
    NORM: tl.constexpr,
    SCALED: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    program = tl.program_id(1).to(tl.int64)
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
    first = program * nodes_each
    for node in range(first, tl.minimum(first + nodes_each, num_nodes)):
        start = tl.load(in_ptr + node)
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
            at = rows[:, None] * D + c[None, :]
            j = tl.load(source + rows, mask=row_ok, other=0)
            b = tl.load(gated + j[:, None] * D + c[None, :], mask=ok, other=0.0).to(tl.float32)
            x = tl.load(e_hat + at, mask=ok, other=0.0).to(tl.float32)
            gate = tl.sigmoid(x)
            grad = upstream[None, :] * (b - average[None, :]) * gate * (1.0 - gate)
            if EDGES:
                arriving = tl.load(grad_out + at, mask=ok, other=0.0).to(tl.float32)
                if RESIDUAL:
                    tl.store(grad_attr + at, arriving, mask=ok)
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
            tl.store(grad_e_hat + at, grad, mask=ok)
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
    target,  # [E]
    out_order,  # [E]
    out_ptr,  # [N + 1]
    grad_gated,  # out [N, D]
    grad_source,  # out [N, D]
    num_nodes,
    nodes_each,
    D: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    program = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    first = program * nodes_each
    for node in range(first, tl.minimum(first + nodes_each, num_nodes)):
        start = tl.load(out_ptr + node)
        end = tl.load(out_ptr + node + 1)
        of_gated = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        of_source = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
        for k in range(start, end, BLOCK_E):
            places = k + slot
            row_ok = places < end
            ok = row_ok[:, None] & c_ok[None, :]
            rows = tl.load(out_order + places, mask=row_ok, other=0)
            i = tl.load(target + rows, mask=row_ok, other=0)
            at = rows[:, None] * D + c[None, :]
            x = tl.load(e_hat + at, mask=ok, other=0.0).to(tl.float32)
            upstream = tl.load(grad_total + i[:, None] * D + c[None, :], mask=ok, other=0.0)
            of_gated += tl.sigmoid(x) * upstream
            of_source += tl.load(grad_e_hat + at, mask=ok, other=0.0).to(tl.float32)
        tl.store(grad_gated + node * D + c, tl.sum(of_gated, 0), mask=c_ok)
        tl.store(grad_source + node * D + c, tl.sum(of_source, 0), mask=c_ok)
