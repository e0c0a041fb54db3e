r"""Random-walk encodings: the probabilities :math:`P, P^2, \dots, P^k` on the diagonal and on the edges.

:math:`P = D^{-1} A` is the transition matrix of a walk that leaves a node by one of its outgoing edges with equal
probability. Parallel edges count separately, and a walk ends at a node without outgoing edges. Powers are exact, in
float64: nothing is sampled.

Letters: N nodes, E edges, G graphs, n nodes and m edges of one graph, B graphs of equal size, k steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lrga.checks import check_batch, check_count, check_edge_index
from lrga.errors import BatchError
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.reduce import sum_sources

MAX_DENSE_NODES = 2048  # larger graphs are processed from blocks of start nodes instead of as matrices
MAX_ENTRIES = 1 << 23  # of the matrices, or of the block, in memory at once


def random_walk_encoding(
    edge_index: Tensor,
    num_nodes: int,
    steps: int,
    batch: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""RWSE: the probability that a walk is back at its node after 1, 2, …, k steps, :math:`(P^t)_{ii}`.

    Args:
        edge_index: ``[2, E]``, row 0 source, row 1 target.
        num_nodes: N.
        steps: k.
        batch: Graph of each node, in any order; ``None`` is one graph. A graph's numbers do not depend on the others.
        dtype: Data type of the result.

    Returns:
        ``[N, k]``, equal to PyG's ``AddRandomWalkPE`` for graphs without parallel edges.

    Example:
        >>> random_walk_encoding(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, steps=2).tolist()
        [[0.0, 0.5], [0.0, 1.0], [0.0, 0.5]]
    """
    return walk_probabilities(edge_index, num_nodes, steps, batch, edges=False)[0].to(dtype)


