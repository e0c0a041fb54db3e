"""The graph convolution of the benchmark."""

from torch import Tensor, nn

from lrga.nn.inputs import with_sources
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.linear import apply_linear
from lrga.ops.neighbors.reduce import Edges, mean_sources, sum_sources, symmetric_factors


class GCNLayer(BenchmarkLayer):
    r"""Graph convolution → BatchNorm → ReLU → residual → dropout.

    .. math::
        h_i = W \sum_{j \to i} \frac{x_j}{\sqrt{d^{\mathrm{in}}_i \, d^{\mathrm{out}}_j}} + b

    without self-loops (preset ``"2022"``); the preset ``"2020"`` uses the mean over the in-neighbours instead.
    The arguments are those of :class:`~lrga.nn.layers.base.BenchmarkLayer`.

    Shapes:
        - x: ``[N, in_channels]``; result: ``[N, out_channels]``

    Example:
        >>> import torch
        >>> GCNLayer(8, 8)(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 8])
    """

    def _make_parameters(self, in_channels: int, out_channels: int) -> None:
        self.lin = nn.Linear(in_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.preset == "2022":
            nn.init.xavier_uniform_(self.lin.weight)
            nn.init.zeros_(self.lin.bias)

    def _convolve(self, x: Tensor, edges: Edges) -> Tensor:
        if self.preset == "2022":
            dst_scale, src_scale = symmetric_factors(edges, x)
            h = sum_sources(with_sources(edges, x), edges, dst_scale=dst_scale, src_scale=src_scale)
        else:
            h = mean_sources(with_sources(edges, x), edges)
        return apply_linear(self.lin, h)
