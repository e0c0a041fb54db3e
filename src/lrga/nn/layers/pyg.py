"""PyG's convolutions on sorted edges, for whole graphs and for graphs partitioned between processes.

GCNConv and SAGEConv are linear sums over neighbours and GATConv is a weighted sum. :mod:`lrga.ops.neighbors.reduce` and
:mod:`lrga.ops.gat` compute them without materialising messages. The parameters are PyG's own, so state dicts are
interchangeable.

For a partitioned graph, a module is converted in place: its class becomes one of the ``Partitioned`` classes. They take
``part.edges`` instead of ``edge_index``, and edge weights of the local edges (``part.take_edges``).

Letters: N nodes, E edges, H heads, C channels of a head, D channels.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, ResGatedGraphConv, SAGEConv

from lrga.checks import check_not_partitioned, check_partitioned
from lrga.errors import UnsupportedError
from lrga.nn.linear import apply_linear, is_plain
from lrga.ops.gat.definition import attention_sum, node_scores
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.reduce import Edges, endpoints, is_half, mean_sources, sum_edges, sum_sources


def convolve(conv: nn.Module, x: Tensor, edges: Edges, weight: Tensor | None, scale: Tensor | None) -> Tensor:
    """``conv(x, edges, weight)``, ``[N, D]`` to ``[N, D']``.

    Args:
        conv: Any PyG convolution; GCN, GraphSAGE and GAT use sorted edges.
        x: Node features.
        edges: ``[2, E]``; a layout (for GCN without self-loops); or, for GCN, an adjacency matrix ``[N, N]`` without a
            diagonal (:func:`is_adjacency`).
        weight: ``[E]``, for GCN only.
        scale: The result of :func:`gcn_scale`, for GCN on a layout or a matrix.
    """
    if is_adjacency(edges):
        if not _is_usual(conv, GCNConv):
            raise UnsupportedError("PyG's GCNConv, for an adjacency matrix", type(conv).__name__, "pass edge_index")
        assert scale is not None
        return _gcn(conv, x, edges, None, scale)
    if type(conv) in PARTITIONED_PYG:  # not converted
        check_not_partitioned(edges)
    if isinstance(edges, EdgeLayout) and not edges.is_partitioned:
        if _is_usual(conv, GCNConv):
            assert scale is not None
            return _gcn(conv, x, edges, weight, scale)
        if _is_usual(conv, SAGEConv):
            return _sage(conv, x, edges)
        if _is_usual(conv, GATConv):
            return _gat(conv, x, edges)
        edges = edges.edge_index
    return conv(x, edges) if weight is None else conv(x, edges, weight)


def is_adjacency(edges: Any) -> bool:
    """Whether ``edges`` is a dense matrix of edge weights, ``[N, N]``: row i holds the edges that end in node i."""
    return isinstance(edges, Tensor) and edges.layout == torch.strided and edges.is_floating_point()


def gcn_scale(
    layout: Edges, weight: Tensor | None, dtype: torch.dtype = torch.float32, loop: Tensor | float = 1.0
) -> Tensor:
    """1/√d of each node, ``[N, 1]``, at least in float32. d is the number (or total weight) of the incoming edges plus
    a self-loop of weight ``loop``. ``layout`` may be an adjacency matrix."""
    if isinstance(layout, Tensor):
        degree = layout.sum(1) + loop
    elif weight is None:
        degree = layout.in_degree.to(torch.promote_types(dtype, torch.float32)) + loop
    else:
        degree = sum_edges(weight.unsqueeze(1), layout, layout.num_nodes).squeeze(1) + loop
    # as in PyG: a node with total weight 0 sends and receives nothing
    return torch.where(degree > 0, degree.clamp(min=1e-38).rsqrt(), torch.zeros_like(degree)).unsqueeze(1)


def _gcn(
    conv: GCNConv, x: Tensor, layout: Edges, weight: Tensor | None, scale: Tensor, loop: Tensor | None = None
) -> Tensor:
    """GCN over edges without self-loops, plus a self-loop of weight ``loop`` ``[N]`` at each node (1 by default)."""
    narrow = conv.in_channels < conv.out_channels  # sums commute with the linear map: sum the narrower features
    h = (x if narrow else apply_linear(conv.lin, x)) * scale.to(x.dtype)
    if isinstance(layout, Tensor):
        with torch.autocast(x.device.type, enabled=False):  # the sums may exceed the range of float16
            wide = h.to(layout.dtype)
            h = ((layout @ wide + wide) * scale).to(h.dtype)
        h = apply_linear(conv.lin, h) if narrow else h
        return h if conv.bias is None else h + conv.bias
    weight = None if weight is None else weight.to(h.dtype)
    near, own = layout.with_sources(h), h if loop is None else loop.unsqueeze(1) * h
    if is_half(h):  # the sums may exceed the range of float16
        h = sum_sources(near, layout, weight, dst_scale=scale.squeeze(1)) + own * scale.to(h.dtype)
    else:
        h = (sum_sources(near, layout, weight) + own) * scale.to(x.dtype)
    h = apply_linear(conv.lin, h) if narrow else h
    return h if conv.bias is None else h + conv.bias


def _sage(conv: SAGEConv, x: Tensor, layout: EdgeLayout) -> Tensor:
    h = apply_linear(conv.lin_l, mean_sources(layout.with_sources(x), layout))
    h = h + apply_linear(conv.lin_r, x) if conv.root_weight else h
    return F.normalize(h, p=2.0, dim=-1) if conv.normalize else h


def _gat(conv: GATConv, x: Tensor, layout: EdgeLayout) -> Tensor:
    h = layout.with_sources(apply_linear(conv.lin, x)).view(-1, conv.heads, conv.out_channels)
    by_source, by_target = node_scores(h, conv.att_src.squeeze(0), conv.att_dst.squeeze(0))
    by_target = by_target[: layout.num_targets]
    h = attention_sum(h, by_source, by_target, layout.with_loops, negative_slope=conv.negative_slope)
    h = h.flatten(1) if conv.concat else h.mean(1)
    return h if conv.bias is None else h + conv.bias


class PartitionedGCNConv(GCNConv):
    """:class:`torch_geometric.nn.GCNConv` with self-loops over a partitioned graph."""

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        check_partitioned(edge_index)
        weight = None if edge_weight is None else edge_weight.to(x.dtype)
        loop = x.new_ones(x.size(0))
        if edge_index.has_loops:  # they count once, with their own weight
            source, target = endpoints(edge_index)
            loops = source == target
            if weight is None:
                weight = (~loops).to(x.dtype)
            else:
                loop = loop.index_put((target[loops],), weight[loops])
                weight = weight.masked_fill(loops, 0.0)
        return _gcn(self, x, edge_index, weight, gcn_scale(edge_index, weight, x.dtype, loop), loop)


class PartitionedSAGEConv(SAGEConv):
    """:class:`torch_geometric.nn.SAGEConv` with the mean over a partitioned graph."""

    def forward(self, x: Tensor, edge_index: Any, size: Any = None) -> Tensor:
        del size
        check_partitioned(edge_index)
        return _sage(self, x, edge_index)


class PartitionedGATConv(GATConv):
    """:class:`torch_geometric.nn.GATConv` with self-loops over a partitioned graph."""

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None = None, **unused: Any) -> Tensor:
        del edge_attr, unused
        check_partitioned(edge_index)
        return _gat(self, x, edge_index)


class PartitionedGINConv(GINConv):
    """:class:`torch_geometric.nn.GINConv` over a partitioned graph."""

    def forward(self, x: Tensor, edge_index: Any, size: Any = None) -> Tensor:
        del size
        check_partitioned(edge_index)
        return self.nn(sum_sources(edge_index.with_sources(x), edge_index) + (1 + self.eps) * x)


class PartitionedResGatedConv(ResGatedGraphConv):
    """:class:`torch_geometric.nn.ResGatedGraphConv` over a partitioned graph."""

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None = None) -> Tensor:
        del edge_attr
        check_partitioned(edge_index)
        source, target = endpoints(edge_index)
        near = edge_index.with_sources(x)  # exchange x once instead of queries and values
        gate = self.act(self.lin_key(x)[target] + self.lin_query(near)[source])
        h = sum_edges(gate * self.lin_value(near)[source], edge_index, x.size(0))
        h = h + self.lin_skip(x) if self.root_weight else h
        return h if self.bias is None else h + self.bias


def _adds(conv: Any) -> bool:
    """Whether messages flow from source to target and are summed, PyG's default."""
    return conv.flow == "source_to_target" and conv.aggr in ("add", "sum")


PARTITIONED_PYG: dict[type[nn.Module], tuple[type[nn.Module], Callable[[Any], bool]]] = {
    GCNConv: (
        PartitionedGCNConv,
        lambda c: _adds(c) and c.normalize and c.add_self_loops and not (c.improved or c.cached),
    ),
    SAGEConv: (PartitionedSAGEConv, lambda c: c.flow == "source_to_target" and c.aggr == "mean" and not c.project),
    GATConv: (
        PartitionedGATConv,
        lambda c: (
            _adds(c) and c.lin is not None and c.add_self_loops and c.edge_dim is None and not (c.dropout or c.residual)
        ),
    ),
    GINConv: (PartitionedGINConv, _adds),
    ResGatedGraphConv: (PartitionedResGatedConv, lambda c: _adds(c) and c.edge_dim is None),
}
"""PyG's module → its partitioned class, and a function: whether its options are supported."""


def _is_usual(conv: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether the module is an unmodified ``kind`` without hooks, with supported options."""
    if not is_plain(conv, kind) or conv.explain or conv.decomposed_layers != 1:
        return False
    hooked = any(value for name, value in vars(conv).items() if name.endswith("_hooks"))
    return not hooked and PARTITIONED_PYG[kind][1](conv)
