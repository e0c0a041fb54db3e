"""Triton kernels of the normalisation of the edges of a GatedGCN layer (see :mod:`lrga.kernels.gated` for the formula).

They stream through all edges, whatever nodes these join. Edges from ``in_ptr[N]`` on are padding, seen by no statistic.

Letters: N nodes, E edges, D channels, P programs that share the edges in consecutive runs.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl


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
    # Told apart by their place, not by their row: so the compiler sees that neighbours are read together. What is read
    # does not depend on the number of real edges, lest all wait for it.
    ok = at < num_numbers
    real = tl.load(in_ptr + num_nodes) * D
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
    tl.store(out + at, tl.where(at < real, x, 0.0), mask=ok)


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
    local = slot[:, None] * D + c[None, :]
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
        x = tl.load(e_hat + k * D + local, mask=ok, other=0.0).to(tl.float32)
        grad = tl.load(grad_out + k * D + local, mask=ok, other=0.0).to(tl.float32)
        if SCALED:
            x *= tl.load(scale + rows, mask=row_ok, other=0.0).to(tl.float32)[:, None]
        x = (x - center[None, :]) * rstd[None, :]
        grad = tl.where(x * weight[None, :] + bias[None, :] > 0, grad, 0.0)
        plain += grad
        weighted += grad * x
    tl.store(sums + 2 * program * D + c, tl.sum(plain, 0), mask=c_ok)
    tl.store(sums + (2 * program + 1) * D + c, tl.sum(weighted, 0), mask=c_ok)
