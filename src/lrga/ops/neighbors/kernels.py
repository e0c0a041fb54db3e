r"""Triton kernels of sums and maxima over the incoming edges of a node (see :mod:`lrga.ops.neighbors.reduce`), and of
the edges of a padded batch (defined in :mod:`lrga.ops.neighbors.batch_layout`).

.. math::
    y_i = s_i \sum_{j \to i} w_{ji} \, t_j \, x_j

A program has a node and a block of channels and iterates over its edges, several at a time: their rows are loaded at
once, which hides the latency of the cache that holds x. The gradient of x is the same sum over the
outgoing edges of a node, so nothing is scattered, there are no atomics, and results do not vary between runs.

A node with very many edges would keep one program busy long after all others. If one may exist (``split``), a first
kernel sums such nodes in chunks of ``CHUNK`` edges, and the second adds these up. A chunk touches at most two nodes
with more than ``MAX_RUN`` edges, the ones at its beginning and at its end, so it has two partial sums.

A maximum counts how many neighbours share it. The gradient of a source is then a sum over its outgoing edges; each
adds its share of the target's gradient if the source reaches the maximum there.

Letters: N nodes, E edges, H heads, W = H·D columns.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl


@triton.jit
def _sum_run(
    x, columns, order, weight, src_scale, first, end, column, WIDTH: tl.constexpr, HEADS: tl.constexpr,
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
        if src_scale is not None:
            values *= tl.load(src_scale + row, mask=real, other=0.0).to(tl.float32)[:, None]
        total += values
    return tl.sum(total, 0)


@triton.jit
def _sum_long(
    x, columns, order, weight, src_scale, ptr, rows, partial, num_rows, WIDTH: tl.constexpr, HEADS: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, MAX_RUN: tl.constexpr,
):  # fmt: skip
    """Partial sums of the nodes with more than ``MAX_RUN`` edges that a chunk of edges begins and ends in."""
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
        if stop - begin > MAX_RUN:
            stop = tl.minimum(stop, end)
            total = _sum_run(x, columns, order, weight, src_scale, first, stop, column, WIDTH, HEADS, EDGES, BLOCK)
            tl.store(slot, total, mask=column < WIDTH)
        begin, stop = tl.load(ptr + last), tl.load(ptr + last + 1)
        if (last != row) & (stop - begin > MAX_RUN):
            total = _sum_run(x, columns, order, weight, src_scale, begin, end, column, WIDTH, HEADS, EDGES, BLOCK)
            tl.store(slot + WIDTH, total, mask=column < WIDTH)


@triton.jit
def _sum_rows(
    x, columns, order, weight, dst_scale, src_scale, ptr, partial, y, WIDTH: tl.constexpr, HEADS: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, MAX_RUN: tl.constexpr,
):  # fmt: skip
    """The sum of a node."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
    direct_end = end
    if partial is not None:
        direct_end = tl.where(end - first > MAX_RUN, first, end)
    total = _sum_run(x, columns, order, weight, src_scale, first, direct_end, column, WIDTH, HEADS, EDGES, BLOCK)
    if partial is not None:
        chunks = tl.where(end - first > MAX_RUN, (end - 1) // CHUNK + 1, 0)
        pieces = tl.zeros([EDGES, BLOCK], tl.float32)
        for at in range(first // CHUNK, chunks, EDGES):
            chunk = at + tl.arange(0, EDGES).to(tl.int64)
            slot = chunk * 2 + tl.where(chunk * CHUNK >= first, 0, 1)
            inside = (chunk < chunks)[:, None] & (column < WIDTH)[None, :]
            pieces += tl.load(partial + slot[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
        total += tl.sum(pieces, 0)
    if dst_scale is not None:
        total *= tl.load(dst_scale + row).to(tl.float32)
    tl.store(y + row * WIDTH + column, total.to(y.dtype.element_ty), mask=column < WIDTH)


@triton.jit
def _dot_edges(
    x, y, source, target, dst_scale, src_scale, end, dots, num_edges, DEPTH: tl.constexpr, HEADS: tl.constexpr,
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
    if dst_scale is not None:
        total *= tl.load(dst_scale + at_target, mask=real, other=0.0).to(tl.float32)
    if src_scale is not None:
        total *= tl.load(src_scale + at_source, mask=real, other=0.0).to(tl.float32)
    tl.store(dots + edge * HEADS + head, total.to(dots.dtype.element_ty), mask=edge < num_edges)


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _max_rows(x, source, ptr, y, ties, WIDTH: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr):
    """Maxima of a node, zero without edges, and the number of edges that reach them, at least 1."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
    highest = tl.full([EDGES, BLOCK], -float("inf"), tl.float32)
    times = tl.zeros([EDGES, BLOCK], tl.float32)
    for at in range(first, end, EDGES):
        edge = at + tl.arange(0, EDGES).to(tl.int64)
        j = tl.load(source + edge, mask=edge < end, other=0)
        inside = (edge < end)[:, None] & (column < WIDTH)[None, :]
        value = tl.load(x + j[:, None] * WIDTH + column[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        times = tl.where(value > highest, 0.0, times) + tl.where((value >= highest) & inside, 1.0, 0.0)
        highest = _larger(highest, value)
    top = tl.reduce(highest, 0, _larger)
    count = tl.sum(tl.where(highest == top[None, :], times, 0.0), 0)
    top = tl.where(end > first, top, 0.0)
    where = row * WIDTH + column
    tl.store(y + where, top.to(y.dtype.element_ty), mask=column < WIDTH)
    tl.store(ties + where, tl.maximum(count, 1.0), mask=column < WIDTH)


@triton.jit
def _max_gradient_rows(x, y, share, target, ptr, grad, WIDTH: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of a source."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
    own = tl.load(x + row * WIDTH + column, mask=column < WIDTH, other=0.0)
    total = tl.zeros([EDGES, BLOCK], tl.float32)
    for at in range(first, end, EDGES):
        edge = at + tl.arange(0, EDGES).to(tl.int64)
        i = tl.load(target + edge, mask=edge < end, other=0)
        inside = (edge < end)[:, None] & (column < WIDTH)[None, :]
        where = i[:, None] * WIDTH + column[None, :]
        top = tl.load(y + where, mask=inside, other=0.0)
        part = tl.load(share + where, mask=inside, other=0.0)
        nothing = tl.where(top == top, 0.0, top.to(tl.float32))  # NaN maxima give NaN
        total += tl.where(top == own[None, :], part, nothing)
    result = tl.sum(total, 0).to(grad.dtype.element_ty)
    tl.store(grad + row * WIDTH + column, result, mask=column < WIDTH)


@triton.jit
def _find(place, inside, begins, shift, graphs, column: tl.constexpr, STEPS: tl.constexpr):
    """Returns the numbers of real nodes and of real edges and, for each node (``column`` 0) or edge (1), its graph (the
    number of graphs that end at or before it), whether it is real, and its row in the set."""
    real_nodes = tl.load(begins + 2 * graphs)
    real_edges = tl.load(begins + 2 * graphs + 1)
    low = place * 0
    high = low + graphs
    for _ in range(STEPS):
        middle = (low + high) // 2
        open = low < high
        end = tl.load(begins + 2 * (middle + 1) + column, mask=open, other=0)
        right = open & (end <= place)
        high = tl.where(open & (end > place), middle, high)
        low = tl.where(right, middle + 1, low)
    real = inside & (place < (real_edges if column else real_nodes))
    return real_nodes, real_edges, low, real, place + tl.load(shift + 2 * low + column, mask=real, other=0)


@triton.jit
def _nodes_kernel(
    begins, shift, in_start, out_start, graph_out, row_out, in_ptr, out_ptr, nodes, graphs, spare, STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Graph and row of each node, and the start of its edges in both orders."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place <= nodes
    _, real_edges, graph, real, row = _find(place, inside, begins, shift, graphs, 0, STEPS)
    back = tl.load(shift + 2 * graph + 1, mask=real, other=0)
    into = tl.load(in_start + row, mask=real, other=0) - back
    out_of = tl.load(out_start + row, mask=real, other=0) - back
    tl.store(graph_out + place, graph, mask=inside)
    tl.store(row_out + place, tl.where(real, row, spare), mask=inside)
    tl.store(in_ptr + place, tl.where(real, into, real_edges), mask=inside)
    tl.store(out_ptr + place, tl.where(real, out_of, real_edges), mask=inside)


@triton.jit
def _edges_kernel(
    begins, shift, source, target, order, row_out, source_out, target_out, order_out, nodes, edges, graphs, spare,
    STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Row, source, target and position by source of each edge."""
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = number < edges
    real_nodes, real_edges, graph, real, row = _find(number, inside, begins, shift, graphs, 1, STEPS)
    first_node = tl.load(begins + 2 * graph, mask=real, other=0)
    first_edge = tl.load(begins + 2 * graph + 1, mask=real, other=0)
    begin = first_node + tl.load(source + row, mask=real, other=0).to(tl.int64)
    end = first_node + tl.load(target + row, mask=real, other=0).to(tl.int64)
    at = first_edge + tl.load(order + row, mask=real, other=0).to(tl.int64)
    padding = tl.maximum(edges - real_edges, 1)
    beyond = real_nodes + tl.maximum(number - real_edges, 0) * (nodes - real_nodes) // padding
    tl.store(row_out + number, tl.where(real, row, spare), mask=inside)
    tl.store(source_out + number, tl.where(real, begin, beyond), mask=inside)
    tl.store(target_out + number, tl.where(real, end, beyond), mask=inside)
    tl.store(order_out + number, tl.where(real, at, number), mask=inside)
