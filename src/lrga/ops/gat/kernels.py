r"""The Triton kernels of GAT. Their definition is :mod:`lrga.ops.gat.definition`.

A program processes a group of heads of one node, all heads if they are not too wide: the row of a neighbour and
the scores of its heads are then contiguous reads. Forward, it iterates over the incoming edges, several at a time,
and adds up :math:`e^{s - m}` and its products with the sources, where :math:`m` is the largest score so far: a larger
one rescales the sums so far. The logarithm of the sum, :math:`\ell_i`, is stored with the result. Backward, with
:math:`\delta_i = \langle g_i, y_i \rangle`, it iterates over the outgoing edges of a source with

.. math::
    \alpha_{ji} = e^{\mathrm{score}_{ji} - \ell_i}, \qquad
    \mathrm{d}x_j = \sum_i \alpha_{ji} g_i, \qquad
    \mathrm{d}\,\mathrm{score}_{ji} = \alpha_{ji} (\langle g_i, x_j \rangle - \delta_i),

and writes the last one for each edge, to be summed by target. Nodes with very many edges are not split between
programs. The terms s and t of the scores are computed a few nodes at a time; backward, a program has a part of the
nodes and its own sums of the gradients of both vectors. Without atomics, results do not vary between runs.

Letters: N nodes, E edges, H heads, D channels of a head, P parts.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl


@triton.jit
def heads_of_program(GROUP: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr, HEADS: tl.constexpr):
    """The heads of this program, their columns in a row, and the masks of both."""
    head = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    column = tl.arange(0, BLOCK)
    place = head[:, None] * DEPTH + column[None, :]
    return head, head < HEADS, place, (head < HEADS)[:, None] & (column < DEPTH)[None, :]


@triton.jit
def of_nodes(terms, node, head, real, HEADS: tl.constexpr):
    """One number per node and head, ``[EDGES, GROUP]`` in float32; zero outside."""
    return tl.load(terms + node[:, None] * HEADS + head[None, :], mask=real, other=0.0).to(tl.float32)


@triton.jit
def rows_of_nodes(x, node, place, real, inside, WIDTH: tl.constexpr):
    """The rows of some nodes, ``[EDGES, GROUP, BLOCK]`` in float32; zero outside."""
    where = x + node[:, None, None] * WIDTH + place[None, :, :]
    return tl.load(where, mask=real[:, None, None] & inside[None, :, :], other=0.0).to(tl.float32)


@triton.jit
def _attend_rows(
    x, by_source, by_target, source, ptr, y, log_total, slope, DEPTH: tl.constexpr, HEADS: tl.constexpr,
    GROUP: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A group of heads of one node. Each of the ``EDGES`` processed at a time has its own largest score."""
    row = tl.program_id(0).to(tl.int64)
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
    own = tl.load(by_target + row * HEADS + head, mask=is_head, other=0.0).to(tl.float32)
    top = tl.full([EDGES, GROUP], -float("inf"), tl.float32)
    total = tl.zeros([EDGES, GROUP], tl.float32)
    sums = tl.zeros([EDGES, GROUP, BLOCK], tl.float32)
    step = tl.arange(0, EDGES).to(tl.int64)
    j = tl.load(source + first + step, mask=first + step < end, other=0)
    for at in range(first, end, EDGES):
        edge = at + step
        real = edge < end
        following = tl.load(source + edge + EDGES, mask=edge + EDGES < end, other=0)  # prefetched
        counted = real[:, None] & is_head[None, :]
        raw = of_nodes(by_source, j, head, counted, HEADS) + own[None, :]
        score = tl.where(counted, tl.where(raw > 0.0, raw, raw * slope), -float("inf"))
        higher = tl.maximum(top, score)
        shift = tl.where(higher == -float("inf"), 0.0, higher)  # avoids inf - inf while there is no edge yet
        weight, shrink = tl.exp(score - shift), tl.exp(top - shift)
        values = rows_of_nodes(x, j, place, real, inside, HEADS * DEPTH)
        sums = sums * shrink[:, :, None] + weight[:, :, None] * values
        total = total * shrink + weight
        top, j = higher, following
    highest = tl.max(top, 0)
    shrink = tl.exp(top - tl.where(highest == -float("inf"), 0.0, highest)[None, :])
    whole = tl.where(is_head & (end > first), tl.sum(total * shrink, 0), 1.0)
    result = tl.sum(sums * shrink[:, :, None], 0) / whole[:, None]
    tl.store(y + row * (HEADS * DEPTH) + place, result.to(y.dtype.element_ty), mask=inside)
    tl.store(log_total + row * HEADS + head, tl.where(end > first, highest + tl.log(whole), 0.0), mask=is_head)


