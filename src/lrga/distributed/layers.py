"""The layers of the benchmark over a divided graph: the same parameters, the same formulas, own nodes only.

A layer is converted in place by giving it one of these classes, so its parameters, buffers and state dict stay.
What a layer needs of its neighbours travels once for each layer, as wide as the layer.

Letters: n own nodes, h halo, e local edges, H heads, C channels of a head, D channels.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.distributed.collectives import all_reduce_sum
from lrga.distributed.graph import DividedLayout, GraphPart
from lrga.errors import DTypeError
from lrga.kernels.message import Edges, endpoints, max_sources, softmax_edges, sum_sources
from lrga.kernels.segments import Segments
from lrga.nn.gat import NEGATIVE_SLOPE, GATLayer
from lrga.nn.gated_gcn import GatedGCNLayer, gate_edges
from lrga.nn.gcn import GCNLayer
from lrga.nn.gin import GINLayer
from lrga.nn.heads import Head, LayerwiseHead
from lrga.nn.layer import BenchmarkLayer
from lrga.nn.sage import SAGELayer

Batch = Tensor | Segments | None


def part_of(edges: object) -> GraphPart:
    """The part that a converted layer was handed."""
    if not isinstance(edges, DividedLayout):
        got = type(edges).__name__
        raise DTypeError("the edges of this rank's part, part.edges", got, "call the model with x and part.edges")
    return edges.part


class DividedGCN(GCNLayer):
    """:class:`~lrga.nn.gcn.GCNLayer` over a divided graph."""

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Batch = None,
        num_graphs: int | None = None,
    ) -> Tensor:
        part = part_of(edge_index)
        if self.preset == "2022":
            into, out_of = (d.clamp(min=1).to(x.dtype).rsqrt().unsqueeze(-1) for d in (part.in_degree, part.out_degree))
            h = into * _sum(part, x * out_of)
        else:
            h = _mean(part, x)
        return _finish(self, x, _normalize(self, self.lin(h), part))


class DividedGAT(GATLayer):
    """:class:`~lrga.nn.gat.GATLayer` over a divided graph."""

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Batch = None,
        num_graphs: int | None = None,
    ) -> Tensor:
        part, own = part_of(edge_index), x.size(0)
        source, target = endpoints(part.layout)
        inputs = F.dropout(x, self.dropout, self.training) if self.preset == "2022" else x
        z = part.with_halo(self.lin(inputs)).view(-1, self.heads, self.out_channels)  # [n + h, H, C]
        by_source, by_target = (z * self.att_source).sum(-1), (z[:own] * self.att_target).sum(-1)
        scores = by_source.index_select(0, source) + by_target.index_select(0, target)
        attention = softmax_edges(F.leaky_relu(scores, NEGATIVE_SLOPE[self.preset]), part.layout, z.size(0))
        attention = F.dropout(attention, self.dropout, self.training)
        h = F.elu(_normalize(self, sum_sources(z, part.layout, attention)[:own].flatten(1), part))
        if self.preset == "2020":
            h = F.dropout(h, self.dropout, self.training)
        return x + h if self.residual else h


class DividedGatedGCN(GatedGCNLayer):
    """:class:`~lrga.nn.gated_gcn.GatedGCNLayer` over a divided graph; an edge's features lie with its target."""

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Batch = None,
        num_graphs: int | None = None,
        *,
        need_edges: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        part, own = part_of(edge_index), x.size(0)
        near = part.with_halo(x)  # one exchange of x, where exchanging B x and D x would be two
        at_target = F.pad(self.lin_e(x), (0, 0, 0, near.size(0) - own))  # no edge ends in the halo
        mean, e = gate_edges(
            self.lin_c,
            self._check_edges(edge_attr, part.layout),
            self.lin_b(near),
            self.lin_d(near),
            at_target,
            part.layout,
            norm=self.edge_norm,
            scale=None if self.preset == "2022" else x.new_full((part.layout.num_edges, 1), _root(part.num_edges)),
            residual=self.residual,
            need_edges=True,  # the statistics of the edges need all ranks, on all of them
        )
        assert e is not None
        h = _normalize(self, self.lin_a(x) + mean[:own], part)
        return _finish(self, x, h), F.dropout(e, self.dropout, self.training)


