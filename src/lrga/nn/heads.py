"""Heads: from hidden features to predictions for nodes, edges or graphs."""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.checks import check_choice, check_count
from lrga.errors import UnsupportedError
from lrga.nn.inputs import graph_size, with_sources
from lrga.nn.linear import apply_chain, is_linear
from lrga.ops.attention.segments import Segments
from lrga.ops.linear import linear
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.reduce import Edges, endpoints, is_half, sum_edges_reference

TASKS = ("node", "graph", "edge")
READOUTS = ("mean", "sum", "max")
HEAD_LAYERS = 3


def readout(h: Tensor, segments: Segments, how: str = "mean", edges: Edges | None = None) -> Tensor:
    """Mean, sum or maximum over the nodes of each graph, ``[N, D]`` to ``[G, D]``; an empty graph gives zeros.

    With the ``edges`` of a partitioned graph, the readout is over the nodes of all ranks and the result is the same on
    every rank.
    """
    check_choice("readout", how, READOUTS)
    if how == "max":
        return _greatest(h, segments, edges)
    if is_half(h):
        return readout(h.float(), segments, how, edges).to(h.dtype)
    if isinstance(edges, EdgeLayout) and edges.graph_size is not None:
        total = edges.sum_ranks(h.sum(0, keepdim=True))
        return total / max(edges.graph_size[0], 1) if how == "mean" else total
    if segments.batch is None or segments.counts is None:
        total = h.sum(0, keepdim=True)
        return total / torch.sym_max(segments.num_nodes, 1) if how == "mean" else total
    total = sum_edges_reference(h, segments.batch, segments.num_graphs)
    return total / segments.counts.clamp(min=1).to(h.dtype).unsqueeze(-1) if how == "mean" else total


def _greatest(h: Tensor, segments: Segments, edges: Edges | None) -> Tensor:
    if isinstance(edges, EdgeLayout) and edges.graph_size is not None:
        raise UnsupportedError("readout 'mean' or 'sum' on a partitioned graph", "'max'", "use readout='mean'")
    batch = segments.batch
    if batch is None:
        batch = torch.zeros(h.size(0), dtype=torch.int64, device=h.device)
    lowest = h.new_full((segments.num_graphs, h.size(1)), -torch.inf)
    highest = lowest.scatter_reduce(0, batch.unsqueeze(-1).expand_as(h), h, "amax")
    return torch.where(highest == -torch.inf, 0.0, highest)


class MLP(nn.Module):
    """Linear maps with ReLU between them, ``widths[0]`` to ``widths[-1]``.

    If edges are given, the input is ``[N, widths[0] / 2]`` for nodes and the first map acts on ``[source, target]``. It
    is computed once per node instead of once per edge, and the two halves are added on the edges.

    Example:
        >>> import torch
        >>> MLP([8, 4, 2, 1])(torch.randn(5, 8)).shape
        torch.Size([5, 1])
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        for width in widths:
            check_count("width", width, minimum=1)
        self.lins = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        reset(self.lins)

    def forward(self, h: Tensor, edges: Edges | None = None) -> Tensor:
        if edges is None:
            return apply_chain(self.lins, h)
        first, *rest = self.lins
        h = _on_edges(first, h, edges)
        return apply_chain(rest, F.relu(h)) if rest else h


class Head(nn.Module):
    """MLP d → d/2 → d/4 → out with ReLU: for graphs after a readout, for edges on ``[source, target]``.

    With another number of ``layers`` the width is halved after each but the last; a single layer is a linear map.

    Args:
        channels: d, the width of the node features (2d for edges).
        out_channels: Width of the prediction.
        task: ``"node"``, ``"graph"`` or ``"edge"``.
        readout: ``"mean"``, ``"sum"`` or ``"max"`` over the nodes of a graph.
        layers: Number of linear maps.
    """

    def __init__(
        self, channels: int, out_channels: int, *, task: str, readout: str = "mean", layers: int = HEAD_LAYERS
    ) -> None:
        super().__init__()
        check_count("layers", layers, minimum=1)
        check_choice("task", task, TASKS)
        check_choice("readout", readout, READOUTS)
        self.task, self.readout = task, readout
        width = 2 * channels if task == "edge" else channels
        self.mlp = MLP([*(max(width >> i, 1) for i in range(layers)), out_channels])

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        self.mlp.reset_parameters()

    def forward(self, hidden: Sequence[Tensor], edges: Edges, segments: Segments) -> Tensor:
        """Predicts from the last entry of ``hidden``, a list of features ``[N, d]``."""
        h = hidden[-1]
        if self.task == "graph":
            return self.mlp(readout(h, segments, self.readout, edges))
        return self.mlp(with_sources(edges, h), edges) if self.task == "edge" else self.mlp(h)


class LayerwiseHead(nn.Module):
    """GIN's head: the sum of a linear map of the features of each layer and of the encoder.

    For graphs, the features of each layer are first summed over the nodes. For edges, each map has one hidden layer,
    2d → d → out.

    Args:
        channels: d, the width of the node features.
        out_channels: Width of the prediction.
        num_layers: L; there are L + 1 maps.
        task: ``"node"``, ``"graph"`` or ``"edge"``.
        readout: ``"sum"``, ``"mean"`` or ``"max"`` over the nodes of a graph.
    """

    def __init__(self, channels: int, out_channels: int, num_layers: int, *, task: str, readout: str = "sum") -> None:
        super().__init__()
        check_choice("task", task, TASKS)
        check_choice("readout", readout, READOUTS)
        self.task, self.readout = task, readout
        widths = [2 * channels, channels, out_channels] if task == "edge" else [channels, out_channels]
        self.mlps = nn.ModuleList(MLP(widths) for _ in range(num_layers + 1))

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        reset(self.mlps)

    def forward(self, hidden: Sequence[Tensor], edges: Edges, segments: Segments) -> Tensor:
        """Predicts from all entries of ``hidden``, a list of features ``[N, d]``."""
        inputs, on = hidden, edges if self.task == "edge" else None
        if self.task == "graph":
            inputs = [readout(h, segments, self.readout, edges) for h in hidden]
        elif self.task == "edge" and graph_size(edges) is not None:  # one exchange for all layers
            inputs = with_sources(edges, torch.cat(list(hidden), dim=1)).chunk(len(hidden), dim=1)
        return torch.stack([mlp(h, on) for mlp, h in zip(self.mlps, inputs, strict=True)]).sum(0)


def _on_edges(lin: nn.Module, h: Tensor, edges: Edges) -> Tensor:
    source, target = endpoints(edges)
    if not is_linear(lin):
        out: Tensor = lin(torch.cat([h.index_select(0, source), h.index_select(0, target)], dim=-1))
        return out
    of_source, of_target = lin.weight.chunk(2, dim=1)
    at_target = linear(h, of_target, lin.bias).index_select(0, target)
    return linear(h, of_source).index_select(0, source) + at_target
