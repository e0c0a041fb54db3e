"""PyG's convolutions that the link-prediction networks are made of, over a divided graph.

A layer is converted in place by giving it one of these classes, so its parameters and state dict stay. They take
``part.edges`` in place of ``edge_index``; edge weights lie with the local edges (``part.take_edges``).

Letters: n own nodes, h halo, e local edges, H heads, C channels of a head, D channels.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, ResGatedGraphConv, SAGEConv

from lrga.distributed.graph import GraphPart, part_of
from lrga.ops.neighbors.reduce import endpoints, mean_sources, sum_edges, sum_sources


class PartitionedGCNConv(GCNConv):
    """:class:`torch_geometric.nn.GCNConv` with self-loops over a divided graph."""

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        part, own = part_of(edge_index), x.size(0)
        weight, loop = _without_loops(part, edge_weight, x)
        if weight is None:
            degree = part.in_degree.to(x.dtype) + loop
        else:
            degree = sum_edges(weight.unsqueeze(1), part.layout, own).squeeze(1) + loop
        # as PyG: a node whose weights add up to nothing sends and receives nothing
        scale = torch.where(degree > 0, degree.clamp(min=1e-38).rsqrt(), torch.zeros_like(degree)).unsqueeze(1)
        narrow = self.in_channels < self.out_channels  # the narrower side travels
        h = (x if narrow else self.lin(x)) * scale
        h = (sum_sources(part.with_halo(h), part.layout, weight) + loop.unsqueeze(1) * h) * scale
        h = self.lin(h) if narrow else h
        return h if self.bias is None else h + self.bias


class PartitionedSAGEConv(SAGEConv):
    """:class:`torch_geometric.nn.SAGEConv` with the mean over a divided graph."""

    def forward(self, x: Tensor, edge_index: Any, size: Any = None) -> Tensor:
        del size
        part = part_of(edge_index)
        h = self.lin_l(mean_sources(part.with_halo(x), part.layout))
        h = h + self.lin_r(x) if self.root_weight else h
        return F.normalize(h, p=2.0, dim=-1) if self.normalize else h


class PartitionedGATConv(GATConv):
    """:class:`torch_geometric.nn.GATConv` with self-loops over a divided graph."""

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None = None, **unused: Any) -> Tensor:
        del edge_attr, unused
        part, own = part_of(edge_index), x.size(0)
        source, target = endpoints(part.layout)
        z = part.with_halo(self.lin(x)).view(-1, self.heads, self.out_channels)  # [n + h, H, C]
        by_source, by_target = (z * self.att_src).sum(-1), (z[:own] * self.att_dst).sum(-1)
        scores = F.leaky_relu(by_source[source] + by_target[target], self.negative_slope)  # [e, H]
        loop = F.leaky_relu(by_source[:own] + by_target, self.negative_slope)  # [n, H]
        greatest = loop.detach().scatter_reduce(0, target.unsqueeze(1).expand_as(scores), scores.detach(), "amax")
        keep, _ = _without_loops(part, None, x)
        weight, loop = (scores - greatest[target]).exp(), (loop - greatest).exp()
        weight = weight if keep is None else weight * keep.unsqueeze(1)
        total = sum_edges(weight, part.layout, own) + loop
        h = sum_sources(z, part.layout, weight) + loop.unsqueeze(-1) * z[:own]
        h = h / total.unsqueeze(-1)
        h = h.flatten(1) if self.concat else h.mean(1)
        return h if self.bias is None else h + self.bias


class PartitionedGINConv(GINConv):
    """:class:`torch_geometric.nn.GINConv` over a divided graph."""

    def forward(self, x: Tensor, edge_index: Any, size: Any = None) -> Tensor:
        del size
        part = part_of(edge_index)
        return self.nn(sum_sources(part.with_halo(x), part.layout) + (1 + self.eps) * x)


class PartitionedResGatedConv(ResGatedGraphConv):
    """:class:`torch_geometric.nn.ResGatedGraphConv` over a divided graph."""

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None = None) -> Tensor:
        del edge_attr
        part, own = part_of(edge_index), x.size(0)
        source, target = endpoints(part.layout)
        near = part.with_halo(x)  # one exchange of x, where queries and values would be two
        gate = self.act(self.lin_key(x)[target] + self.lin_query(near)[source])
        h = sum_edges(gate * self.lin_value(near)[source], part.layout, own)
        h = h + self.lin_skip(x) if self.root_weight else h
        return h if self.bias is None else h + self.bias


def _without_loops(part: GraphPart, weight: Tensor | None, x: Tensor) -> tuple[Tensor | None, Tensor]:
    """Weights of local edges, zero for those from a node to itself (``None`` where all are one), and the weight of
    each own node's loop, ``[n]``: one, or what the graph has for it."""
    loop = x.new_ones(x.size(0))
    weight = None if weight is None else weight.to(x.dtype)
    if not part.has_loops:
        return weight, loop
    source, target = endpoints(part.layout)
    loops = source == target
    if weight is None:
        return (~loops).to(x.dtype), loop
    return weight.masked_fill(loops, 0.0), loop.index_put((target[loops],), weight[loops])


def _adds(conv: Any) -> bool:
    """Whether messages run along the edges and are added up at their end, as is usual."""
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
"""PyG's module → its divided class, and whether one with such options can be divided."""
