"""Rows and edges of a batch of fixed capacity in three kernels: one program for its graphs, then one for some nodes,
one for some edges.

The reference is :func:`lrga.kernels.gather.batch_layout_reference`. All arithmetic is in int64.
"""

# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from lrga.kernels.support import launch

BLOCK = 512


@triton.jit
def _graph_of(place, begins, column: tl.constexpr, graphs, STEPS: tl.constexpr):
    """How many of the graphs end at or before each place: the number of the graph it is in."""
    low = place * 0
    high = low + graphs
    for _ in range(STEPS):
        middle = (low + high) // 2
        open = low < high
        end = tl.load(begins + 2 * (middle + 1) + column, mask=open, other=0)
        right = open & (end <= place)
        high = tl.where(open & (end > place), middle, high)
        low = tl.where(right, middle + 1, low)
    return low


@triton.jit
def _begins_kernel(table, index, begins, shift, ptr, real, graphs, nothing, nodes, BLOCK: tl.constexpr):
    """The graphs before each chosen one, by one program."""
    place = tl.arange(0, BLOCK)
    inside = place < graphs
    chosen = tl.load(index + place, mask=inside, other=0)
    sizes = table + 4 * chosen
    own_nodes = tl.load(sizes + 2, mask=inside, other=0)
    own_edges = tl.load(sizes + 3, mask=inside, other=0)
    to_nodes, to_edges = tl.cumsum(own_nodes, 0), tl.cumsum(own_edges, 0)
    from_nodes, from_edges = to_nodes - own_nodes, to_edges - own_edges
    tl.store(begins + 2 * place, from_nodes, mask=inside)
    tl.store(begins + 2 * place + 1, from_edges, mask=inside)
    tl.store(ptr + place, from_nodes, mask=inside)
    tl.store(shift + 2 * place, tl.load(sizes, mask=inside, other=0) - from_nodes, mask=inside)
    tl.store(shift + 2 * place + 1, tl.load(sizes + 1, mask=inside, other=0) - from_edges, mask=inside)
    all_nodes, all_edges = tl.sum(own_nodes, 0), tl.sum(own_edges, 0)
    tl.store(begins + 2 * graphs, all_nodes)
    tl.store(begins + 2 * graphs + 1, all_edges)
    tl.store(ptr + graphs, all_nodes)
    tl.store(ptr + graphs + 1, all_nodes * 0 + nodes)
    tl.store(shift + 2 * graphs, all_nodes * 0)
    tl.store(shift + 2 * graphs + 1, all_nodes * 0)
    tl.store(real, tl.sum((inside & (chosen < nothing)).to(tl.int64), 0))


@triton.jit
def _nodes_kernel(
    begins,
    shift,
    in_start,
    out_start,
    graph_out,
    row_out,
    in_ptr,
    out_ptr,
    nodes,
    graphs,
    spare,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place <= nodes
    real_nodes = tl.load(begins + 2 * graphs)
    real_edges = tl.load(begins + 2 * graphs + 1)
    graph = _graph_of(place, begins, 0, graphs, STEPS)
    real = inside & (place < real_nodes)
    row = place + tl.load(shift + 2 * graph, mask=real, other=0)
    back = tl.load(shift + 2 * graph + 1, mask=real, other=0)
    into = tl.load(in_start + row, mask=real, other=0) - back
    out_of = tl.load(out_start + row, mask=real, other=0) - back
    tl.store(graph_out + place, graph, mask=inside)
    tl.store(row_out + place, tl.where(real, row, spare), mask=inside)
    tl.store(in_ptr + place, tl.where(real, into, real_edges), mask=inside)
    tl.store(out_ptr + place, tl.where(real, out_of, real_edges), mask=inside)


@triton.jit
def _edges_kernel(
    begins,
    shift,
    source,
    target,
    order,
    row_out,
    source_out,
    target_out,
    order_out,
    nodes,
    edges,
    graphs,
    spare,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = number < edges
    real_nodes = tl.load(begins + 2 * graphs)
    real_edges = tl.load(begins + 2 * graphs + 1)
    graph = _graph_of(number, begins, 1, graphs, STEPS)
    real = inside & (number < real_edges)
    row = number + tl.load(shift + 2 * graph + 1, mask=real, other=0)
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


def batch_begins(table: Tensor, index: Tensor, nodes: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As :func:`lrga.kernels.gather.batch_begins`."""
    graphs = index.size(0)
    begins, shift, ptr, real = (
        torch.empty(shape, dtype=torch.int64, device=index.device)
        for shape in ((graphs + 1, 2), (graphs + 1, 2), (graphs + 2,), ())
    )
    launch(
        _begins_kernel, (1,),
        table.contiguous(), index.contiguous(), begins, shift, ptr, real, graphs, table.size(0) - 1, nodes,
        BLOCK=triton.next_power_of_2(max(graphs, 1)), num_warps=4 if graphs <= 512 else 16,
    )  # fmt: skip
    return begins, shift, ptr, real


def batch_layout(
    begins: Tensor,
    shift: Tensor,
    source: Tensor,
    target: Tensor,
    order: Tensor,
    in_start: Tensor,
    out_start: Tensor,
    nodes: int,
    edges: int,
    spare_node: int,
    spare_edge: int,
) -> list[Tensor]:
    """The layout, as :func:`lrga.kernels.gather.batch_layout` returns it."""
    begins, shift = begins.contiguous(), shift.contiguous()
    graphs = begins.size(0) - 1
    steps = max(graphs, 1).bit_length()
    of_nodes = [torch.empty(nodes + 1, dtype=torch.int64, device=begins.device) for _ in range(4)]
    of_edges = [torch.empty(edges, dtype=torch.int64, device=begins.device) for _ in range(4)]
    launch(
        _nodes_kernel, (triton.cdiv(nodes + 1, BLOCK),),
        begins, shift, in_start, out_start, *of_nodes, nodes, graphs, spare_node, STEPS=steps, BLOCK=BLOCK,
    )  # fmt: skip
    if edges:
        launch(
            _edges_kernel, (triton.cdiv(edges, BLOCK),),
            begins, shift, source, target, order, *of_edges, nodes, edges, graphs, spare_edge, STEPS=steps, BLOCK=BLOCK,
        )  # fmt: skip
    return [*of_nodes, *of_edges]
