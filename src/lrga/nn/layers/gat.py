"""The graph attention network of the benchmark."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.checks import check_count
from lrga.nn.inputs import with_sources
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.linear import apply_linear
from lrga.ops.attention.segments import Segments
from lrga.ops.gat.definition import attention_sum, node_scores
from lrga.ops.neighbors.reduce import Edges

NEGATIVE_SLOPE = {"2022": 0.2, "2020": 0.01}


class GATLayer(BenchmarkLayer):
    r"""Attention over the in-neighbours → BatchNorm → ELU → residual; the heads are concatenated.

    .. math::
        h_i = \sum_{j \to i} \alpha_{ji} W x_j, \qquad
        \alpha_{ji} = \operatorname{softmax}_j \, \mathrm{LeakyReLU}(a_s \cdot W x_j + a_t \cdot W x_i)

    for each head. Preset ``"2022"``: slope 0.2, dropout on x and on the attention; preset ``"2020"``: slope 0.01,
    dropout on the attention and on the result. The other arguments are those of
    :class:`~lrga.nn.layers.base.BenchmarkLayer`.

    Args:
        in_channels: Width of x.
        out_channels: Width of each head; the result has ``heads * out_channels`` columns.
        heads: Number of heads.

    Shapes:
        - x: ``[N, in_channels]``; result: ``[N, heads * out_channels]``

    Example:
        >>> import torch
        >>> GATLayer(8, 4, heads=2)(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        heads: int = 1,
        preset: str = "2022",
        dropout: float = 0.0,
        residual: bool = True,
        batch_norm: bool = True,
    ) -> None:
        check_count("heads", heads, minimum=1)
        check_count("out_channels", out_channels, minimum=1)
        width = heads * out_channels
        super().__init__(in_channels, width, preset=preset, dropout=dropout, residual=residual, batch_norm=batch_norm)
        self.out_channels, self.heads = out_channels, heads
        self.lin = nn.Linear(in_channels, width, bias=False)
        self.att_source = nn.Parameter(torch.empty(heads, out_channels))
        self.att_target = nn.Parameter(torch.empty(heads, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        gain, bound = nn.init.calculate_gain("relu"), (2 * self.out_channels) ** -0.5
        if self.preset == "2022":
            nn.init.xavier_normal_(self.lin.weight, gain=gain)
        for attention in (self.att_source, self.att_target):
            if self.preset == "2022":
                nn.init.normal_(attention, std=gain * (2 / ((self.heads + 1) * self.out_channels)) ** 0.5)
            else:
                nn.init.uniform_(attention, -bound, bound)

    def _convolve(self, x: Tensor, edges: Edges) -> Tensor:
        inputs = F.dropout(x, self.dropout, self.training) if self.preset == "2022" else x
        z = with_sources(edges, apply_linear(self.lin, inputs)).view(-1, self.heads, self.out_channels)  # [S, H, C]
        by_source, by_target = node_scores(z, self.att_source, self.att_target)  # [S, H]
        by_target = by_target if z.size(0) == x.size(0) else by_target[: x.size(0)]  # [T, H]
        dropout, slope = self.dropout if self.training else 0.0, NEGATIVE_SLOPE[self.preset]
        return attention_sum(z, by_source, by_target, edges, negative_slope=slope, dropout=dropout).flatten(1)

    def _finish(
        self, x: Tensor, h: Tensor, edges: Edges, batch: Tensor | Segments | None, num_graphs: int | None
    ) -> Tensor:
        dropout, residual = self.dropout if self.training else 0.0, x if self.residual else None
        if self.preset == "2022" or dropout == 0:
            return self._normalize(h, edges, batch, num_graphs, after="elu", residual=residual)
        h = F.dropout(self._normalize(h, edges, batch, num_graphs, after="elu"), dropout)
        return h if residual is None else residual + h

    def extra_repr(self) -> str:
        return f"heads={self.heads}, {super().extra_repr()}"
