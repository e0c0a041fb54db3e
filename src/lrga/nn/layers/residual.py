"""The layer of the modern recipe: convolution and attention in a residual branch, then a feed-forward network."""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.checks import check_fraction
from lrga.nn.attention import LowRankGlobalAttention, check_attention_options
from lrga.nn.inputs import as_segments, valid_nodes
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.layers.gated_gcn import GatedGCNLayer
from lrga.nn.layers.gine import GINELayer
from lrga.nn.linear import apply_linear
from lrga.nn.norm import make_norm, normalize
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.reduce import Edges
from lrga.ops.streams import in_parallel


class ResidualLayer(nn.Module):
    r"""Convolution plus low-rank attention, normalised, as a residual; then a feed-forward network.

    .. math::
        Y = X + \mathrm{dropout}(\mathrm{norm}(\mathrm{conv}(X) + W \, \mathrm{LRGA}(X))), \qquad
        X' = \mathrm{norm}(Y + \mathrm{dropout}(W_2 \, \mathrm{dropout}(\mathrm{ReLU}(W_1 Y))))

    The convolution is the linear part of a benchmark layer, without that layer's own norm, activation and residual; its
    edge features (GatedGCN) are updated as in the benchmark. The hidden layer has twice the width.

    Args:
        base: The local layer with ``channels`` inputs and outputs. It is changed in place to return its convolution
            only.
        channels: D.
        rank: The paper's κ; ``None`` omits the attention and W.
        heads: Heads of the attention.
        dropout: Dropout in both branches.
        attention_dropout: Dropout on the attention's output; ``dropout`` by default.
        norm: ``"batch"``, ``"layer"``, ``"rms"``, or ``None`` for none.
        backend: Backend of the attention.
        attention_options: A dict of ``normalize``, ``qk_norm``, ``gate`` and ``eps`` of the attention.

    Example:
        >>> import torch
        >>> from lrga.nn.layers.gcn import GCNLayer
        >>> layer = ResidualLayer(GCNLayer(8, 8), 8, rank=3)
        >>> layer(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        base: BenchmarkLayer,
        channels: int,
        rank: int | None,
        *,
        heads: int = 1,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        norm: str | None = "batch",
        backend: str = "auto",
        attention_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_fraction("dropout", dropout)
        self.base, self.channels, self.rank, self.dropout = base.as_convolution(), channels, rank, float(dropout)
        if isinstance(base, GatedGCNLayer):
            base.edge_norm = make_norm(norm, channels)
        if isinstance(base, GINELayer):
            base.inner_norm = make_norm(norm, channels)
        self.attention: LowRankGlobalAttention | None = None
        self.lin_attention: nn.Linear | None = None
        if rank is not None:
            on_attention = dropout if attention_dropout is None else attention_dropout
            options = check_attention_options(attention_options)
            self.attention = LowRankGlobalAttention(
                channels, rank, heads=heads, dropout=on_attention, backend=backend, **options
            )
            self.lin_attention = nn.Linear(heads * 2 * rank, channels, bias=False)
        self.norm1, self.norm2 = make_norm(norm, channels), make_norm(norm, channels)
        self.lin1, self.lin2 = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Tensor | Segments | None = None,
        num_graphs: int | None = None,
        *,
        need_edges: bool = True,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Same interface as the base layer. Edge features are also returned if the base layer returns them."""
        segments = as_segments(batch, x.size(0), num_graphs)
        options = {"need_edges": need_edges} if isinstance(self.base, GatedGCNLayer) else {}
        local, attended = in_parallel(
            "attention",
            lambda: self.base(x, edge_index, edge_attr, segments, **options),
            lambda: self._attend(x, segments),
            x,
        )
        h, rest = (local[0], local[1:]) if isinstance(local, tuple) else (local, ())
        h = h if attended is None else h + attended
        count = valid_nodes(edge_index)
        if self.training and self.dropout:
            y = x + self._drop(normalize(self.norm1, h, count=count))
        else:
            y = normalize(self.norm1, h, count=count, residual=x)
        hidden = self._drop(F.relu(apply_linear(self.lin1, y)))
        h = normalize(self.norm2, y + self._drop(apply_linear(self.lin2, hidden)), count=count)
        return (h, *rest) if rest else h

    def _attend(self, x: Tensor, segments: Segments) -> Tensor | None:
        if self.attention is None or self.lin_attention is None:
            return None
        return apply_linear(self.lin_attention, self.attention(x, segments))

    def _drop(self, h: Tensor) -> Tensor:
        return F.dropout(h, self.dropout, self.training)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}"
