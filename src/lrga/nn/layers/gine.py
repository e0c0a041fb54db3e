"""The graph isomorphism network with edge features (GINE)."""

import torch.nn.functional as F
from torch import Tensor

from lrga.nn.inputs import with_sources
from lrga.nn.layers.gin import GINLayer
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.reduce import Edges, endpoints, sum_edges


class GINELayer(GINLayer):
    r"""MLP of the sum over messages with edge features → BatchNorm → ReLU → residual → dropout.

    .. math::
        h_i = W_2 \, \mathrm{ReLU}(\mathrm{BatchNorm}(W_1 z_i + b_1)) + b_2, \qquad
        z_i = (1 + \varepsilon) x_i + \sum_{j \to i} \mathrm{ReLU}(x_j + e_{ji})

    where ε is learned and initially 0: PyG's ``GINEConv`` with this MLP. All layers of a network use the same edge
    features, which are returned unchanged. The arguments are those of :class:`~lrga.nn.layers.base.BenchmarkLayer`.

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
        """Convolves. The preset ``"2020"`` needs ``batch`` if x has several graphs. ``need_edges`` has no effect: the
        given edge features are returned."""
        edges = self._edges(edge_index, x)
        edge_attr = self._check_edge_attr(edge_attr, edges)
        source, _ = endpoints(edges)
        messages = F.relu(with_sources(edges, x).index_select(0, source) + edge_attr)
        h = self._mlp(x, sum_edges(messages, edges, x.size(0)), edges)
        return self._finish(x, h, edges, batch, num_graphs), edge_attr