class DividedSAGE(SAGELayer):
    """:class:`~lrga.nn.sage.SAGELayer` over a divided graph."""

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Batch = None,
        num_graphs: int | None = None,
    ) -> Tensor:
        part = part_of(edge_index)
        own = F.dropout(x, self.dropout, self.training)
        if self.pool is None:
            pooled = _mean(part, own)
        else:
            messages = F.relu(self.pool(own))
            pooled = max_sources(part.with_halo(messages), part.layout)[: x.size(0)]
            own = messages if self.pool_self else own
        h = F.relu(F.normalize(self.lin(torch.cat([own, pooled], dim=-1))))
        h = _normalize(self, h, part)
        return x + h if self.residual else h


class DividedGIN(GINLayer):
    """:class:`~lrga.nn.gin.GINLayer` over a divided graph."""

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Batch = None,
        num_graphs: int | None = None,
    ) -> Tensor:
        part = part_of(edge_index)
        h = (1 + self.eps) * x + _sum(part, x)
        h = self.lin2(F.relu(self.inner_norm(self.lin1(h))))
        return _finish(self, x, _normalize(self, h, part))


class DividedHead(Head):
    """:class:`~lrga.nn.heads.Head` of a divided graph: its nodes, its local edges, or the one graph."""

    def forward(self, hidden: Sequence[Tensor], edges: Edges, segments: Segments) -> Tensor:
        part, h = part_of(edges), hidden[-1]
        if self.task == "graph":
            return self.mlp(_readout(h, part, self.readout))
        return self.mlp(part.with_halo(h), part.layout) if self.task == "edge" else self.mlp(h)


class DividedLayerwiseHead(LayerwiseHead):
    """:class:`~lrga.nn.heads.LayerwiseHead` of a divided graph."""

    def forward(self, hidden: Sequence[Tensor], edges: Edges, segments: Segments) -> Tensor:
        part, inputs, on = part_of(edges), list(hidden), None
        if self.task == "graph":
            inputs = [_readout(h, part, self.readout) for h in hidden]
        elif self.task == "edge":  # all layers in one exchange
            inputs, on = list(part.with_halo(torch.cat(inputs, dim=1)).chunk(len(inputs), dim=1)), part.layout
        return torch.stack([mlp(h, on) for mlp, h in zip(self.mlps, inputs, strict=True)]).sum(0)


DIVIDED: dict[type[nn.Module], type[nn.Module]] = {
    GCNLayer: DividedGCN,
    GATLayer: DividedGAT,
    GatedGCNLayer: DividedGatedGCN,
    SAGELayer: DividedSAGE,
    GINLayer: DividedGIN,
    Head: DividedHead,
    LayerwiseHead: DividedLayerwiseHead,
}


def _sum(part: GraphPart, x: Tensor) -> Tensor:
    return sum_sources(part.with_halo(x), part.layout)[: x.size(0)]


def _mean(part: GraphPart, x: Tensor) -> Tensor:
    return _sum(part, x) / part.in_degree.clamp(min=1).to(x.dtype).unsqueeze(-1)


def _normalize(layer: BenchmarkLayer, h: Tensor, part: GraphPart) -> Tensor:
    """Graph norm over all nodes, where the preset has it, and batch norm (over all ranks, by its own class)."""
    if layer.preset == "2020":
        h = h * _root(part.num_nodes)
    norm: Callable[[Tensor], Tensor] | None = layer.norm
    return h if norm is None else norm(h)


def _finish(layer: BenchmarkLayer, x: Tensor, h: Tensor) -> Tensor:
    h = F.relu(h)
    return F.dropout(x + h if layer.residual else h, layer.dropout, layer.training)


def _root(count: int) -> float:
    """1 / √count, as graph norm has it."""
    return max(count, 1) ** -0.5


def _readout(h: Tensor, part: GraphPart, how: str) -> Tensor:
    """Mean or sum over the nodes of all ranks, ``[1, D]``, on every rank.

    Every rank then predicts the same; a mean over the predictions of all ranks counts each of them once.
    """
    total = all_reduce_sum(h.sum(0, keepdim=True), purpose="readout", group=part.group)
    return total / max(part.num_nodes, 1) if how == "mean" else total
