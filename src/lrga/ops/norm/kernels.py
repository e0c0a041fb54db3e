"""The Triton kernels of batch normalisation. Their definition is :mod:`lrga.ops.norm.definition`.

Forward: programs compute mean and squared deviations of their rows by Welford's method (each row of a tile
separately, merged at the end), after subtracting the first row, so that a large mean loses no digits. The programs
that write the result first merge the parts; with many rows, one small kernel in between does that
once for all. Backward is split likewise, with the sums of the gradient and of the gradient times the normalised
value. Without atomics, results do not vary between runs.

Letters: R rows, D channels, P parts.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

from lrga.ops.attention.batched_kernels import _relu


@triton.jit
def _real(count, num_rows):
    """The number of real rows."""
    real = tl.cast(num_rows, tl.int64)
    if count is not None:
        real = tl.minimum(tl.load(count), real)
    return real


@triton.jit
def _load(x, row, column, end, WIDTH: tl.constexpr, STRIDE: tl.constexpr):
    """A tile of rows with stride ``STRIDE``, in float32; zero outside."""
    inside = (row < end)[:, None] & (column < WIDTH)[None, :]
    return tl.load(x + row[:, None] * STRIDE + column[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _origin(x, column, WIDTH: tl.constexpr, BEFORE: tl.constexpr):
    """The first row; means are stored relative to it."""
    value = tl.load(x + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    if BEFORE:
        value = _relu(value)
    return value


@triton.jit
def part_statistics(
    x, count, batches, part_mean, part_dev, num_rows, rows_of_part, WIDTH: tl.constexpr, BEFORE: tl.constexpr,
    BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Mean and sum of squared deviations of the rows of one part. The first program counts the batch."""
    part = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BD + tl.arange(0, BD)
    real = _real(count, num_rows)
    first = part * rows_of_part
    end = tl.maximum(tl.minimum(first + rows_of_part, real), first)
    origin = _origin(x, column, WIDTH, BEFORE)
    mean = tl.zeros([BR, BD], tl.float32)
    dev = tl.zeros([BR, BD], tl.float32)
    seen = 0.0
    for at in range(first, end, BR):
        row = at + tl.arange(0, BR)
        value = _load(x, row, column, end, WIDTH, WIDTH)
        if BEFORE:
            value = _relu(value)
        value -= origin[None, :]
        seen += 1.0
        delta = tl.where((row < end)[:, None], value - mean, 0.0)
        mean += delta / seen
        dev += delta * (value - mean)
    # Merge the rows of the tile: the number of values of each.
    own = tl.maximum((end - first - tl.arange(0, BR) + BR - 1) // BR, 0).to(tl.float32)[:, None]
    total = tl.maximum(end - first, 1).to(tl.float32)
    centre = tl.sum(own * mean, 0) / total
    apart = mean - centre[None, :]
    place = part * WIDTH + column
    tl.store(part_mean + place, centre, mask=column < WIDTH)
    tl.store(part_dev + place, tl.sum(dev + own * apart * apart, 0), mask=column < WIDTH)
    if batches is not None:  # noqa: SIM102  (this condition is evaluated at compile time, the other at run time)
        if (part + tl.program_id(1) == 0) & (real >= 2):
            tl.store(batches, tl.load(batches) + 1)


@triton.jit
def _parts_together(
    part_mean, part_dev, real, num_parts, rows_of_part, column, WIDTH: tl.constexpr, BP: tl.constexpr, BD: tl.constexpr
):  # fmt: skip
    """Mean and sum of squared deviations of all rows."""
    total = tl.zeros([BP, BD], tl.float32)
    for at in range(0, num_parts, BP):
        part = at + tl.arange(0, BP).to(tl.int64)
        own = tl.minimum(tl.maximum(real - part * rows_of_part, 0), rows_of_part).to(tl.float32)
        total += own[:, None] * _load(part_mean, part, column, num_parts, WIDTH, WIDTH)
    mean = tl.sum(total, 0) / tl.maximum(real, 1).to(tl.float32)
    dev = tl.zeros([BP, BD], tl.float32)
    for at in range(0, num_parts, BP):
        part = at + tl.arange(0, BP).to(tl.int64)
        own = tl.minimum(tl.maximum(real - part * rows_of_part, 0), rows_of_part).to(tl.float32)
        apart = _load(part_mean, part, column, num_parts, WIDTH, WIDTH) - mean[None, :]
        dev += _load(part_dev, part, column, num_parts, WIDTH, WIDTH) + own[:, None] * apart * apart
    return mean, tl.sum(dev, 0)


@triton.jit
def _statistics(
    x, part_mean, part_dev, running_mean, running_var, batches, kept, real, num_parts, rows_of_part, momentum, eps,
    column, is_first, WIDTH: tl.constexpr, BEFORE: tl.constexpr, TRAINING: tl.constexpr, BP: tl.constexpr,
    BD: tl.constexpr,
):  # fmt: skip
    """Mean and 1/√(variance + ε) for the normalisation; the first program stores them and the running statistics."""
    inside = column < WIDTH
    mean = tl.load(running_mean + column, mask=inside, other=0.0).to(tl.float32)
    var = tl.load(running_var + column, mask=inside, other=1.0).to(tl.float32)
    if TRAINING:
        own_mean, dev = _parts_together(part_mean, part_dev, real, num_parts, rows_of_part, column, WIDTH, BP, BD)
        own_mean += _origin(x, column, WIDTH, BEFORE)
        if real >= 2:
            n = real.to(tl.float32)
            own_unbiased = dev / (n - 1.0)
            if is_first:
                share = momentum
                if batches is not None:
                    share = 1.0 / tl.load(batches).to(tl.float32)
                new_mean, new_var = mean + share * (own_mean - mean), var + share * (own_unbiased - var)
                tl.store(running_mean + column, new_mean.to(running_mean.dtype.element_ty), mask=inside)
                tl.store(running_var + column, new_var.to(running_var.dtype.element_ty), mask=inside)
            mean, var = own_mean, dev / n
    inverse = 1.0 / tl.sqrt(var + eps)
    if is_first:
        tl.store(kept + column, mean, mask=inside)
        tl.store(kept + WIDTH + column, inverse, mask=inside)
    return mean, inverse


@triton.jit
def whole_statistics(
    x, part_mean, part_dev, running_mean, running_var, batches, kept, count, num_rows, num_parts, rows_of_part,
    momentum, eps, WIDTH: tl.constexpr, BEFORE: tl.constexpr, TRAINING: tl.constexpr, BP: tl.constexpr,
    BD: tl.constexpr,
):  # fmt: skip
    """The statistics of all rows, computed once for all following programs."""
    column = tl.program_id(0) * BD + tl.arange(0, BD)
    _statistics(
        x, part_mean, part_dev, running_mean, running_var, batches, kept, _real(count, num_rows), num_parts,
        rows_of_part, momentum, eps, column, tl.program_id(0) >= 0, WIDTH, BEFORE, TRAINING, BP, BD,
    )  # fmt: skip


@triton.jit
def normalize_rows(
    x, weight, bias, residual, y, part_mean, part_dev, running_mean, running_var, batches, kept, count, num_rows,
    num_parts, rows_of_part, momentum, eps, WIDTH: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr,
    TRAINING: tl.constexpr, WHOLE: tl.constexpr, BP: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """A tile of the result."""
    row = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    column = tl.program_id(1) * BD + tl.arange(0, BD)
    inside = column < WIDTH
    real = _real(count, num_rows)
    value = _load(x, row, column, real, WIDTH, WIDTH)  # loaded while the statistics are merged
    if WHOLE:
        mean = tl.load(kept + column, mask=inside, other=0.0)
        inverse = tl.load(kept + WIDTH + column, mask=inside, other=0.0)
    else:
        mean, inverse = _statistics(
            x, part_mean, part_dev, running_mean, running_var, batches, kept, real, num_parts, rows_of_part, momentum,
            eps, column, tl.program_id(0) == 0, WIDTH, BEFORE, TRAINING, BP, BD,
        )  # fmt: skip
    if BEFORE:
        value = _relu(value)
    value = (value - mean[None, :]) * inverse[None, :]
    if weight is not None:
        value *= tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    if bias is not None:
        value += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    if AFTER == "relu":
        value = _relu(value)
    if AFTER == "elu":
        value = tl.where(value > 0.0, value, tl.exp(tl.minimum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)) - 1.0)
    value = tl.where((row < real)[:, None], value, 0.0)
    if residual is not None:
        value += _load(residual, row, column, num_rows, WIDTH, WIDTH)
    where = y + row[:, None] * WIDTH + column[None, :]
    tl.store(where, value.to(y.dtype.element_ty), mask=(row < num_rows)[:, None] & inside[None, :])


@triton.jit
def _gradient_tile(
    x, grad, mean, inverse, weight, bias, row, column, end, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    BEFORE: tl.constexpr, AFTER: tl.constexpr,
):  # fmt: skip
    """The normalised values of a tile and their gradient, without the weight."""
    value = _load(x, row, column, end, WIDTH, WIDTH)
    if BEFORE:
        value = _relu(value)
    value = (value - mean[None, :]) * inverse[None, :]
    upstream = _load(grad, row, column, end, WIDTH, STRIDE)
    if AFTER != "":
        affine = value
        if weight is not None:
            affine *= tl.load(weight + column, mask=column < WIDTH, other=0.0).to(tl.float32)[None, :]
        if bias is not None:
            affine += tl.load(bias + column, mask=column < WIDTH, other=0.0).to(tl.float32)[None, :]
        if AFTER == "relu":
            upstream = tl.where(affine > 0.0, upstream, 0.0)
        else:
            upstream *= tl.exp(tl.minimum(affine, 0.0, propagate_nan=tl.PropagateNan.ALL))  # of ELU
    return value, upstream


@triton.jit
def part_gradients(
    x, grad, kept, weight, bias, count, part_bias, part_weight, num_rows, rows_of_part, WIDTH: tl.constexpr,
    STRIDE: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Sums of the gradient, and of the gradient times the normalised value, over the rows of one part."""
    part = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BD + tl.arange(0, BD)
    mean = tl.load(kept + column, mask=column < WIDTH, other=0.0)
    inverse = tl.load(kept + WIDTH + column, mask=column < WIDTH, other=0.0)
    first = part * rows_of_part
    end = tl.minimum(first + rows_of_part, _real(count, num_rows))
    total = tl.zeros([BR, BD], tl.float32)
    times = tl.zeros([BR, BD], tl.float32)
    for at in range(first, end, BR):
        row = at + tl.arange(0, BR)
        value, upstream = _gradient_tile(
            x, grad, mean, inverse, weight, bias, row, column, end, WIDTH, STRIDE, BEFORE, AFTER
        )  # fmt: skip
        total += upstream
        times += upstream * value
    tl.store(part_bias + part * WIDTH + column, tl.sum(total, 0), mask=column < WIDTH)
    tl.store(part_weight + part * WIDTH + column, tl.sum(times, 0), mask=column < WIDTH)


@triton.jit
def _sum_parts(parts, num_parts, column, WIDTH: tl.constexpr, BP: tl.constexpr, BD: tl.constexpr):
    total = tl.zeros([BP, BD], tl.float32)
    for at in range(0, num_parts, BP):
        total += _load(parts, at + tl.arange(0, BP).to(tl.int64), column, num_parts, WIDTH, WIDTH)
    return tl.sum(total, 0)


@triton.jit
def whole_gradients(part_bias, part_weight, sums, num_parts, WIDTH: tl.constexpr, BP: tl.constexpr, BD: tl.constexpr):
    """The gradients of bias and weight."""
    column = tl.program_id(0) * BD + tl.arange(0, BD)
    tl.store(sums + column, _sum_parts(part_bias, num_parts, column, WIDTH, BP, BD), mask=column < WIDTH)
    tl.store(sums + WIDTH + column, _sum_parts(part_weight, num_parts, column, WIDTH, BP, BD), mask=column < WIDTH)


@triton.jit
def gradient_rows(
    x, grad, kept, weight, bias, count, part_bias, part_weight, sums, grad_x, num_rows, num_parts, WIDTH: tl.constexpr,
    STRIDE: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, TRAINING: tl.constexpr, WHOLE: tl.constexpr,
    BP: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """A tile of the gradient of x; the first program stores those of bias and weight."""
    row = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    column = tl.program_id(1) * BD + tl.arange(0, BD)
    inside = column < WIDTH
    real = _real(count, num_rows)
    if WHOLE:
        total = tl.load(sums + column, mask=inside, other=0.0)
        times = tl.load(sums + WIDTH + column, mask=inside, other=0.0)
    else:
        total = _sum_parts(part_bias, num_parts, column, WIDTH, BP, BD)
        times = _sum_parts(part_weight, num_parts, column, WIDTH, BP, BD)
        if tl.program_id(0) == 0:
            tl.store(sums + column, total, mask=inside)
            tl.store(sums + WIDTH + column, times, mask=inside)
    mean = tl.load(kept + column, mask=inside, other=0.0)
    inverse = tl.load(kept + WIDTH + column, mask=inside, other=0.0)
    value, upstream = _gradient_tile(
        x, grad, mean, inverse, weight, bias, row, column, real, WIDTH, STRIDE, BEFORE, AFTER
    )  # fmt: skip
    if TRAINING:
        share = tl.where(real >= 2, 1.0 / tl.maximum(real, 1).to(tl.float32), 0.0)
        upstream -= (total[None, :] + value * times[None, :]) * share
    factor = inverse
    if weight is not None:
        factor *= tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    result = upstream * factor[None, :]
    if BEFORE:
        result = tl.where(_load(x, row, column, real, WIDTH, WIDTH) > 0.0, result, 0.0)
    result = tl.where((row < real)[:, None], result, 0.0)
    where = grad_x + row[:, None] * WIDTH + column[None, :]
    tl.store(where, result.to(grad_x.dtype.element_ty), mask=(row < num_rows)[:, None] & inside[None, :])


@triton.jit
def unit_rows(x, grad, y, num_rows, eps, WIDTH: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """Rows divided by their length, at least ``eps``; given the gradient of that, the gradient of x."""
    row = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    column = tl.arange(0, BD)
    value = _load(x, row, column, num_rows, WIDTH, WIDTH)
    length = tl.sqrt(tl.sum(value * value, 1))
    divisor = tl.maximum(length, eps, propagate_nan=tl.PropagateNan.ALL)[:, None]
    value = value / divisor
    if grad is not None:
        upstream = _load(grad, row, column, num_rows, WIDTH, WIDTH)
        along = tl.where(length < eps, 0.0, tl.sum(upstream * value, 1))
        value = (upstream - value * along[:, None]) / divisor
    where = y + row[:, None] * WIDTH + column[None, :]
    tl.store(where, value, mask=(row < num_rows)[:, None] & (column < WIDTH)[None, :])
