"""The GraphSAGE layer of the benchmark."""

import torch.nn.functional as F
from torch import Tensor, nn

from lrga.nn.inputs import with_sources
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.linear import apply_linear, mix
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.reduce import Edges, max_sources, mean_sources
from lrga.ops.norm.definition import unit_rows


class SAGELayer(BenchmarkLayer):
    r"""Max-pool over the in-neighbours, concatenate, linear → L2 normalise → ReLU → BatchNorm → residual.

    .. math::
        h_i = \mathrm{ReLU} \left( \frac{z_i}{\lVert z_i \rVert} \right), \qquad
        z_i = W \left[ x_i, \, \max_{j \to i} \mathrm{ReLU}(P x_j + p) \right] + b

    The preset ``"2020"`` uses the mean of the :math:`x_j` instead of the maximum and has no P. Dropout is applied to x.
    The other arguments are those of :class:`~lrga.nn.layers.base.BenchmarkLayer`.

    Args:
        in_channels: Width of x.
        out_channels: Width of the result.
        pool_self: Whether :math:`x_i` in the concatenation is replaced by :math:`\mathrm{ReLU}(P x_i + p)`, as in the
            benchmark's code of 2022, which overwrites x by the pooled features.

    Shapes:
        - x: ``[N, in_channels]``; result: ``[N, out_channels]``

    Example:
        >>> import torch
        >>> SAGELayer(8, 8)(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 8])
    """

    def _make_parameters(self, in_channels: int, out_channels: int, *, pool_self: bool = False) -> None:
        self.pool_self = pool_self
        self.pool = nn.Linear(in_channels, in_channels) if self.preset == "2022" else None
        self.lin = nn.Linear(2 * in_channels, out_channels)

    def _convolve(self, x: Tensor, edges: Edges) -> Tensor:
        own = F.dropout(x, self.dropout, self.training)
        if self.pool is None:
            pooled = mean_sources(with_sources(edges, own), edges)
        else:
            messages = F.relu(apply_linear(self.pool, own))
            pooled = max_sources(with_sources(edges, messages), edges)
            own = messages if self.pool_self else own
        return unit_rows(mix([own, pooled], self.lin))

    def _finish(
        self, x: Tensor, h: Tensor, edges: Edges, batch: Tensor | Segments | None, num_graphs: int | None
    ) -> Tensor:
        # The graph norm's factor is positive, so the ReLU may as well come after it.
        return self._normalize(h, edges, batch, num_graphs, before="relu", residual=x if self.residual else None)
