"""Tiles of a batch, and the factors of its nodes, in one kernel each: as tensor operations they are two dozen launches.

The definitions are :meth:`lrga.kernels.tiles.Tiles.of` and :attr:`lrga.kernels.edges.EdgeLayout.degree_roots`.

Letters: N nodes, G graphs, M tiles.
"""

# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from lrga.kernels.support import launch

MOST_GRAPHS = 2048  # that every program reads and sums up by itself
NUMBERS = 1024  # of a comparison of tiles with graphs


@triton.jit
def cut(
    counts, start, end, graph, ptr, num_graphs, num_tiles, ROWS: tl.constexpr, BT: tl.constexpr, BG: tl.constexpr
):  # fmt: skip
    """Some tiles: the graph of each is how many graphs have all their tiles before it."""
    g = tl.arange(0, BG)
    tile = tl.program_id(0) * BT + tl.arange(0, BT)
    count = tl.load(counts + g, mask=g < num_graphs, other=0)
    tiles = (count + (ROWS - 1)) // ROWS
    until, last = tl.cumsum(tiles, 0), tl.cumsum(count, 0)
    before = (g < num_graphs)[None, :] & (until[None, :] <= tile[:, None])
    own = tl.minimum(tl.sum(before.to(tl.int64), 1), num_graphs - 1)
    here = g[None, :] == own[:, None]
    stop = tl.sum(tl.where(here, last[None, :], 0), 1)
    first = tl.sum(tl.where(here, (last - count - (until - tiles) * ROWS)[None, :], 0), 1) + tile * ROWS
    inside = tile < num_tiles
    tl.store(start + tile, tl.minimum(first, stop), mask=inside)
    tl.store(end + tile, tl.minimum(first + ROWS, stop), mask=inside)
    tl.store(graph + tile, own, mask=inside)
    if tl.program_id(0) == 0:
        tl.store(ptr + g + 1, until, mask=g < num_graphs)
        tl.store(ptr, tl.sum(tiles * 0, 0))


@triton.jit
def roots(in_ptr, out_ptr, into, out_of, num_nodes, BLOCK: tl.constexpr):
    """1/√ of the edges in and out of some nodes, at least one."""
    node = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = node < num_nodes
    ins = tl.load(in_ptr + node + 1, mask=inside, other=0) - tl.load(in_ptr + node, mask=inside, other=0)
    outs = tl.load(out_ptr + node + 1, mask=inside, other=0) - tl.load(out_ptr + node, mask=inside, other=0)
    tl.store(into + node, 1.0 / tl.sqrt(tl.maximum(ins, 1).to(tl.float32)), mask=inside)
    tl.store(out_of + node, 1.0 / tl.sqrt(tl.maximum(outs, 1).to(tl.float32)), mask=inside)


def launch_cut(counts: Tensor, tiles: int, rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Start, end and graph of each tile, ``[M]``, and the first tile of each graph, ``[G + 1]``."""
    graphs = counts.size(0)
    start, end, graph = (torch.empty(tiles, dtype=torch.int64, device=counts.device) for _ in range(3))
    ptr = torch.empty(graphs + 1, dtype=torch.int64, device=counts.device)
    columns = triton.next_power_of_2(graphs)
    step = max(1, NUMBERS // columns)
    launch(
        cut, (max(1, triton.cdiv(tiles, step)),),
        counts.contiguous(), start, end, graph, ptr, graphs, tiles, ROWS=rows, BT=step, BG=columns, num_warps=4,
    )  # fmt: skip
    return start, end, graph, ptr


def launch_roots(in_ptr: Tensor, out_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """1/√ of each node's edges in and out, at least one, ``[N]`` float32 each."""
    nodes = in_ptr.size(0) - 1
    into, out_of = (torch.empty(nodes, device=in_ptr.device) for _ in range(2))
    if nodes:
        launch(
            roots, (triton.cdiv(nodes, 512),),
            in_ptr.contiguous(), out_ptr.contiguous(), into, out_of, nodes, BLOCK=512, num_warps=4,
        )  # fmt: skip
    return into, out_of
