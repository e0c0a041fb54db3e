"""The rows and edges of a padded batch of graphs of a data set.

Given the start of each chosen graph in the batch and in the set, every node and edge of the batch finds its graph by a
search and its row in the set by a shift. Padding nodes follow the real ones, with self-loops as padding edges.
All is integer arithmetic without synchronisation; on a GPU the search is two kernels.

Letters: B graphs, N nodes and E edges of the batch with its padding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import cdiv, launch, runs_on_gpu

BLOCK = 512  # nodes or edges per program


def batch_begins(table: Tensor, index: Tensor, nodes: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The start of the chosen graphs.

    Args:
        table: ``[G + 1, 4]`` int64: first node, first edge, nodes and edges of each graph of the set; the last is empty
            and means no graph.
        index: ``[B]`` int64, the chosen graphs.
        nodes: N.

    Returns:
        ``begins`` and ``shift`` ``[B + 1, 2]`` for :func:`batch_layout`; the first node of each graph, with the
        padding as the last graph, ``[B + 2]``; and the number of real graphs, 0-dimensional.

    Example:
        >>> import torch
        >>> table = torch.tensor([[0, 0, 3, 2], [3, 2, 4, 6], [7, 8, 0, 0]])
        >>> begins, shift, ptr, real = batch_begins(table, torch.tensor([1, 0, 2]), 10)
        >>> begins.tolist(), ptr.tolist(), int(real)
        ([[0, 0], [4, 6], [7, 8], [7, 8]], [0, 4, 7, 7, 10], 2)
    """
    chosen = table.index_select(0, index)  # [B, 4]
    begins = F.pad(chosen[:, 2:].cumsum(0), (0, 0, 1, 0))
    shift = F.pad(chosen[:, :2] - begins[:-1], (0, 0, 0, 1))
    return begins, shift, F.pad(begins[:, 0], (0, 1), value=nodes), (index < table.size(0) - 1).sum()


def batch_layout(tensors: list[Tensor], sizes: list[int]) -> list[Tensor]:
    """Rows and edges of a batch.

    Args:
        tensors: ``begins`` and ``shift`` of :func:`batch_begins`, both ``[B + 1, 2]`` int64: nodes and edges of the
            batch before each graph, and of all real graphs; and the offset from the index of a node or edge in the
            batch to its row in the set. Then, of all edges of the set, the sources and targets, numbered within
            each graph, and the edges of each graph sorted by source, in any integer dtype. Finally, for each node of
            the set, the numbers of edges that end and that begin at earlier nodes.
        sizes: N, E, and the rows of the set that padding nodes and padding edges repeat.

    Returns:
        Graph and row of each node, ``in_ptr`` and ``out_ptr``, ``[N + 1]`` each (the last entry is the end);
        row, source, target and ``out_order`` of each edge, ``[E]`` each; all int64. The pointers end at the last real
        edge.
    """
    return batch_layout_op(tensors, sizes) if runs_on_gpu(*tensors) else batch_layout_reference(tensors, sizes)


def batch_layout_reference(tensors: list[Tensor], sizes: list[int]) -> list[Tensor]:
    """:func:`batch_layout`, in plain tensor operations."""
    begins, shift, source, target, order, in_start, out_start = tensors
    nodes, edges, spare_node, spare_edge = sizes
    node_begin, edge_begin = (column.contiguous() for column in begins.unbind(1))
    node_shift, edge_shift = (column.contiguous() for column in shift.unbind(1))
    real_nodes, real_edges = begins[-1].unbind(0)

    place = torch.arange(nodes + 1, device=begins.device)
    graph = torch.searchsorted(node_begin[1:], place, right=True)  # B for padding
    no_node = place >= real_nodes
    row = (place + node_shift.index_select(0, graph)).masked_fill_(no_node, spare_node)
    back = edge_shift.index_select(0, graph)
    in_ptr, out_ptr = (
        torch.where(no_node, real_edges, start.index_select(0, row) - back) for start in (in_start, out_start)
    )

    number = torch.arange(edges, device=begins.device)
    of_edge = torch.searchsorted(edge_begin[1:], number, right=True)
    no_edge = number >= real_edges
    edge_row = (number + edge_shift.index_select(0, of_edge)).masked_fill_(no_edge, spare_edge)
    first_node, first_edge = node_begin.index_select(0, of_edge), edge_begin.index_select(0, of_edge)
    # Padding edge k of P is a loop at padding node k n / P of n.
    share = (number - real_edges) * (nodes - real_nodes)
    beyond = real_nodes + torch.div(share, (edges - real_edges).clamp(min=1), rounding_mode="floor")
    ends = [torch.where(no_edge, beyond, first_node + _of(values, edge_row)) for values in (source, target)]
    out_order = torch.where(no_edge, number, first_edge + _of(order, edge_row))
    return [graph, row, in_ptr, out_ptr, edge_row, *ends, out_order]


def _of(values: Tensor, rows: Tensor) -> Tensor:
    """Rows of a small integer type as int64; zeros if the source is empty."""
    return values.index_select(0, rows).long() if values.numel() else torch.zeros_like(rows)


@operator(
    "lrga::batch_layout",
    lambda tensors, sizes: [tensors[0].new_empty(size) for size in (*[sizes[0] + 1] * 4, *[sizes[1]] * 4)],
)
def batch_layout_op(tensors: list[Tensor], sizes: list[int]) -> list[Tensor]:
    from lrga.ops.neighbors import kernels

    begins, shift, source, target, order, in_start, out_start = tensors
    begins, shift = begins.contiguous(), shift.contiguous()
    nodes, edges, spare_node, spare_edge = sizes
    graphs = begins.size(0) - 1
    search = {"STEPS": max(graphs, 1).bit_length(), "BLOCK": BLOCK}
    of_nodes = [torch.empty(nodes + 1, dtype=torch.int64, device=begins.device) for _ in range(4)]
    of_edges = [torch.empty(edges, dtype=torch.int64, device=begins.device) for _ in range(4)]
    launch(
        kernels._nodes_kernel, (cdiv(nodes + 1, BLOCK),),
        begins, shift, in_start, out_start, *of_nodes, nodes, graphs, spare_node, **search,
    )  # fmt: skip
    if edges:
        launch(
            kernels._edges_kernel, (cdiv(edges, BLOCK),),
            begins, shift, source, target, order, *of_edges, nodes, edges, graphs, spare_edge, **search,
        )  # fmt: skip
    return [*of_nodes, *of_edges]
