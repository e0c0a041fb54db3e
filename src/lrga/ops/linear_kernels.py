"""The Triton kernel of sums over the rows of a matrix.

A program sums a part of the rows in a block of columns; the same kernel then sums the parts. The order is fixed, so
results do not vary between runs.

Letters: B matrices, R rows, D columns, P parts.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl


@triton.jit
def sum_rows_of_part(
    x, out, num_rows, rows_of_part, stride_of_matrix, STRIDE: tl.constexpr, WIDTH: tl.constexpr, BR: tl.constexpr,
    BD: tl.constexpr,
):  # fmt: skip
    """The sum over a part of the rows, ``x [B, R, D]`` to ``out [B, P, D]``, in a block of columns."""
    part, matrix = tl.program_id(0), tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * BD + tl.arange(0, BD)
    first = part.to(tl.int64) * rows_of_part
    end = tl.minimum(first + rows_of_part, num_rows)
    base = x + matrix * stride_of_matrix + column[None, :]
    total = tl.zeros([BR, BD], tl.float32)
    for at in range(first, end, BR):
        row = at + tl.arange(0, BR).to(tl.int64)
        inside = (row < end)[:, None] & (column < WIDTH)[None, :]
        total += tl.load(base + row[:, None] * STRIDE, mask=inside, other=0.0).to(tl.float32)
    where = out + (matrix * tl.num_programs(0) + part) * WIDTH + column
    tl.store(where, tl.sum(total, 0).to(out.dtype.element_ty), mask=column < WIDTH)
