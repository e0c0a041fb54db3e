"""Low-rank attention as the global part of PyG's ``GPSConv``."""

import torch
from torch import Tensor, nn
from torch_geometric.nn.attention import PerformerAttention

from lrga.checks import check_dense, check_features
from lrga.errors import ShapeError
from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.linear import apply_linear


class GPSAttention(PerformerAttention):
    """Replaces the attention inside a :class:`torch_geometric.nn.GPSConv`.

    ``GPSConv`` pads the graphs of a batch to the largest one and passes the padded features with a mask. This module
    attends to the real nodes only, so a graph's result does not depend on the rest of the batch, unlike with PyG's own
    linear attention. (It derives from PyG's class because ``GPSConv`` checks the type.)

    Args:
        channels: Width of the layer.
        rank: The paper's κ.
        heads: Heads of the attention.
        dropout: Dropout on the result.

    Example:
        >>> import torch
        >>> from torch_geometric.nn import GCNConv, GPSConv
        >>> layer = GPSConv(16, GCNConv(16, 16))
        >>> layer.attn = GPSAttention(16, rank=8)
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 0, 3]])
        >>> layer(torch.randn(5, 16), edge_index, batch=torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([5, 16])
    """

    def __init__(self, channels: int, rank: int, *, heads: int = 1, dropout: float = 0.0) -> None:
        nn.Module.__init__(self)  # skips the Performer's own initialisation
        self.attention = LowRankGlobalAttention(channels, rank, heads=heads)
        self.out = nn.Linear(heads * 2 * rank, channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attends within each graph: ``x`` is ``[G, n, channels]``, ``mask`` ``[G, n]`` marks the real nodes."""
        check_dense("x", x)
        if x.dim() != 3:
            raise ShapeError("x of shape [G, n, channels]", f"shape {list(x.shape)}", "call this from a GPSConv")
        if mask is None:
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        nodes = x[mask]
        check_features("x", nodes)
        batch = torch.arange(x.size(0), device=x.device).unsqueeze(1).expand_as(mask)[mask]
        attended = self.dropout(apply_linear(self.out, self.attention(nodes, batch, num_graphs=x.size(0))))
        return x.new_zeros(x.shape).masked_scatter(mask.unsqueeze(-1), attended.to(x.dtype))

    def redraw_projection_matrix(self) -> None:
        """Does nothing: there are no random projections."""

    def _reset_parameters(self) -> None:
        self.attention.reset_parameters()
        self.out.reset_parameters()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.attention})"
