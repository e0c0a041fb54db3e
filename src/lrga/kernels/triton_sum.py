r"""The Triton kernels of sums over the edges that end in a node. Their definition is :mod:`lrga.kernels.message`.

.. math::
    y_i = s_i \sum_{j \to i} w_{ji} \, t_j \, x_j

A program takes a few nodes and a block of channels and walks the edges of each, several at a time: all their rows are
under way at once, which is what hides the latency of the cache where x lies. The gradient of x is the same sum over the
edges that leave a node, so nothing is scattered, there are no atomics, and results do not vary between runs.

A node with very many edges would keep one program busy long after all others. Where one may exist (``split``), a first
kernel sums such nodes in chunks of :data:`CHUNK` edges, and the second adds these up. A chunk touches at most two nodes
with more than :data:`LONG` edges, the one that it begins in and the one that it ends in, hence two places.

Letters: N nodes, E edges, H heads, W = H·D columns.
"""

# mypy: disable-error-code="no-untyped-def"

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from lrga.kernels.support import launch

CHUNK = 1024
LONG = 2048  # at least CHUNK, so that no third such node lies inside a chunk
FEW = 1 << 15  # edges in all below which even one node with all of them takes no time to speak of


@triton.jit
def _sum_run(
    x, columns, order, weight, out_of, first, end, column, WIDTH: tl.constexpr, HEADS: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum over the edges ``first … end - 1`` in a block of columns."""
    total = tl.zeros([EDGES, BLOCK], tl.float32)
    for at in range(first, end, EDGES):
        edge = at + tl.arange(0, EDGES).to(tl.int64)
        real = edge < end
        row = edge
        if columns is not None:
            row = tl.load(columns + edge, mask=real, other=0)
        inside = real[:, None] & (column < WIDTH)[None, :]
        values = tl.load(x + row[:, None] * WIDTH + column[None, :], mask=inside, other=0.0).to(tl.float32)
        if weight is not None:
            place = edge
            if order is not None:
                place = tl.load(order + edge, mask=real, other=0)
            if HEADS == 1:
                values *= tl.load(weight + place, mask=real, other=0.0).to(tl.float32)[:, None]
            else:
                head = column // (WIDTH // HEADS)
                where = weight + place[:, None] * HEADS + head[None, :]
                values *= tl.load(where, mask=inside, other=0.0).to(tl.float32)
        if out_of is not None:
            values *= tl.load(out_of + row, mask=real, other=0.0).to(tl.float32)[:, None]
        total += values
    return tl.sum(total, 0)


@triton.jit
def _sum_long(
    x, columns, order, weight, out_of, ptr, rows, partial, num_rows, WIDTH: tl.constexpr, HEADS: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Partial sums of the nodes with more than ``LONG`` edges that a chunk of edges begins and ends in."""
    chunk = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = chunk * CHUNK
    end = tl.minimum(first + CHUNK, tl.load(ptr + num_rows))
    if first < end:
        here, there = first, end - 1
        if order is not None:
            here, there = tl.load(order + here), tl.load(order + there)
        row, last = tl.load(rows + here), tl.load(rows + there)
        begin, stop = tl.load(ptr + row), tl.load(ptr + row + 1)
        slot = partial + chunk * (2 * WIDTH) + column
        if stop - begin > LONG:
            stop = tl.minimum(stop, end)
            total = _sum_run(x, columns, order, weight, out_of, first, stop, column, WIDTH, HEADS, EDGES, BLOCK)
            tl.store(slot, total, mask=column < WIDTH)
        begin, stop = tl.load(ptr + last), tl.load(ptr + last + 1)
        if (last != row) & (stop - begin > LONG):
            total = _sum_run(x, columns, order, weight, out_of, begin, end, column, WIDTH, HEADS, EDGES, BLOCK)
            tl.store(slot + WIDTH, total, mask=column < WIDTH)


@triton.jit
def _sum_rows(
    x, columns, order, weight, into, out_of, ptr, partial, y, num_rows, WIDTH: tl.constexpr, HEADS: tl.constexpr,
    ROWS: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """The sums of ``ROWS`` nodes."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin = tl.program_id(0).to(tl.int64) * ROWS
    for row in range(begin, tl.minimum(begin + ROWS, num_rows)):
        first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        direct_end = end
        if partial is not None:
            direct_end = tl.where(end - first > LONG, first, end)
        total = _sum_run(x, columns, order, weight, out_of, first, direct_end, column, WIDTH, HEADS, EDGES, BLOCK)
        if partial is not None:
            chunks = tl.where(end - first > LONG, (end - 1) // CHUNK + 1, 0)
            pieces = tl.zeros([EDGES, BLOCK], tl.float32)
            for at in range(first // CHUNK, chunks, EDGES):
                chunk = at + tl.arange(0, EDGES).to(tl.int64)
                slot = chunk * 2 + tl.where(chunk * CHUNK >= first, 0, 1)
                inside = (chunk < chunks)[:, None] & (column < WIDTH)[None, :]
                pieces += tl.load(partial + slot[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
            total += tl.sum(pieces, 0)
        if into is not None:
            total *= tl.load(into + row).to(tl.float32)
        tl.store(y + row * WIDTH + column, total.to(y.dtype.element_ty), mask=column < WIDTH)


@triton.jit
def _dot_edges(
    x, y, source, target, into, out_of, end, dots, num_edges, DEPTH: tl.constexpr, HEADS: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """⟨x of the source, y of the target⟩ of a block of edges and one head, with both factors; zero past ``end``."""
    head = tl.program_id(1)
    edge = tl.program_id(0).to(tl.int64) * EDGES + tl.arange(0, EDGES)
    real = edge < tl.load(end)
    at_source, at_target = tl.load(source + edge, mask=real, other=0), tl.load(target + edge, mask=real, other=0)
    total = tl.zeros([EDGES], tl.float32)
    for begin in range(0, DEPTH, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        inside = real[:, None] & (column < DEPTH)[None, :]
        place = head * DEPTH + column[None, :]
        a = tl.load(x + at_source[:, None] * (HEADS * DEPTH) + place, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(y + at_target[:, None] * (HEADS * DEPTH) + place, mask=inside, other=0.0).to(tl.float32)
        total += tl.sum(a * b, 1)
    if into is not None:
        total *= tl.load(into + at_target, mask=real, other=0.0).to(tl.float32)
    if out_of is not None:
        total *= tl.load(out_of + at_source, mask=real, other=0.0).to(tl.float32)
    tl.store(dots + edge * HEADS + head, total.to(dots.dtype.element_ty), mask=edge < num_edges)


@triton.jit
def _spread_rows(
    y, target, end, values, num_edges, WIDTH: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The row of its target for each edge; zero past ``end``."""
    edge = tl.program_id(0).to(tl.int64) * EDGES + tl.arange(0, EDGES)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = edge < tl.load(end)
    row = tl.load(target + edge, mask=real, other=0)
    inside = (column < WIDTH)[None, :]
    value = tl.load(y + row[:, None] * WIDTH + column[None, :], mask=real[:, None] & inside, other=0.0)
    where = values + edge[:, None] * WIDTH + column[None, :]
    tl.store(where, value.to(values.dtype.element_ty), mask=(edge < num_edges)[:, None] & inside)


@dataclass(frozen=True)
class Plan:
    """How the work is divided: nodes of a program, edges of a step, columns of a block, warps."""

    rows: int
    edges: int
    block: int
    warps: int


def plan(width: int) -> Plan:
    """Blocks that waste few columns, about 16 numbers for each thread, one warp, one node to a program: the best of
    two dozen on an H200 at 7,600 nodes of 50 edges and 100 channels (``benchmarks/message.py --sweep``)."""
    block = block_of(width)
    return Plan(1, max(4, 512 // max(block, 32)), block, 1)


def block_of(width: int) -> int:
    """Columns of a block: those that waste least; 16 for each further block, which reads the edges again."""
    if width <= 32:
        return triton.next_power_of_2(max(width, 1))
    return min((128, 64, 32), key=lambda block: triton.cdiv(width, block) * (block + 16))


def may_be_long(num_edges: int, longest: int | None) -> bool:
    """Whether a node may have so many edges that they are worth dividing."""
    return num_edges > FEW if longest is None else longest > LONG


def launch_sum(
    x: Tensor,
    weight: Tensor | None,
    order: Tensor | None,
    into: Tensor | None,
    out_of: Tensor | None,
    ptr: Tensor,
    columns: Tensor | None,
    rows: Tensor,
    split: bool,
    dtype: torch.dtype,
    how: Plan | None = None,
) -> Tensor:
    """Rows of ``x`` ``[R, W]`` or ``[R, H, D]``, summed in the runs that ``ptr`` ``[N + 1]`` marks: ``[N, …]``.

    Args:
        x: What is summed.
        weight: Factor of each edge, ``[E]`` or ``[E, H]``.
        order: At which place of ``weight`` (and of ``rows``) the edges stand, ``[E]``; ``None`` is their own.
        into: Factor of each sum, ``[N]``.
        out_of: Factor of each row of x.
        ptr: Where the runs begin.
        columns: Which row of x each edge takes, ``[E]``; ``None`` is its own.
        rows: Which sum each edge belongs to, by place.
        split: Whether long runs are divided, see :func:`may_be_long`.
        dtype: Of the result.
        how: Division of the work, for measurements.
    """
    num_rows, num_edges = ptr.size(0) - 1, rows.size(0)
    y = torch.empty(num_rows, *x.shape[1:], dtype=dtype, device=x.device)
    if not y.numel():
        return y
    width = y.numel() // num_rows
    heads = x.size(1) if x.dim() == 3 else 1
    how = how or plan(width)
    x, weight, into, out_of = x.contiguous(), _dense(weight), _dense(into), _dense(out_of)
    blocks = triton.cdiv(width, how.block)
    sizes = {"WIDTH": width, "HEADS": heads, "EDGES": how.edges, "BLOCK": how.block, "num_warps": how.warps}
    sizes |= {"CHUNK": CHUNK, "LONG": LONG}
    partial = None
    if split:
        chunks = triton.cdiv(num_edges, CHUNK)
        partial = torch.empty(chunks, 2, width, device=x.device)
        launch(_sum_long, (chunks, blocks), x, columns, order, weight, out_of, ptr, rows, partial, num_rows, **sizes)
    grid = (triton.cdiv(num_rows, how.rows), blocks)
    launch(
        _sum_rows, grid,
        x, columns, order, weight, into, out_of, ptr, partial, y, num_rows, ROWS=how.rows, **sizes
    )  # fmt: skip
    return y


def _dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def launch_dots(
    x: Tensor,
    y: Tensor,
    source: Tensor,
    target: Tensor,
    into: Tensor | None,
    out_of: Tensor | None,
    in_ptr: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """⟨x of the source, y of the target⟩ times both factors for each edge, ``[E]`` or ``[E, H]``; zero for padding."""
    num_edges, depth = source.size(0), x.size(-1)
    heads = x.size(1) if x.dim() == 3 else 1
    dots = torch.empty(num_edges, *x.shape[1:-1], dtype=dtype, device=x.device)
    if not dots.numel():
        return dots
    block = min(128, triton.next_power_of_2(max(depth, 1)))
    edges = max(4, min(128, 2048 // block))
    launch(
        _dot_edges, (triton.cdiv(num_edges, edges), heads),
        x.contiguous(), y.contiguous(), source, target, _dense(into), _dense(out_of), in_ptr[-1:], dots, num_edges,
        DEPTH=depth, HEADS=heads, EDGES=edges, BLOCK=block, num_warps=2,
    )  # fmt: skip
    return dots


def launch_spread(y: Tensor, target: Tensor, in_ptr: Tensor, dtype: torch.dtype) -> Tensor:
    """The row of its target for each edge, ``[N, …]`` to ``[E, …]``; zero for padding."""
    num_edges = target.size(0)
    values = torch.empty(num_edges, *y.shape[1:], dtype=dtype, device=y.device)
    if not values.numel():
        return values
    width = values.numel() // num_edges
    block = block_of(width)
    edges = max(4, 2048 // max(block, 32))
    launch(
        _spread_rows, (triton.cdiv(num_edges, edges), triton.cdiv(width, block)),
        y.contiguous(), target, in_ptr[-1:], values, num_edges, WIDTH=width, EDGES=edges, BLOCK=block, num_warps=2,
    )  # fmt: skip
    return values
