r"""The edges of a GatedGCN layer: gate, gated mean over the in-neighbours, and the new edge features.

.. math::
    \hat e_{ji} = C e_{ji} + d_j + t_i, \qquad
    m_i = \frac{\sum_{j \to i} \sigma(\hat e_{ji}) \odot b_j}{\sum_{j \to i} \sigma(\hat e_{ji}) + 10^{-6}}, \qquad
    e'_{ji} = e_{ji} + \mathrm{ReLU}(\mathrm{BatchNorm}(\hat e_{ji}))

with :math:`b, d, t` linear maps of the node features. Written plainly this makes a dozen tensors of E × D; on a CPU the
time goes into their pages. :func:`gated_edges` on an :class:`EdgeLayout` walks through chunks of edges that stay in the
cache instead and keeps two of them. :func:`gated_edges_reference` is the plain form; both give the same values and
gradients.

Letters: N nodes, E edges, D channels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.kernels import csr
from lrga.kernels.edges import EdgeLayout
from lrga.kernels.gated_chunks import EPS, GatedEdges
from lrga.kernels.message import Edges, endpoints, sum_edges

Norm = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Normalization:
    """A batch normalisation as tensors: what :func:`torch.nn.functional.batch_norm` takes."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    training: bool
    momentum: float
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """Normalises ``[rows, D]``; in training by its own statistics, which the running ones then follow."""
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        )


def gated_edges(
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    edges: Edges,
    *,
    norm: Norm | None,
    scale: Tensor | None = None,
    residual: bool = True,
    need_edges: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Gated means ``m`` ``[N, D]`` and new edge features ``[E, D]``.

    Args:
        edge_attr: e, ``[E, D_in]``.
        weight: Of the linear map C, ``[D, D_in]``.
        bias: Of C, ``[D]``.
        gated: b, ``[N, D]``.
        from_source: d, ``[N, D]``.
        from_target: t, ``[N, D]``.
        edges: ``[2, E]`` or a layout.
        norm: Normalisation of the edges, ``None`` for none. Only a :class:`Normalization` is fused.
        scale: Factor of each edge before the normalisation, ``[E, 1]`` (graph norm).
        residual: Whether ``edge_attr`` is added to the new edge features.
        need_edges: Without need, the new edge features may be left out (``None``); running statistics are kept anyway.
    """
    tensors = (edge_attr, weight, bias, gated, from_source, from_target)
    if (
        isinstance(edges, EdgeLayout)
        and isinstance(norm, Normalization)
        and edges.num_edges
        and csr.is_fast(*tensors)
        and len({t.dtype for t in (*tensors, norm.weight)}) == 1
        and not torch.is_autocast_enabled("cpu")
    ):
        plain = partial(_plainly, edges=edges, norm=norm, scale=scale, residual=residual)
        options = (edges, norm, scale, residual, need_edges, plain)
        mean, e = GatedEdges.apply(*tensors, norm.weight, norm.bias, *options)
        return mean, e if need_edges else None
    return gated_edges_reference(*tensors, edges, norm=norm, scale=scale, residual=residual)


def gated_edges_reference(
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    edges: Edges,
    *,
    norm: Norm | None,
    scale: Tensor | None = None,
    residual: bool = True,
) -> tuple[Tensor, Tensor]:
    """:func:`gated_edges`, one tensor operation after the other."""
    source, target = endpoints(edges)
    e = F.linear(edge_attr, weight, bias) + from_source.index_select(0, source) + from_target.index_select(0, target)
    gates = e.sigmoid()
    num_nodes = gated.size(0)
    total = sum_edges(gates * gated.index_select(0, source), edges, num_nodes)
    mean = total / (sum_edges(gates, edges, num_nodes) + EPS)
    if scale is not None:
        e = e * scale
    if norm is not None:
        e = norm(e)
    e = F.relu(e)
    return mean, edge_attr + e if residual else e


def _plainly(*tensors: Tensor, norm: Normalization, **options: Any) -> tuple[Tensor, Tensor]:
    """The plain form as a function of eight tensors, which leaves the running statistics alone."""
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    still = replace(norm, weight=tensors[6], bias=tensors[7], running_mean=mean, running_var=variance)
    return gated_edges_reference(*tensors[:6], norm=still, **options)
