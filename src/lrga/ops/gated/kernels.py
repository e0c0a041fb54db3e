"""Triton kernels of the edges of a GatedGCN layer (see :mod:`lrga.ops.gated.definition` for the formula).

The edges are sorted by target, so a program that iterates over the edges of some nodes writes their sums without an
atomic addition; the gradients of the sources use ``out_order`` in the same way. A program has a block of
channels and a tile of ``BLOCK_E`` edges at a time; it sums each *slot* of the tile (an edge's position) separately
and adds the slots at the end, so threads do not communicate within the loop. Node numbers of the next tile
are prefetched while this one is computed; by target, its edge rows too. Passes by target start with the last nodes,
whose edges are in the cache from the previous kernel. All sums are in float32 and in a fixed order. Edges from
``in_ptr[N]`` on are padding: no node reads them, and their results are zero.

The normalisation of the edges streams through all edges, independent of nodes.

The linear map of the edges is fused with the operations around it: forward, ê = C e + bias + d_source +
t_target, which as a library product and a sum would need one more read and write of memory;
backward, the gradient of e, dê C + (gradient of the residual). Product sizes are powers of two, but D rarely is:
the columns are split into two blocks of such sizes (80 = 64 + 16) if one would be mostly empty. A program keeps the
weight and iterates over tiles of edges.

Letters: N nodes, E edges, D channels, I channels in, O channels out, P programs that share the nodes (or edges) in
consecutive runs. The arguments have these shapes:

- ``[E, D]``: ``e_hat``, ``edge_attr``, ``out``, their gradients (``grad_attr`` is the residual's share), and
  ``product``, which is C e + bias
- ``[E]``: ``source``, ``target``, ``scale`` (may be ``None``), ``out_order``, and ``out_target``, targets by source
- ``[N, D]``: ``gated`` b, ``from_source`` d, ``from_target`` t (with row strides), ``mean``, ``denominator``, their
  gradients, and ``grad_total``, the gradient of Σ σ b
- ``[N + 1]``: ``in_ptr``, ``out_ptr``; ``[D]``: parameters and running statistics of the normalisation
- ``statistics`` ``[3, D]``: mean, 1 / √(variance + eps), and 1 / rows (0: the statistics are constants)
- of the programs: ``counts`` ``[P]``, and ``partials`` ``[2, P, D]``, the mean of their rows and the squared distances
  from it
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

from lrga.ops.attention.batched_kernels import _block_of_rows, _rounded

EPS = tl.constexpr(1e-6)
# exp2(-x log2 e) and a reciprocal, one instruction each; Triton's version also handles numbers that gates cannot have.
SIGMOID = tl.constexpr(
    "{ .reg .f32 t; mul.f32 t, $1, 0fBFB8AA3B; ex2.approx.ftz.f32 t, t; add.f32 t, t, 0f3F800000; "
    "rcp.approx.ftz.f32 $0, t; }"
)


@triton.jit
def _gate(x, FAST: tl.constexpr):
    """σ(x), with fewer instructions on a GPU (Triton's interpreter does not support them)."""
    if FAST:
        return tl.inline_asm_elementwise(SIGMOID, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return tl.sigmoid(x)


@triton.jit
def _nodes_of(program, ptr, num_nodes, nodes_each):
    """The nodes ``first … last - 1`` of a program, and their edges ``begin … stop - 1``."""
    first = program * nodes_each
    last = tl.minimum(first + nodes_each, num_nodes)
    return first, last, tl.load(ptr + tl.minimum(first, num_nodes)), tl.load(ptr + tl.maximum(last, 0))


@triton.jit
def _zero_padding(pointer, first, num_edges, c, c_ok, D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr):
    """Writes zeros to the rows ``first … num_edges - 1``; the programs share the work."""
    slot = tl.arange(0, BLOCK_E)
    zeros = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    for k in range(first + tl.program_id(1) * BLOCK_E, num_edges, tl.num_programs(1) * BLOCK_E):
        rows = k + slot
        tl.store(pointer + rows[:, None] * D + c[None, :], zeros, mask=(rows < num_edges)[:, None] & c_ok[None, :])


@triton.jit
def forward_by_target(
    product, gated, from_source, from_target, scale, source, in_ptr, e_hat, mean, denominator, counts, partials,
    num_nodes, nodes_each, gated_stride, source_stride, target_stride, D: tl.constexpr, JOIN: tl.constexpr,
    STATISTICS: tl.constexpr, FAST: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The means, their denominators and, with ``STATISTICS``, the statistics of ê of each program. With ``JOIN``, the
    product is the library's: the node rows are added here and ê is written. Otherwise the product is ê."""
    program = tl.num_programs(1) - 1 - tl.program_id(1).to(tl.int64)  # the last nodes first
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    local = slot[:, None] * D + c[None, :]
    origin = tl.zeros([BLOCK_D], tl.float32)
    away = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    square = tl.zeros([BLOCK_E, BLOCK_D], tl.float32)
    first, last, begin, stop = _nodes_of(program, in_ptr, num_nodes, nodes_each)
    values = product if JOIN else e_hat
    next_j = tl.load(source + begin + slot, mask=begin + slot < stop, other=0).to(tl.int32)
    next_x = tl.load(values + begin * D + local, mask=(begin + slot < stop)[:, None] & c_ok[None, :], other=0.0)
    if STATISTICS and not JOIN:
        row = begin + 0 * c
        origin = tl.load(e_hat + row * D + c, mask=c_ok & (row < stop), other=0.0).to(tl.float32)
        if scale is not None:
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
            # The next tile begins where this one or its node ends; it may belong to another node.
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
                # Rounded as stored, so that the backward pass uses the same gate.
                x = (x + d.to(tl.float32) + t[None, :]).to(e_hat.dtype.element_ty)
                tl.store(e_hat + k * D + local, x, mask=ok)
                x = x.to(tl.float32)
            gate = tl.where(ok, _gate(x, FAST), 0.0)
            gate_sum += gate
            total += gate * b
            if STATISTICS:
                if scale is not None:
                    x *= tl.load(scale + rows, mask=row_ok, other=0.0).to(tl.float32)[:, None]
                if JOIN:  # noqa: SIM102
                    if k == begin:
                        origin = tl.sum(tl.where((slot == 0)[:, None], x, 0.0), 0)
                # Relative to a row of the program, so no digits cancel if the mean is large compared with the spread.
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
        tl.store(counts + program, count)  # every block of channels stores the same number
        tl.store(partials + program * D + c, origin + shift, mask=c_ok)
        tl.store(partials + (tl.num_programs(1) + program) * D + c, tl.where(squares < 0, 0.0, squares), mask=c_ok)


@triton.jit
def backward_by_target(
    grad_mean, grad_out, e_hat, gated, mean, denominator, scale, statistics, sums, norm_weight, norm_bias, source,
    in_ptr, grad_e_hat, grad_total, grad_target, grad_attr, num_nodes, num_edges, nodes_each, gated_stride,
    D: tl.constexpr, RESIDUAL: tl.constexpr, FAST: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The gradients of ê, of Σ σ b and of t. ``grad_out`` may be ``None``; with ``RESIDUAL`` it is copied to
    ``grad_attr``. ``sums`` ``[2, D]`` are the results of :func:`norm_backward_sums`, added up."""
    program = tl.num_programs(1) - 1 - tl.program_id(1).to(tl.int64)  # the last nodes first
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    if grad_out is not None and norm_weight is not None:
        center = tl.load(statistics + c, mask=c_ok, other=0.0)
        rstd = tl.load(statistics + D + c, mask=c_ok, other=0.0)
        inverse = tl.load(statistics + 2 * D + c, mask=c_ok, other=0.0)
        mean_grad = tl.load(sums + c, mask=c_ok, other=0.0) * inverse
        mean_slope = tl.load(sums + D + c, mask=c_ok, other=0.0) * inverse
        weight = tl.load(norm_weight + c, mask=c_ok, other=0.0).to(tl.float32)
        bias = tl.load(norm_bias + c, mask=c_ok, other=0.0).to(tl.float32)
    local = slot[:, None] * D + c[None, :]
    first, last, end, stop = _nodes_of(program, in_ptr, num_nodes, nodes_each)
    next_j = tl.load(source + end + slot, mask=end + slot < stop, other=0).to(tl.int32)
    in_front = (end + slot < stop)[:, None] & c_ok[None, :]
    next_x = tl.load(e_hat + end * D + local, mask=in_front, other=0.0)
    if grad_out is not None:
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
            if grad_out is not None:
                arriving = next_arriving
                next_arriving = tl.load(grad_out + after * D + local, mask=in_front, other=0.0)
                arriving = arriving.to(tl.float32)
                if RESIDUAL:
                    tl.store(grad_attr + k * D + local, arriving, mask=ok)
                if scale is not None:
                    factor = tl.load(scale + rows, mask=row_ok, other=0.0).to(tl.float32)[:, None]
                    x *= factor
                if norm_weight is not None:
                    x = (x - center[None, :]) * rstd[None, :]
                    arriving = tl.where(x * weight[None, :] + bias[None, :] > 0, arriving, 0.0)
                    arriving = (arriving - mean_grad[None, :] - x * mean_slope[None, :]) * (weight * rstd)[None, :]
                else:
                    arriving = tl.where(x > 0, arriving, 0.0)
                if scale is not None:
                    arriving *= factor
                grad += arriving
            grad = grad.to(grad_e_hat.dtype.element_ty)
            tl.store(grad_e_hat + k * D + local, grad, mask=ok)
            collected += tl.where(ok, grad.to(tl.float32), 0.0)
        tl.store(grad_target + here, tl.sum(collected, 0), mask=c_ok)
    real = tl.load(in_ptr + num_nodes)
    _zero_padding(grad_e_hat, real, num_edges, c, c_ok, D, BLOCK_E, BLOCK_D)
    if grad_out is not None and RESIDUAL:
        _zero_padding(grad_attr, real, num_edges, c, c_ok, D, BLOCK_E, BLOCK_D)


@triton.jit
def backward_by_source(
    grad_e_hat, e_hat, grad_total, out_target, out_order, out_ptr, grad_gated, grad_source, num_nodes, nodes_each,
    D: tl.constexpr, FAST: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The gradients of b and d."""
    program = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    c_ok = c < D
    slot = tl.arange(0, BLOCK_E)
    first, last, end, stop = _nodes_of(program, out_ptr, num_nodes, nodes_each)
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


@triton.jit
def finish_statistics(
    counts, partials, running_mean, running_var, momentum, statistics, new_running, num_partials, momentum_value, eps,
    D: tl.constexpr, TRAINING: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Merges the statistics of the programs (Chan, Golub and LeVeque); fewer than two rows keep the running ones.
    ``momentum`` is a tensor; if it is ``None``, ``momentum_value`` is used. ``new_running`` is ``[2, D]``."""
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
        if momentum is not None:
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
    e_hat, edge_attr, scale, statistics, norm_weight, norm_bias, in_ptr, out, num_nodes, num_numbers, D: tl.constexpr,
    RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """``e + ReLU(normalise(scale · ê))``, one number at a time; zero in padding."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    at = start + tl.arange(0, BLOCK)
    # Indexed by element, not by row, so that the compiler sees contiguous reads. Which values are read
    # does not depend on the number of real edges, to avoid waiting for that number.
    ok = at < num_numbers
    real = tl.load(in_ptr + num_nodes) * D
    place = (start % D).to(tl.int32) + tl.arange(0, BLOCK)  # 32 bits: a division by D for every number
    c = place % D
    x = tl.load(e_hat + at, mask=ok, other=0.0).to(tl.float32)
    if scale is not None:
        x *= tl.load(scale + start // D + place // D, mask=ok, other=0.0).to(tl.float32)
    if norm_weight is not None:
        slope = tl.load(statistics + D + c) * tl.load(norm_weight + c).to(tl.float32)
        x = (x - tl.load(statistics + c)) * slope + tl.load(norm_bias + c).to(tl.float32)
    x = tl.where(x > 0, x, tl.where(x == x, 0.0, x))  # NaN stays NaN, as in torch
    if RESIDUAL:
        x += tl.load(edge_attr + at, mask=ok, other=0.0).to(tl.float32)
    tl.store(out + at, tl.where(at < real, x, 0.0), mask=ok)


@triton.jit
def norm_backward_sums(
    grad_out, e_hat, scale, statistics, norm_weight, norm_bias, in_ptr, sums, num_nodes, edges_each, D: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Σ g and Σ g x̂ over the edges of a program, ``sums`` ``[P, 2, D]``; g is the gradient after the ReLU's mask, x̂ the
    normalised value."""
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
        if scale is not None:
            x *= tl.load(scale + rows, mask=row_ok, other=0.0).to(tl.float32)[:, None]
        x = (x - center[None, :]) * rstd[None, :]
        grad = tl.where(x * weight[None, :] + bias[None, :] > 0, grad, 0.0)
        plain += grad
        weighted += grad * x
    tl.store(sums + 2 * program * D + c, tl.sum(plain, 0), mask=c_ok)
    tl.store(sums + (2 * program + 1) * D + c, tl.sum(weighted, 0), mask=c_ok)


@triton.jit
def _block_of_weight(
    weight, i0: tl.constexpr, o0: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr, STRIDE_I: tl.constexpr,
    STRIDE_O: tl.constexpr, BI: tl.constexpr, BO: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``[BI, BO]`` of the transposed weight, with the summed index contiguous."""
    i, o = i0 + tl.arange(0, BI), o0 + tl.arange(0, BO)
    ok = (o < OUTER)[:, None] & (i < INNER)[None, :]
    block = tl.load(weight + o[:, None] * STRIDE_O + i[None, :] * STRIDE_I, mask=ok, other=0.0)
    return tl.trans(_rounded(block.to(COMPUTE), PRECISION))


@triton.jit
def _part_of_bias(bias, o0: tl.constexpr, OUTER: tl.constexpr, BO: tl.constexpr):
    o = o0 + tl.arange(0, BO)
    return tl.load(bias + o, mask=o < OUTER, other=0.0).to(tl.float32)


@triton.jit
def _beside_product(
    bias, from_source, from_target, added, slot, j, i, present, source_stride, target_stride, o0: tl.constexpr,
    OUTER: tl.constexpr, FORWARD: tl.constexpr, ADDED: tl.constexpr, BM: tl.constexpr, BO: tl.constexpr,
):  # fmt: skip
    """The terms added to the product in ``BO`` columns from ``o0`` on; ``bias`` belongs to these columns."""
    o = o0 + tl.arange(0, BO)
    ok = present[:, None] & (o < OUTER)[None, :]
    y = tl.zeros([BM, BO], tl.float32)
    if FORWARD:
        d = tl.load(from_source + j[:, None].to(tl.int64) * source_stride + o[None, :], mask=ok, other=0.0)
        t = tl.load(from_target + i[:, None].to(tl.int64) * target_stride + o[None, :], mask=ok, other=0.0)
        y = d.to(tl.float32) + t.to(tl.float32) + bias[None, :]
    if ADDED:
        y = tl.load(added + slot[:, None] * OUTER + o[None, :], mask=ok, other=0.0).to(tl.float32)
    return y


@triton.jit
def _store_rows(out, y, slot, inside, present, o0: tl.constexpr, OUTER: tl.constexpr, BO: tl.constexpr):
    o = o0 + tl.arange(0, BO)
    y = tl.where(inside[:, None], y, 0.0).to(out.dtype.element_ty)
    tl.store(out + slot[:, None] * OUTER + o[None, :], y, mask=present[:, None] & (o < OUTER)[None, :])


@triton.jit
def map_edges(
    x, weight, bias, from_source, from_target, source, target, added, in_ptr, out, num_nodes, num_edges, source_stride,
    target_stride, INNER: tl.constexpr, OUTER: tl.constexpr, STRIDE_I: tl.constexpr, STRIDE_O: tl.constexpr,
    FORWARD: tl.constexpr, ADDED: tl.constexpr, STAGES: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, I0: tl.constexpr, I1: tl.constexpr, O0: tl.constexpr, O1: tl.constexpr,
):  # fmt: skip
    """``x`` ``[E, I]`` times the weight ``[O, I]``, with strides, into ``out`` ``[E, O]``: zero in padding.

    With ``FORWARD``, bias ``[O]`` and node rows are added; otherwise edges are processed from the last to the first,
    because the last rows written are still in the cache. With ``ADDED``, ``added`` ``[E, O]`` is added. Both widths are
    split into two blocks, of which the second may be empty: ``I0`` and ``I1`` columns in, ``O0`` and ``O1`` out.
    """
    w00 = _block_of_weight(weight, 0, 0, INNER, OUTER, STRIDE_I, STRIDE_O, I0, O0, COMPUTE, PRECISION)
    if O1:
        w01 = _block_of_weight(weight, 0, O0, INNER, OUTER, STRIDE_I, STRIDE_O, I0, O1, COMPUTE, PRECISION)
    if I1:
        w10 = _block_of_weight(weight, I0, 0, INNER, OUTER, STRIDE_I, STRIDE_O, I1, O0, COMPUTE, PRECISION)
        if O1:
            w11 = _block_of_weight(weight, I0, O0, INNER, OUTER, STRIDE_I, STRIDE_O, I1, O1, COMPUTE, PRECISION)
    b0 = _part_of_bias(bias, 0, OUTER, O0) if FORWARD else bias
    b1 = _part_of_bias(bias, O0, OUTER, O1) if FORWARD and O1 > 0 else bias
    # Padding rows are read like others, to avoid waiting for the number of real rows; their results are zero.
    real = tl.load(in_ptr + num_nodes)
    slot = tl.arange(0, BM)
    tiles = tl.cdiv(num_edges, BM)
    zero = tl.program_id(1).to(tl.int64)  # makes sums 64-bit; a 64-bit loop would need forty more registers
    # With num_stages, a loop prefetches all its reads that many tiles ahead, including node rows and node numbers.
    for step in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=STAGES):
        first = (zero + (step if FORWARD else tiles - 1 - step)) * BM
        present = slot < num_edges - first
        inside = slot < real - first
        j = slot
        i = slot
        if FORWARD:
            j = tl.load(source + first + slot, mask=present, other=0).to(tl.int32)
            i = tl.load(target + first + slot, mask=present, other=0).to(tl.int32)
        # The added terms initialise the product, so they are loaded while the product waits for x.
        y = _beside_product(
            b0, from_source, from_target, added + first * OUTER, slot, j, i, present, source_stride, target_stride,
            0, OUTER, FORWARD, ADDED, BM, O0,
        )  # fmt: skip
        if O1:
            z = _beside_product(
                b1, from_source, from_target, added + first * OUTER, slot, j, i, present, source_stride,
                target_stride, O0, OUTER, FORWARD, ADDED, BM, O1,
            )  # fmt: skip
        x0 = _block_of_rows(x + first * INNER, slot, present, 0, INNER, I0, COMPUTE, PRECISION)
        if I1:
            x1 = _block_of_rows(x + first * INNER, slot, present, I0, INNER, I1, COMPUTE, PRECISION)
        y = tl.dot(x0, w00, y, input_precision=PRECISION)
        if I1:
            y = tl.dot(x1, w10, y, input_precision=PRECISION)
        _store_rows(out + first * OUTER, y, slot, inside, present, 0, OUTER, O0)
        if O1:
            z = tl.dot(x0, w01, z, input_precision=PRECISION)
            if I1:
                z = tl.dot(x1, w11, z, input_precision=PRECISION)
            _store_rows(out + first * OUTER, z, slot, inside, present, O0, OUTER, O1)
