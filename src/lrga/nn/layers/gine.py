"""The graph isomorphism network with edge features in its messages."""

import torch.nn.functional as F
from torch import Tensor

from lrga.nn.inputs import with_sources
from lrga.nn.layers.gin import GINLayer
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.reduce import Edges, endpoints, sum_edges


class GINELayer(GINLayer):
    r"""MLP of the sum over messages that read the edges → BatchNorm → ReLU → residual → dropout.

    .. math::
        h_i = W_2 \, \mathrm{ReLU}(\mathrm{BatchNorm}(W_1 z_i + b_1)) + b_2, \qquad
        z_i = (1 + \varepsilon) x_i + \sum_{j \to i} \mathrm{ReLU}(x_j + e_{ji})

    with ε learned from 0: PyG's ``GINEConv`` around that MLP. Every layer of a network reads the same edge features,
    which are returned unchanged. The arguments are those of :class:`~lrga.nn.layers.base.BenchmarkLayer`.

    Shapes:
        - x: ``[N, in_channels]``; edge_attr: ``[E, in_channels]``
        - result: ``[N, out_channels]``, ``[E, in_channels]``

    Example:
        >>> import torch
        >>> h, e = GINELayer(8, 8)(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 8))
        >>> h.shape, e.shape
        (torch.Size([3, 8]), torch.Size([2, 8]))
    """

    def forward(  # type: ignore[override]
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
        edge_attr = self._check_edge_attr(edge_attr, edges)
        source, _ = endpoints(edges)
        messages = F.relu(with_sources(edges, x).index_select(0, source) + edge_attr)
        return self._update(x, sum_edges(messages, edges, x.size(0)), edges, batch, num_graphs), edge_attr
