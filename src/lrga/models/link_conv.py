"""The convolutions of the link-prediction networks: PyG's modules, summed over sorted edges where that is equal.

GCNConv and SAGEConv are linear sums over neighbours, GATConv a weighted one, which :mod:`lrga.ops.neighbors.reduce` and
:mod:`lrga.ops.gat` compute without writing a message for each edge. The parameters are PyG's own, so a state dict
crosses both ways.

Letters: N nodes, E edges, D channels.
"""

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, MessagePassing, ResGatedGraphConv, SAGEConv

from lrga.distributed.pyg_layers import PARTITIONED_PYG
from lrga.errors import OptionError
from lrga.nn.linear import apply_linear, is_plain
from lrga.ops.gat.definition import attention_sum, node_scores
from lrga.ops.neighbors.edges import EdgeLayout, check_not_partitioned
from lrga.ops.neighbors.reduce import Edges, is_half, mean_sources, sum_edges, sum_sources

GAT_HEADS = 4
M = TypeVar("M", bound=MessagePassing)


def _gat(in_channels: int, out_channels: int) -> nn.Module:
    if out_channels % GAT_HEADS:
        raise OptionError(f"hidden to be a multiple of {GAT_HEADS} heads", str(out_channels), "choose another width")
    return GATConv(in_channels, out_channels // GAT_HEADS, heads=GAT_HEADS)


def _gin(in_channels: int, out_channels: int) -> nn.Module:
    hidden = nn.Linear(in_channels, out_channels)
    return GINConv(nn.Sequential(hidden, nn.ReLU(), nn.Linear(out_channels, out_channels)), train_eps=True)


CONVOLUTIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "gcn": GCNConv,
    "graphsage": SAGEConv,
    "gat": _gat,
    "gin": _gin,
    "gatedgcn": ResGatedGraphConv,
}
"""Name → module of (in_channels, out_channels); ``"gcn"`` has self-loops, ``"graphsage"`` takes the mean."""


def gcn_scale(layout: EdgeLayout, weight: Tensor | None, dtype: torch.dtype = torch.float32) -> Tensor:
    """1/√d of each node, ``[N, 1]``, where d counts (or weighs) the edges that end there and one loop; for features of
    ``dtype``, at least in float32."""
    if weight is None:
        degree = layout.in_degree.to(torch.promote_types(dtype, torch.float32)) + 1.0
    else:
        degree = sum_edges(weight.unsqueeze(1), layout, layout.num_nodes).squeeze(1) + 1.0
    # as PyG: a node whose weights add up to nothing sends and receives nothing
    return torch.where(degree > 0, degree.clamp(min=1e-38).rsqrt(), torch.zeros_like(degree)).unsqueeze(1)


def convolve(conv: nn.Module, x: Tensor, edges: Edges, weight: Tensor | None, scale: Tensor | None) -> Tensor:
    """``conv(x, edges, weight)``, ``[N, D]`` to ``[N, D']``.

    Args:
        conv: Of :data:`CONVOLUTIONS`.
        x: Node features.
        edges: ``[2, E]``, or a layout, for GCN one without loops from a node to itself.
        weight: ``[E]``, for GCN alone.
        scale: What :func:`gcn_scale` gave, for GCN on a layout.
    """
    if type(conv) in PARTITIONED_PYG:  # not converted
        check_not_partitioned(edges)
    if not isinstance(edges, EdgeLayout) or edges.is_partitioned:
        return conv(x, edges) if weight is None else conv(x, edges, weight)
    if _is_usual(conv, GCNConv, improved=False, cached=False, add_self_loops=True, normalize=True, aggr="add"):
        assert scale is not None
        narrow = conv.in_channels < conv.out_channels  # sums commute with the linear map: take the narrower side
        h = (x if narrow else apply_linear(conv.lin, x)) * scale.to(x.dtype)
        weight = None if weight is None else weight.to(h.dtype)
        if is_half(h):  # the sums may be larger than float16 holds
            h = sum_sources(h, edges, weight, dst_scale=scale.squeeze(1)) + h * scale.to(h.dtype)
        else:
            h = (sum_sources(h, edges, weight) + h) * scale.to(x.dtype)
        h = apply_linear(conv.lin, h) if narrow else h
        return h if conv.bias is None else h + conv.bias
    if _is_usual(conv, SAGEConv, root_weight=True, normalize=False, project=False, aggr="mean"):
        return apply_linear(conv.lin_l, mean_sources(x, edges)) + apply_linear(conv.lin_r, x)
    if _is_usual(conv, GATConv, concat=True, dropout=0.0, edge_dim=None, add_self_loops=True, residual=False):
        h = apply_linear(conv.lin, x).view(-1, conv.heads, conv.out_channels)
        by_source, by_target = node_scores(h, conv.att_src.squeeze(0), conv.att_dst.squeeze(0))
        h = attention_sum(h, by_source, by_target, edges.with_loops, negative_slope=conv.negative_slope).flatten(1)
        return h if conv.bias is None else h + conv.bias
    return conv(x, edges.edge_index) if weight is None else conv(x, edges.edge_index, weight)


def _is_usual(conv: nn.Module, kind: type[M], **options: Any) -> TypeGuard[M]:
    """Whether the module is an unmodified ``kind`` without hooks and with these options."""
    if not is_plain(conv, kind) or conv.explain or conv.decomposed_layers != 1 or conv.flow != "source_to_target":
        return False
    hooked = any(value for name, value in vars(conv).items() if name.endswith("_hooks"))
    return not hooked and all(getattr(conv, name) == value for name, value in options.items())
