"""The Triton kernel of sums over the rows of a matrix.

A program sums a part of the rows in a block of columns; the same kernel then sums the parts. Every sum has one order:
results do not vary between runs.

Letters: B matrices, R rows, D columns, P parts.
"""

# mypy: disable-error-code="no-untyped-def"

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from lrga.kernels.support import launch


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


@dataclass(frozen=True)
class Plan:
    """How a sum is divided: parts of the rows, rows and columns of a step, warps."""

    parts: int
    rows: int
    columns: int
    warps: int


ONE_LAUNCH = 1024  # rows up to which one launch, in narrow blocks, is faster than parts and their sum
ROWS_OF_PART, MOST_PARTS = 128, 512


def plan(rows: int, width: int) -> Plan:
    """Few rows: narrow blocks, so that many programs share the columns. Many: parts of the rows, and their sum."""
    if rows <= ONE_LAUNCH:
        step = max(16, triton.next_power_of_2(rows))  # many loads under way at once hide their latency
        return Plan(1, step, min(8, triton.next_power_of_2(width)), max(4, step // 128))
    parts = min(MOST_PARTS, triton.next_power_of_2(triton.cdiv(rows, ROWS_OF_PART)))
    return Plan(parts, ROWS_OF_PART, min(32, triton.next_power_of_2(width)), 8)


def launch_column_sum(x: Tensor, how: Plan | None = None) -> Tensor:
    """The sum over the rows of each matrix, ``[B, R, D]`` to ``[B, D]``, in float32 and then rounded to x's dtype."""
    matrices, rows, width = x.shape
    out = torch.empty(matrices, width, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    how = how or plan(rows, width)
    x = x if x.stride(2) == 1 and x.stride(1) >= width else x.contiguous()
    if how.parts > 1:
        parts = torch.empty(matrices, how.parts, width, dtype=torch.float32, device=x.device)
        _launch(x, parts, how)
        x, how = parts, Plan(1, max(16, triton.next_power_of_2(how.parts)), 16, 4)
    _launch(x, out, how)
    return out


def _launch(x: Tensor, out: Tensor, how: Plan) -> None:
    matrices, rows, width = x.shape
    grid = (how.parts, triton.cdiv(width, how.columns), matrices)
    launch(
        sum_rows_of_part, grid,
        x, out, rows, triton.cdiv(rows, how.parts), x.stride(0), STRIDE=x.stride(1), WIDTH=width, BR=how.rows,
        BD=how.columns, num_warps=how.warps,
    )  # fmt: skip
