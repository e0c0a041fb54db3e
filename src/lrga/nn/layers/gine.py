"""The graph isomorphism network with edge features in its messages."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.checks import check_dense
from lrga.errors import ShapeError
from lrga.nn.inputs import valid_nodes, with_sources
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.linear import apply_linear
from lrga.nn.norm import BatchNorm, normalize
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.reduce import Edges, endpoints, num_edges, sum_edges


class GINELayer(BenchmarkLayer):
    r"""MLP of the sum over messages that read the edges → BatchNorm → ReLU → residual → dropout.

    .. math::
        h_i = W_2 \, \mathrm{ReLU}(\mathrm{BatchNorm}(W_1 z_i + b_1)) + b_2, \qquad
        z_i = (1 + \varepsilon) x_i + \sum_{j \to i} \mathrm{ReLU}(x_j + e_{ji})

    with ε learned from 0: PyG's ``GINEConv`` around that MLP. Every layer of a network reads the same edge features,
    which are returned as they came. The arguments are those of :class:`~lrga.nn.layers.base.BenchmarkLayer`.

    Shapes:
        - x: ``[N, in_channels]``; edge_attr: ``[E, in_channels]``
        - result: ``[N, out_channels]``, ``[E, in_channels]``

    Example:
        >>> import torch
        >>> h, e = GINELayer(8, 8)(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 8))
        >>> h.shape, e.shape
        (torch.Size([3, 8]), torch.Size([2, 8]))
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        preset: str = "2022",
        dropout: float = 0.0,
        residual: bool = True,
        batch_norm: bool = True,
    ) -> None:
        super().__init__(
            in_channels, out_channels, preset=preset, dropout=dropout, residual=residual, batch_norm=batch_norm
        )
        self.eps = nn.Parameter(torch.zeros(1))
        self.lin1 = nn.Linear(in_channels, out_channels)
        self.inner_norm: nn.Module | None = BatchNorm(out_channels)
        self.lin2 = nn.Linear(out_channels, out_channels)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.eps)

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Tensor | Segments | None = None,
        num_graphs: int | None = None,
        *,
        need_edges: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Convolves; the preset ``"2020"`` needs ``batch`` where x has several graphs. ``need_edges`` is of no effect:
        the edge features are those given."""
        edges = self._edges(edge_index, x)
        wanted = [num_edges(edges), self.in_channels]
        if edge_attr is not None:
            check_dense("edge_attr", edge_attr)
        if edge_attr is None or list(edge_attr.shape) != wanted:
            raise ShapeError(
                f"edge_attr of shape {wanted}, one row per edge",
                "None" if edge_attr is None else f"shape {list(edge_attr.shape)}",
                "encode the edge features first, torch.ones(E, 1) where there are none",
            )
        source, _ = endpoints(edges)
        messages = F.relu(with_sources(edges, x).index_select(0, source) + edge_attr)
        h = (1 + self.eps) * x + sum_edges(messages, edges, x.size(0))
        h = normalize(self.inner_norm, apply_linear(self.lin1, h), count=valid_nodes(edges), after="relu")
        return self._finish(x, apply_linear(self.lin2, h), edges, batch, num_graphs), edge_attr
