"""The Triton kernel of sums over the rows of each category, the gradient of an embedding of few categories.

PyTorch sorts the categories first, which takes longer than a small network's layer. Here every program walks its rows
once for each category and loads those that belong to it. The parts are then summed: the order is always the same.

Letters: R rows, C categories, D columns, P parts.
"""

# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from lrga.kernels.support import launch
from lrga.kernels.triton_columns import launch_column_sum

ROWS = 64  # of a part, at least
MOST_PARTS = 512


@triton.jit
def sum_categories(
    x, index, parts, num_rows, rows_of_part, CATEGORIES: tl.constexpr, STRIDE: tl.constexpr, WIDTH: tl.constexpr,
    BR: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The sums over a part of the rows, ``parts [P, C, D]``, in a block of columns."""
    part = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BD + tl.arange(0, BD)
    first = part * rows_of_part
    end = tl.minimum(first + rows_of_part, num_rows)
    for category in range(CATEGORIES):
        total = tl.zeros([BR, BD], tl.float32)
        for at in range(first, end, BR):
            row = at + tl.arange(0, BR).to(tl.int64)
            own = tl.load(index + row, mask=row < end, other=-1) == category
            inside = own[:, None] & (column < WIDTH)[None, :]
            total += tl.load(x + row[:, None] * STRIDE + column[None, :], mask=inside, other=0.0).to(tl.float32)
        where = parts + (part * CATEGORIES + category) * WIDTH + column
        tl.store(where, tl.sum(total, 0), mask=column < WIDTH)


def launch_category_sums(x: Tensor, index: Tensor, categories: int) -> Tensor:
    """Rows of ``x [R, D]`` summed by category, ``index [R]``, to ``[C, D]``; in float32, then x's dtype."""
    rows, width = x.shape
    if not rows or not width or not categories:
        return torch.zeros(categories, width, dtype=x.dtype, device=x.device)
    x = x if x.stride(1) == 1 and x.stride(0) >= width else x.contiguous()
    rows_of_part = max(ROWS, triton.cdiv(triton.cdiv(rows, MOST_PARTS), ROWS) * ROWS)
    number = triton.cdiv(rows, rows_of_part)
    parts = torch.empty(1, number, categories * width, dtype=torch.float32, device=x.device)
    columns = min(64, triton.next_power_of_2(width))
    launch(
        sum_categories, (number, triton.cdiv(width, columns)),
        x, index.contiguous(), parts, rows, rows_of_part, CATEGORIES=categories, STRIDE=x.stride(0), WIDTH=width,
        BR=ROWS, BD=columns, num_warps=4,
    )  # fmt: skip
    return launch_column_sum(parts).view(categories, width).to(x.dtype)
