"""The graph isomorphism network of the benchmark."""

import torch
from torch import Tensor, nn

from lrga.nn.inputs import valid_nodes, with_sources
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.linear import apply_linear
from lrga.nn.norm import BatchNorm, normalize
from lrga.ops.neighbors.reduce import Edges, sum_sources


class GINLayer(BenchmarkLayer):
    r"""MLP of the sum over the in-neighbours → BatchNorm → ReLU → residual → dropout.

    .. math::
        h_i = W_2 \, \mathrm{ReLU}(\mathrm{BatchNorm}(W_1 z_i + b_1)) + b_2, \qquad
        z_i = (1 + \varepsilon) x_i + \sum_{j \to i} x_j

    where ε is learned and initially 0. The hidden layer has the width of the result and is always normalised.
    The arguments are those of :class:`~lrga.nn.layers.base.BenchmarkLayer`.

    Shapes:
        - x: ``[N, in_channels]``; result: ``[N, out_channels]``

    Example:
        >>> import torch
        >>> GINLayer(8, 8)(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 8])
    """

    def _make_parameters(self, in_channels: int, out_channels: int) -> None:
        self.eps = nn.Parameter(torch.zeros(1))
        self.lin1 = nn.Linear(in_channels, out_channels)
        self.inner_norm: nn.Module | None = BatchNorm(out_channels)
        self.lin2 = nn.Linear(out_channels, out_channels)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.eps)

    def _convolve(self, x: Tensor, edges: Edges) -> Tensor:
        return self._mlp(x, sum_sources(with_sources(edges, x), edges), edges)

    def _mlp(self, x: Tensor, received: Tensor, edges: Edges) -> Tensor:
        h = (1 + self.eps) * x + received
        h = normalize(self.inner_norm, apply_linear(self.lin1, h), count=valid_nodes(edges), after="relu")
        return apply_linear(self.lin2, h)