def relative_walk_encoding(
    edge_index: Tensor,
    num_nodes: int,
    steps: int,
    batch: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    r"""RRWP on existing edges: :math:`(P^t)_{ij}` for t = 1 … k, on the diagonal and for each edge i → j.

    GRIT (arXiv 2305.17589) uses these numbers for all pairs; this function returns only those of nodes and edges, in
    O((N + E) k) memory. The arguments are those of :func:`random_walk_encoding`. The powers of a graph with at most
    2,048 nodes take matrices of n² entries and O(k n³) time; a larger graph takes blocks of n × b entries and O(k n m)
    time. Two or three such buffers of at most 64 MB exist at a time.

    Returns:
        ``[N, k]`` (the diagonal) and ``[E, k]`` in the order of the edges.

    Example:
        >>> nodes, edges = relative_walk_encoding(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, steps=3)
        >>> edges.tolist()
        [[1.0, 0.0, 1.0], [0.5, 0.0, 0.5], [0.5, 0.0, 0.5], [1.0, 0.0, 1.0]]
    """
    nodes, on_edges = walk_probabilities(edge_index, num_nodes, steps, batch, edges=True)
    return nodes.to(dtype), on_edges.to(dtype)


@torch.no_grad()
def walk_probabilities(
    edge_index: Tensor, num_nodes: int, steps: int, batch: Tensor | None = None, *, edges: bool = True
) -> tuple[Tensor, Tensor]:
    """Both encodings in float64; with ``edges=False`` the second is empty, ``[0, k]``."""
    check_count("steps", steps, minimum=1)
    on_nodes = torch.zeros(num_nodes, steps, dtype=torch.float64, device=edge_index.device)
    on_edges = on_nodes.new_zeros(edge_index.size(1) if edges else 0, steps)
    for group in graphs_of_equal_size(edge_index, num_nodes, batch):
        walk = _walk_matrices if group.size <= MAX_DENSE_NODES else _walk_blocks
        walk(group, on_nodes, on_edges, steps)
    return on_nodes, on_edges


@dataclass(frozen=True)
class EqualSizes:
    """B graphs of n nodes each, without padding, so a graph's result does not depend on the other graphs.

    Attributes:
        nodes: ``[B, n]``, the numbers of their nodes.
        edges: ``[M]``, the numbers of their edges.
        graph: ``[M]``, the graph of each edge, from 0 to B - 1.
        source: ``[M]``, the source node of each edge, from 0 to n - 1.
        target: ``[M]``, the target node of each edge.
    """

    nodes: Tensor
    edges: Tensor
    graph: Tensor
    source: Tensor
    target: Tensor

    @property
    def size(self) -> int:
        """n."""
        return self.nodes.size(1)

    def adjacency(self) -> Tensor:
        """Number of edges between each pair of nodes, ``[B, n, n]`` float64."""
        count, size = self.nodes.shape
        matrix = torch.zeros(count, size, size, dtype=torch.float64, device=self.nodes.device)
        ones = torch.ones(self.graph.size(0), dtype=torch.float64, device=self.nodes.device)
        return matrix.index_put_((self.graph, self.source, self.target), ones, accumulate=True)


def graphs_of_equal_size(edge_index: Tensor, num_nodes: int, batch: Tensor | None = None) -> Iterator[EqualSizes]:
    """All graphs of a batch that have an edge, grouped by size, in groups of at most :data:`MAX_ENTRIES` entries."""
    check_edge_index(edge_index, num_nodes)
    device = edge_index.device
    if batch is None:
        batch = torch.zeros(num_nodes, dtype=torch.int64, device=device)
    check_batch(batch, num_nodes, None)
    if num_nodes == 0 or edge_index.size(1) == 0:
        return
    batch, order = torch.sort(batch.long(), stable=True)
    counts = torch.bincount(batch)
    begin = counts.cumsum(0) - counts  # [G] position of each graph's first node in `order`
    place = torch.empty_like(order)
    place[order] = torch.arange(num_nodes, device=device) - begin[batch]  # index of each node within its graph
    graph_of = torch.empty_like(order).index_copy_(0, order, batch)
    source, target = edge_index.long()
    edge_graph = graph_of[source]
    if not bool((edge_graph == graph_of[target]).all()):
        raise BatchError("edges within one graph", "an edge between two", "pass the batch vector of these edges")
    has_edges = torch.bincount(edge_graph, minlength=counts.numel()) > 0
    chunks = list(_chunks_of_equal_size(counts.tolist(), has_edges.tolist()))
    chunk_of, within = torch.zeros(2, counts.numel(), dtype=torch.int64)
    for number, graphs in enumerate(chunks):
        chunk_of[graphs], within[graphs] = number, torch.arange(len(graphs))
    chunk_of, within = chunk_of.to(device), within.to(device)
    by_chunk, edges_in_order = torch.sort(chunk_of[edge_graph], stable=True)
    ends = torch.bincount(by_chunk, minlength=len(chunks)).cumsum(0).tolist()
    for number, graphs in enumerate(chunks):
        edges = edges_in_order[ends[number - 1] if number else 0 : ends[number]]
        chosen = torch.tensor(graphs, device=device)
        size = int(counts[chosen[0]])
        nodes = order[begin[chosen].unsqueeze(1) + torch.arange(size, device=device)]
        yield EqualSizes(nodes, edges, within[edge_graph[edges]], place[source[edges]], place[target[edges]])


def _chunks_of_equal_size(sizes: list[int], has_edges: list[bool]) -> Iterator[list[int]]:
    by_size: dict[int, list[int]] = {}
    for graph, size in enumerate(sizes):
        if has_edges[graph]:
            by_size.setdefault(size, []).append(graph)
    for size, graphs in by_size.items():
        at_once = max(1, MAX_ENTRIES // max(size * size, 1))
        yield from (graphs[first : first + at_once] for first in range(0, len(graphs), at_once))


def _walk_matrices(group: EqualSizes, on_nodes: Tensor, on_edges: Tensor, steps: int) -> None:
    transition = group.adjacency()
    transition /= transition.sum(2, keepdim=True).clamp(min=1)
    power, nodes = transition, group.nodes.flatten()
    for step in range(steps):
        if step:
            power = power @ transition
        on_nodes[nodes, step] = power.diagonal(dim1=1, dim2=2).flatten()
        if on_edges.size(0):
            on_edges[group.edges, step] = power[group.graph, group.source, group.target]


def _walk_blocks(group: EqualSizes, on_nodes: Tensor, on_edges: Tensor, steps: int) -> None:
    """One large graph: walks from a block of start nodes at a time; each step is a sum over the edges."""
    (nodes,), size, device = group.nodes, group.size, group.nodes.device
    layout, _ = EdgeLayout.from_edge_index(torch.stack([group.source, group.target]), size, check=False)
    leave = layout.out_degree.clamp(min=1).double().reciprocal()
    by_source, order = torch.sort(group.source, stable=True)
    block = max(1, MAX_ENTRIES // size)
    for first in range(0, size, block):
        starts = torch.arange(first, min(first + block, size), device=device)
        column = starts - first
        low, high = torch.searchsorted(by_source, torch.stack([starts[0], starts[-1] + 1])).tolist()
        edges = order[low:high]
        at = torch.zeros(size, starts.numel(), dtype=torch.float64, device=device)
        at[starts, column] = 1.0
        for step in range(steps):
            at = sum_sources(at, layout, src_scale=leave)  # [n, b]: where the walks are
            on_nodes[nodes[starts], step] = at[starts, column]
            if on_edges.size(0):
                on_edges[group.edges[edges], step] = at[group.target[edges], group.source[edges] - first]