@triton.jit
def dot_rows(
    x, y, result, num_rows, DEPTH: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The dot products of the rows of x and y for a group of heads of ``ROWS`` nodes."""
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = row < num_rows
    left = rows_of_nodes(x, row, place, real, inside, HEADS * DEPTH)
    right = rows_of_nodes(y, row, place, real, inside, HEADS * DEPTH)
    where, counted = row[:, None] * HEADS + head[None, :], real[:, None] & is_head[None, :]
    tl.store(result + where, tl.sum(left * right, 2), mask=counted)


@triton.jit
def _attend_gradient_rows(
    x, grad, by_source, by_target, log_total, delta, target, order, ptr, grad_x, grad_source, grad_scores, slope,
    DEPTH: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A group of heads of one source: gradients of x, of the source's score terms and of the score of each edge."""
    row = tl.program_id(0).to(tl.int64)
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    first, end = tl.load(ptr + row), tl.load(ptr + row + 1)
    own = tl.load(by_source + row * HEADS + head, mask=is_head, other=0.0).to(tl.float32)
    mine = tl.load(x + row * (HEADS * DEPTH) + place, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros([EDGES, GROUP], tl.float32)
    sums = tl.zeros([EDGES, GROUP, BLOCK], tl.float32)
    step = tl.arange(0, EDGES).to(tl.int64)
    i = tl.load(target + first + step, mask=first + step < end, other=0)
    for at in range(first, end, EDGES):
        edge = at + step
        real = edge < end
        following = tl.load(target + edge + EDGES, mask=edge + EDGES < end, other=0)
        at_edge = tl.load(order + edge, mask=real, other=0)
        counted = real[:, None] & is_head[None, :]
        upstream = rows_of_nodes(grad, i, place, real, inside, HEADS * DEPTH)
        raw = of_nodes(by_target, i, head, counted, HEADS) + own[None, :]
        score = tl.where(raw > 0.0, raw, raw * slope) - of_nodes(log_total, i, head, counted, HEADS)
        weight = tl.exp(tl.where(counted, score, -float("inf")))
        sums += weight[:, :, None] * upstream
        change = tl.sum(upstream * mine[None, :, :], 2) - of_nodes(delta, i, head, counted, HEADS)
        change *= weight * tl.where(raw > 0.0, 1.0, slope)
        total += change
        tl.store(grad_scores + at_edge[:, None] * HEADS + head[None, :], change, mask=counted)
        i = following
    tl.store(grad_x + row * (HEADS * DEPTH) + place, tl.sum(sums, 0).to(grad_x.dtype.element_ty), mask=inside)
    tl.store(grad_source + row * HEADS + head, tl.sum(total, 0).to(grad_source.dtype.element_ty), mask=is_head)


@triton.jit
def score_rows(
    x, att_source, att_target, by_source, by_target, num_rows, DEPTH: tl.constexpr, HEADS: tl.constexpr,
    GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Both score terms of a group of heads of ``ROWS`` nodes."""
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    source = tl.load(att_source + place, mask=inside, other=0.0).to(tl.float32)
    target = tl.load(att_target + place, mask=inside, other=0.0).to(tl.float32)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = row < num_rows
    values = rows_of_nodes(x, row, place, real, inside, HEADS * DEPTH)
    where, counted = row[:, None] * HEADS + head[None, :], real[:, None] & is_head[None, :]
    s, t = tl.sum(values * source[None, :, :], 2), tl.sum(values * target[None, :, :], 2)
    tl.store(by_source + where, s.to(by_source.dtype.element_ty), mask=counted)
    tl.store(by_target + where, t.to(by_target.dtype.element_ty), mask=counted)


@triton.jit
def score_gradient_rows(
    x, att_source, att_target, grad_source, grad_target, grad_x, parts, num_rows, rows_of_part, DEPTH: tl.constexpr,
    HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A group of heads of a part of the nodes: gradients of x, and partial sums of the gradients of both vectors."""
    head, is_head, place, inside = heads_of_program(GROUP, BLOCK, DEPTH, HEADS)
    source = tl.load(att_source + place, mask=inside, other=0.0).to(tl.float32)
    target = tl.load(att_target + place, mask=inside, other=0.0).to(tl.float32)
    part = tl.program_id(0).to(tl.int64)
    first = part * rows_of_part
    end = tl.minimum(first + rows_of_part, num_rows)
    to_source = tl.zeros([ROWS, GROUP, BLOCK], tl.float32)
    to_target = tl.zeros([ROWS, GROUP, BLOCK], tl.float32)
    for at in range(first, end, ROWS):
        row = at + tl.arange(0, ROWS).to(tl.int64)
        real = row < end
        counted = real[:, None] & is_head[None, :]
        values = rows_of_nodes(x, row, place, real, inside, HEADS * DEPTH)
        s = of_nodes(grad_source, row, head, counted, HEADS)[:, :, None]
        t = of_nodes(grad_target, row, head, counted, HEADS)[:, :, None]
        where = grad_x + row[:, None, None] * (HEADS * DEPTH) + place[None, :, :]
        result = s * source[None, :, :] + t * target[None, :, :]
        tl.store(where, result.to(grad_x.dtype.element_ty), mask=real[:, None, None] & inside[None, :, :])
        to_source += s * values
        to_target += t * values
    where = parts + part * (2 * HEADS * DEPTH) + place
    tl.store(where, tl.sum(to_source, 0), mask=inside)
    tl.store(where + HEADS * DEPTH, tl.sum(to_target, 0), mask=inside)
