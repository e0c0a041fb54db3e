"""A linear map of all edges, with what comes before and after it in a GatedGCN layer in the same kernel.

Forward it is ê = C e + bias + d_source + t_target, which as a product of the vendor's library and a sum would pass
through memory once more in each direction; backward the gradient of e, dê C + (what the residual brings).

D is seldom a power of two, but sizes of products are: the columns are cut into two blocks of such sizes (80 = 64 + 16)
where one would be mostly empty. A program keeps the weight and walks through tiles of edges.

Letters: N nodes, E edges, I channels in, O channels out.
"""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

from lrga.kernels.triton_attention import _rounded


@triton.jit
def _block_of_weight(
    weight, i0: tl.constexpr, o0: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr, STRIDE_I: tl.constexpr,
    STRIDE_O: tl.constexpr, BI: tl.constexpr, BO: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``[BI, BO]`` of the transposed weight, laid down so that the summed index is the contiguous one."""
    i, o = i0 + tl.arange(0, BI), o0 + tl.arange(0, BO)
    ok = (o < OUTER)[:, None] & (i < INNER)[None, :]
    block = tl.load(weight + o[:, None] * STRIDE_O + i[None, :] * STRIDE_I, mask=ok, other=0.0)
    return tl.trans(_rounded(block.to(COMPUTE), PRECISION))


@triton.jit
def _block_of_edges(
    x, slot, inside, i0: tl.constexpr, INNER: tl.constexpr, BI: tl.constexpr, COMPUTE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    i = i0 + tl.arange(0, BI)
    block = tl.load(x + slot[:, None] * INNER + i[None, :], mask=inside[:, None] & (i < INNER)[None, :], other=0.0)
    return _rounded(block.to(COMPUTE), PRECISION)


@triton.jit
def _part_of_bias(bias, o0: tl.constexpr, OUTER: tl.constexpr, FORWARD: tl.constexpr, BO: tl.constexpr):
    o = o0 + tl.arange(0, BO)
    if FORWARD:
        return tl.load(bias + o, mask=o < OUTER, other=0.0).to(tl.float32)
    else:
        return tl.zeros([BO], tl.float32)


@triton.jit
def _beside_product(
    bias, from_source, from_target, added, slot, j, i, present, source_stride, target_stride, o0: tl.constexpr,
    OUTER: tl.constexpr, FORWARD: tl.constexpr, ADDED: tl.constexpr, BM: tl.constexpr, BO: tl.constexpr,
):  # fmt: skip
    """What is added to the product in ``BO`` columns from ``o0`` on; ``bias`` is of these."""
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
    x,  # [E, I]
    weight,  # [O, I]
    bias,  # [O], as the next four where FORWARD
    from_source,  # d [N, O]
    from_target,  # t [N, O]
    source,  # [E]
    target,  # [E]
    added,  # [E, O], where ADDED
    in_ptr,  # [N + 1]
    out,  # out [E, O]: zero in padding
    num_nodes,
    num_edges,
    source_stride,  # numbers from one row to the next
    target_stride,
    INNER: tl.constexpr,
    OUTER: tl.constexpr,
    STRIDE_I: tl.constexpr,  # of the weight
    STRIDE_O: tl.constexpr,
    FORWARD: tl.constexpr,  # else from the last edge to the first: what was written last is still in the cache
    ADDED: tl.constexpr,
    STAGES: tl.constexpr,
    COMPUTE: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    I0: tl.constexpr,  # columns in: two blocks, the second may be none
    I1: tl.constexpr,
    O0: tl.constexpr,  # columns out
    O1: tl.constexpr,
):
    w00 = _block_of_weight(weight, 0, 0, INNER, OUTER, STRIDE_I, STRIDE_O, I0, O0, COMPUTE, PRECISION)
    if O1:
        w01 = _block_of_weight(weight, 0, O0, INNER, OUTER, STRIDE_I, STRIDE_O, I0, O1, COMPUTE, PRECISION)
    if I1:
        w10 = _block_of_weight(weight, I0, 0, INNER, OUTER, STRIDE_I, STRIDE_O, I1, O0, COMPUTE, PRECISION)
        if O1:
            w11 = _block_of_weight(weight, I0, O0, INNER, OUTER, STRIDE_I, STRIDE_O, I1, O1, COMPUTE, PRECISION)
    b0 = _part_of_bias(bias, 0, OUTER, FORWARD, O0)
    b1 = _part_of_bias(bias, O0, OUTER, FORWARD and O1 > 0, O1 if O1 else 16)
    # Rows of padding are read like others, lest all wait for the number of real ones; only what is written is zero.
    real = tl.load(in_ptr + num_nodes)
    slot = tl.arange(0, BM)
    tiles = tl.cdiv(num_edges, BM)
    zero = tl.program_id(1).to(tl.int64)  # widens what it is added to; a loop over 64 bits takes forty registers more
    # Told of its stages, a loop asks for all it reads that many tiles ahead, rows of nodes and their numbers too.
    for step in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=STAGES):
        first = (zero + (step if FORWARD else tiles - 1 - step)) * BM
        present = slot < num_edges - first
        inside = slot < real - first
        j = slot
        i = slot
        if FORWARD:
            j = tl.load(source + first + slot, mask=present, other=0).to(tl.int32)
            i = tl.load(target + first + slot, mask=present, other=0).to(tl.int32)
        # The product starts from what is added to it, which so is under way while the product waits for x.
        y = _beside_product(
            b0, from_source, from_target, added + first * OUTER, slot, j, i, present, source_stride, target_stride,
            0, OUTER, FORWARD, ADDED, BM, O0,
        )  # fmt: skip
        if O1:
            z = _beside_product(
                b1, from_source, from_target, added + first * OUTER, slot, j, i, present, source_stride,
                target_stride, O0, OUTER, FORWARD, ADDED, BM, O1,
            )  # fmt: skip
        x0 = _block_of_edges(x + first * INNER, slot, present, 0, INNER, I0, COMPUTE, PRECISION)
        if I1:
            x1 = _block_of_edges(x + first * INNER, slot, present, I0, INNER, I1, COMPUTE, PRECISION)
        y = tl.dot(x0, w00, y, input_precision=PRECISION)
        if I1:
            y = tl.dot(x1, w10, y, input_precision=PRECISION)
        _store_rows(out + first * OUTER, y, slot, inside, present, 0, OUTER, O0)
        if O1:
            z = tl.dot(x0, w01, z, input_precision=PRECISION)
            if I1:
                z = tl.dot(x1, w11, z, input_precision=PRECISION)
            _store_rows(out + first * OUTER, z, slot, inside, present, O0, OUTER, O1)
