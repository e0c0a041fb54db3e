"""Converts the inputs of a layer from the forms that users pass to the forms that the layers compute with."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from lrga.checks import check_dense, check_not_partitioned, check_partitioned
from lrga.errors import DTypeError, ShapeError
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.edges import EdgeLayout, check_edges_fit
from lrga.ops.neighbors.reduce import Edges, endpoints, sum_edges_reference

SPARSE_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def as_edges(edge_index: Any, x: Tensor, *, partitioned: bool | None = False) -> Edges:
    """PyG's ``[2, E]`` tensor, its ``EdgeIndex``, a sparse ``adj_t`` or an :class:`EdgeLayout`, checked against x.

    As in PyG, a sparse matrix has a row for each target and a column for each source; its values are not used. With
    ``partitioned=False`` edges of a partitioned graph are an error, with ``True`` all others are, and with ``None`` the
    layers check.
    """
    check_dense("x", x)
    if partitioned is not None:
        check_partitioned(edge_index) if partitioned else check_not_partitioned(edge_index)
    if isinstance(edge_index, EdgeLayout):
        edges: Edges = edge_index
    elif isinstance(edge_index, EdgeIndex):
        edges = edge_index.as_tensor()
    elif isinstance(edge_index, Tensor) and edge_index.layout in SPARSE_LAYOUTS:
        edges = _edges_of_sparse(edge_index, x.size(0))
    elif isinstance(edge_index, Tensor):
        edges = edge_index
    else:
        raise DTypeError(
            "edge_index to be a tensor [2, E], an EdgeIndex, a sparse tensor or an EdgeLayout",
            type(edge_index).__name__,
            "pass data.edge_index",
        )
    check_edges_fit(edges, x.size(0), x.device)
    return edges


def as_segments(batch: Tensor | Segments | None, num_nodes: int, num_graphs: int | None) -> Segments:
    """The segments of PyG's batch vector; segments are returned unchanged."""
    return batch if isinstance(batch, Segments) else Segments.from_batch(batch, num_nodes, num_graphs)


def with_sources(edges: Edges, x: Tensor) -> Tensor:
    """Features of all source nodes, see :meth:`EdgeLayout.with_sources`."""
    return edges.with_sources(x) if isinstance(edges, EdgeLayout) else x


def valid_nodes(edges: Edges) -> Tensor | None:
    """Number of real nodes of a padded batch; ``None`` if all are real."""
    return edges.valid_nodes if isinstance(edges, EdgeLayout) else None


def valid_edges(edges: Edges) -> Tensor | None:
    """Number of real edges of a padded batch; ``None`` if all are real."""
    return edges.valid_edges if isinstance(edges, EdgeLayout) else None


def graph_size(edges: Edges) -> tuple[int, int] | None:
    """Numbers of nodes and edges of the whole graph if ``edges`` are one rank's part of it, else ``None``."""
    return edges.graph_size if isinstance(edges, EdgeLayout) else None


def graph_norm(h: Tensor, segments: Segments, edges: Edges | None = None) -> Tensor:
    r"""Node features times :math:`1 / \sqrt{n}`, where n is the number of nodes of the graph (benchmark of 2020)."""
    if edges is not None and (whole := graph_size(edges)) is not None:
        return h * max(whole[0], 1) ** -0.5
    if segments.counts is None or segments.batch is None:
        return h * torch.sym_max(segments.num_nodes, 1) ** -0.5
    factors = _inverse_roots(segments.counts, h.dtype)
    return h * factors.index_select(0, segments.batch).unsqueeze(-1)


def edge_graph_norm(edges: Edges, segments: Segments, dtype: torch.dtype) -> Tensor:
    r""":math:`1 / \sqrt{m}` for each edge, ``[E, 1]``, where m is the number of edges of the graph (2020)."""
    _, target = endpoints(edges)
    if (whole := graph_size(edges)) is not None:
        return torch.full((target.size(0), 1), max(whole[1], 1) ** -0.5, dtype=dtype, device=target.device)
    graph = torch.zeros_like(target) if segments.batch is None else segments.batch.index_select(0, target)
    counts = sum_edges_reference(torch.ones_like(graph), graph, segments.num_graphs)
    return _inverse_roots(counts, dtype).index_select(0, graph).unsqueeze(-1)


def _inverse_roots(counts: Tensor, dtype: torch.dtype) -> Tensor:
    """1/√count for counts of at least one; computed in float32 because float16 cannot hold every count."""
    return counts.clamp(min=1).to(torch.promote_types(dtype, torch.float32)).rsqrt().to(dtype)


def _edges_of_sparse(adjacency: Tensor, num_nodes: int) -> Tensor:
    if tuple(adjacency.shape) != (num_nodes, num_nodes):
        raise ShapeError(
            f"a sparse adjacency of shape [{num_nodes}, {num_nodes}]",
            f"shape {list(adjacency.shape)}",
            "pass adj_t with one row and one column per node",
        )
    if adjacency.layout != torch.sparse_coo:
        adjacency = adjacency.to_sparse_coo()
    target, source = adjacency.coalesce().indices()
    return torch.stack([source, target])
