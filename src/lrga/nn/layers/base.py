"""The base class of the benchmark's layers."""

from typing import Any, Self

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.checks import check_choice, check_count, check_dense, check_fraction
from lrga.errors import ShapeError
from lrga.nn.inputs import as_edges, as_segments, graph_norm, valid_nodes
from lrga.nn.norm import BatchNorm, normalize
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.reduce import Edges, num_edges

PRESETS = ("2022", "2020")


class BenchmarkLayer(nn.Module):
    """Base class of the benchmark's layers: widths, preset, residual, normalisation, dropout.

    Args:
        in_channels: Width of x.
        out_channels: Width of the result. The residual is only used if both widths are equal.
        preset: ``"2022"``: the layers of the benchmark of 2022; ``"2020"``: those of June 2020, which multiply the
            convolution's result by 1/√n ("graph norm").
        dropout: Probability of dropout; where it is applied depends on the layer.
        residual: Whether x is added.
        batch_norm: Whether the convolution's result is normalised.
    """

    is_convolution = False  # True: the convolution's result is returned unchanged, see as_convolution
    is_partitioned = False  # set by lrga.distributed.partition_model: edges then belong to one rank's part

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        preset: str = "2022",
        dropout: float = 0.0,
        residual: bool = True,
        batch_norm: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        check_count("in_channels", in_channels, minimum=1)
        check_count("out_channels", out_channels, minimum=1)
        check_choice("preset", preset, PRESETS)
        check_fraction("dropout", dropout)
        self.in_channels, self.out_channels, self.preset = in_channels, out_channels, preset
        self.dropout, self.residual = float(dropout), residual and in_channels == out_channels
        self.norm = BatchNorm(out_channels) if batch_norm else None
        self._make_parameters(in_channels, out_channels, **options)

    def _make_parameters(self, in_channels: int, out_channels: int) -> None:
        """Creates the parameters other than the norm's, given the options that only this layer has."""

    def reset_parameters(self) -> None:
        """Reinitialises all parameters as in the preset's version of the benchmark."""
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Tensor | Segments | None = None,
        num_graphs: int | None = None,
    ) -> Tensor:
        """Convolves. ``edge_attr`` is not used; the preset ``"2020"`` needs ``batch`` if x has several graphs."""
        edges = self._edges(edge_index, x)
        return self._finish(x, self._convolve(x, edges), edges, batch, num_graphs)

    def _convolve(self, x: Tensor, edges: Edges) -> Tensor:
        """The convolution; a layer that also returns edge features defines ``forward`` instead."""
        raise NotImplementedError

    def as_convolution(self) -> Self:
        """Changes this layer in place to return the result of its convolution, without norm, activation, residual and
        dropout. Edge features are updated as before.
        """
        self.is_convolution, self.norm = True, None
        return self

    def _edges(self, edge_index: Any, x: Tensor) -> Edges:
        return as_edges(edge_index, x, partitioned=self.is_partitioned)

    def _check_edge_attr(self, edge_attr: Tensor | None, edges: Edges) -> Tensor:
        if edge_attr is not None:
            check_dense("edge_attr", edge_attr)
        wanted = [num_edges(edges), self.in_channels]
        if edge_attr is None or list(edge_attr.shape) != wanted:
            raise ShapeError(
                f"edge_attr of shape {wanted}, one row per edge",
                "None" if edge_attr is None else f"shape {list(edge_attr.shape)}",
                "encode the edge features first; without edge features encode torch.ones(E, 1)",
            )
        return edge_attr

    def _normalize(
        self,
        h: Tensor,
        edges: Edges,
        batch: Tensor | Segments | None,
        num_graphs: int | None,
        *,
        before: str | None = None,
        after: str | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        """Graph norm (if the preset has it) and batch norm, fused with activation and residual."""
        if self.is_convolution:
            return h
        if self.preset == "2020":
            h = graph_norm(h, as_segments(batch, h.size(0), num_graphs), edges)
        return normalize(self.norm, h, count=valid_nodes(edges), before=before, after=after, residual=residual)

    def _finish(
        self, x: Tensor, h: Tensor, edges: Edges, batch: Tensor | Segments | None, num_graphs: int | None
    ) -> Tensor:
        """Both norms, ReLU, residual and dropout: the end of all layers except GAT and SAGE."""
        h = self._normalize(h, edges, batch, num_graphs, after="relu", residual=x if self.residual else None)
        return h if self.is_convolution else F.dropout(h, self.dropout, self.training)

    def extra_repr(self) -> str:
        return f"preset={self.preset!r}, residual={self.residual}, dropout={self.dropout}"
