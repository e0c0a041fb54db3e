"""The gated graph convolution of the benchmark."""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.nn.inputs import as_segments, edge_graph_norm, valid_edges, with_sources
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.linear import is_plain
from lrga.nn.norm import BatchNorm, normalize, state_of
from lrga.ops.attention.segments import Segments
from lrga.ops.gated.definition import Norm, gated_edges, gated_edges_of_product
from lrga.ops.linear import linear
from lrga.ops.neighbors.reduce import Edges
from lrga.ops.streams import of_parameters


class GatedGCNLayer(BenchmarkLayer):
    r"""Gated graph convolution; BatchNorm → ReLU → residual → dropout on nodes and edges.

    .. math::
        \hat e_{ji} = C e_{ji} + D x_j + E x_i, \qquad
        h_i = A x_i + \frac{\sum_j \sigma(\hat e_{ji}) \odot B x_j}{\sum_j \sigma(\hat e_{ji}) + 10^{-6}}

    where A to E are linear maps with bias. Before normalisation the preset ``"2020"`` multiplies :math:`h` by
    :math:`1/\sqrt n` and :math:`\hat e` by :math:`1/\sqrt m`, for a graph with n nodes and m edges.
    The arguments are those of :class:`~lrga.nn.layers.base.BenchmarkLayer`; edges have the width of nodes.

    Shapes:
        - x: ``[N, in_channels]``; edge_attr: ``[E, in_channels]``
        - result: ``[N, out_channels]``, ``[E, out_channels]``

    Example:
        >>> import torch
        >>> h, e = GatedGCNLayer(8, 8)(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 8))
        >>> h.shape, e.shape
        (torch.Size([3, 8]), torch.Size([2, 8]))
    """

    def _make_parameters(self, in_channels: int, out_channels: int) -> None:
        self.lin_a = nn.Linear(in_channels, out_channels)
        self.lin_b = nn.Linear(in_channels, out_channels)
        self.lin_c = nn.Linear(in_channels, out_channels)
        self.lin_d = nn.Linear(in_channels, out_channels)
        self.lin_e = nn.Linear(in_channels, out_channels)
        self.edge_norm: nn.Module | None = None if self.norm is None else BatchNorm(out_channels)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Tensor | Segments | None = None,
        num_graphs: int | None = None,
        *,
        need_edges: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Convolves nodes and edges.

        The preset ``"2020"`` needs ``batch`` if x has several graphs. With ``need_edges=False``, for the last layer of
        a network, the returned edge features may be ``None`` to save time.
        """
        edges = self._edges(edge_index, x)
        edge_attr = self._check_edge_attr(edge_attr, edges)
        segments = as_segments(batch, x.size(0), num_graphs) if self.preset == "2020" else None
        own, gated, from_source, from_target = self._maps(x, with_sources(edges, x))
        mean, e = gate_edges(
            self.lin_c,
            edge_attr,
            gated,
            from_source,
            from_target,
            edges,
            norm=self._norm_of_edges(edges),
            training=self.edge_norm is not None and self.edge_norm.training,
            scale=None if segments is None else edge_graph_norm(edges, segments, x.dtype),
            residual=self.residual,
            need_edges=need_edges,
        )
        h = self._finish(x, own + mean, edges, segments, num_graphs)
        return h, None if e is None else F.dropout(e, self.dropout, self.training)

    def _maps(self, x: Tensor, sources: Tensor) -> tuple[Tensor, ...]:
        """A x, B and D of the sources, and E x, each ``out_channels`` wide; on a GPU columns of one product."""
        maps = (self.lin_a, self.lin_b, self.lin_d, self.lin_e)
        if sources is not x:  # exchange x once instead of B x and D x
            return self.lin_a(x), self.lin_b(sources), self.lin_d(sources), self.lin_e(x)
        if not x.is_cuda or not all(has_bias(lin) for lin in maps):
            return tuple(lin(x) for lin in maps)
        return maps_at_once(x, maps)

    def _norm_of_edges(self, edges: Edges) -> Norm | None:
        """The state of the normalisation, for the fused kernel; or a function if the norm was replaced by another
        module (a synchronised one, for example) or has hooks."""
        norm = self.edge_norm
        if norm is None or is_plain(norm, BatchNorm):
            return None if norm is None else state_of(norm)
        return partial(normalize, norm, count=valid_edges(edges))


def gate_edges(
    lin_c: nn.Module,
    edge_attr: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    edges: Edges,
    *,
    need_edges: bool = True,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """:func:`~lrga.ops.gated.definition.gated_edges` with C as a module. The module is called if it is more than its
    parameters (hooks, for example); ``options`` are those of that function."""
    ends = (gated, from_source, from_target, edges)
    if has_bias(lin_c):
        return gated_edges(edge_attr, lin_c.weight, lin_c.bias, *ends, need_edges=need_edges, **options)
    return gated_edges_of_product(lin_c(edge_attr), edge_attr, *ends, **options)


def has_bias(lin: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether the module is a linear map with a bias and nothing else."""
    return is_plain(lin, nn.Linear) and lin.bias is not None


def maps_at_once(x: Tensor, maps: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """The results of several linear maps of x, all with bias, by one product with their stacked weights.

    Example:
        >>> import torch
        >>> a, b = nn.Linear(3, 2), nn.Linear(3, 4)
        >>> x = torch.randn(5, 3)
        >>> [torch.allclose(y, lin(x), atol=1e-6) for y, lin in zip(maps_at_once(x, [a, b]), [a, b])]
        [True, True]
    """
    weight, bias = of_parameters(
        lambda: (torch.cat([lin.weight for lin in maps]), torch.cat([lin.bias for lin in maps]))
    )
    return linear(x, weight, bias).split([lin.out_features for lin in maps], dim=1)
