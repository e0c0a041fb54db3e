r"""The edges of a GatedGCN layer: gate, gated mean over the in-neighbours, and the new edge features.

.. math::
    \hat e_{ji} = C e_{ji} + d_j + t_i, \qquad
    m_i = \frac{\sum_{j \to i} \sigma(\hat e_{ji}) \odot b_j}{\sum_{j \to i} \sigma(\hat e_{ji}) + 10^{-6}}, \qquad
    e'_{ji} = e_{ji} + \mathrm{ReLU}(\mathrm{BatchNorm}(\hat e_{ji}))

with :math:`b, d, t` linear maps of the node features. Written plainly this makes a dozen tensors of E × D; on a CPU the
time goes into their pages. :func:`gated_edges` on an :class:`EdgeLayout` walks through chunks of edges that stay in the
cache instead and keeps two of them; on a GPU it is a few fused kernels (:mod:`lrga.kernels.gated_gpu`).
:func:`gated_edges_reference` is the plain form; all give the same values and gradients.

In a batch of fixed capacity (:mod:`lrga.kernels.padding`) statistics are those of the real edges.

Letters: N nodes, E edges, D channels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.kernels import csr
from lrga.kernels.edges import EdgeLayout
from lrga.kernels.gated_chunks import EPS, GatedEdges
from lrga.kernels.message import Edges, endpoints, sum_edges, sum_edges_reference
from lrga.kernels.norm import Running, batch_norm_reference
from lrga.kernels.padding import real_rows
from lrga.kernels.support import runs_on_gpu

Norm = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Normalization:
    """A batch normalisation as tensors: what :func:`torch.nn.functional.batch_norm` takes."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    training: bool
    momentum: float | Tensor  # a scalar on the device where the rate depends on numbers there
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """Normalises ``[rows, D]``; in training by its own statistics, which the running ones then follow."""
        count = real_rows(x)
        if count is not None and self.training:
            rate = cast("float", self.momentum)  # only multiplied with, so that a scalar on the device will do
            state = Running(self.weight, self.bias, self.running_mean, self.running_var, None, rate, self.eps)
            return batch_norm_reference(x, state, training=True, count=count)
        return F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            float(self.momentum) if self.training else 0.0,
            self.eps,
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
    if isinstance(edges, EdgeLayout) and _is_fusible(*tensors, norm=norm, scale=scale, residual=residual):
        return gated_edges_fused(
            *tensors,
            edges,
            norm=norm if isinstance(norm, Normalization) else None,
            scale=scale,
            residual=residual,
            need_edges=need_edges,
        )
    if (
        isinstance(edges, EdgeLayout)
        and isinstance(norm, Normalization)
        and real_rows(edge_attr) is None
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
    product = F.linear(edge_attr, weight, bias)
    return gated_edges_of_product(
        product, edge_attr, gated, from_source, from_target, edges, norm=norm, scale=scale, residual=residual
    )


def gated_edges_of_product(
    product: Tensor,
    edge_attr: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    edges: Edges,
    *,
    norm: Norm | None,
    scale: Tensor | None = None,
    residual: bool = True,
) -> tuple[Tensor, Tensor]:
    """:func:`gated_edges_reference` of C e, ``[E, D]``, whatever module computed it."""
    source, target = endpoints(edges)
    e = product + from_source.index_select(0, source) + from_target.index_select(0, target)
    dtype, num_nodes = torch.promote_types(e.dtype, gated.dtype), gated.size(0)
    wide = torch.promote_types(dtype, torch.float32)  # in which half precision is summed and divided
    gates = e.to(wide).sigmoid()
    # In a padded batch the last edges are in no node's run, but it does no harm to add them to the dummy at the end.
    add = (
        sum_edges if real_rows(edge_attr) is None else lambda values, *_: sum_edges_reference(values, target, num_nodes)
    )
    total = add(gates * gated.index_select(0, source), edges, num_nodes)
    mean = (total / (add(gates, edges, num_nodes) + EPS)).to(dtype)
    if scale is not None:
        e = e * scale
    if norm is not None:
        e = norm(e)
    e = F.relu(e)
    return mean, edge_attr + e if residual else e


def _is_fusible(*tensors: Tensor, norm: Norm | None, scale: Tensor | None, residual: bool) -> bool:
    """Whether the GPU's kernels compute this, given an :class:`EdgeLayout`."""
    of_norm: tuple[Tensor, ...] = ()
    if isinstance(norm, Normalization):
        of_norm = norm.weight, norm.bias, norm.running_mean, norm.running_var
    elif norm is not None:
        return False
    edge_attr, weight = tensors[:2]
    return (
        runs_on_gpu(*tensors, *of_norm, scale)
        and (torch.is_autocast_enabled("cuda") or edge_attr.dtype == weight.dtype)
        and (not residual or edge_attr.size(1) == weight.size(0))
        and (scale is None or not scale.requires_grad)
    )


def gated_edges_fused(
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    edges: EdgeLayout,
    *,
    norm: Normalization | None,
    scale: Tensor | None = None,
    residual: bool = True,
    need_edges: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """:func:`gated_edges` by the Triton kernels. Real edges are those before ``edges.in_ptr[N]``; the new features of
    the others are zero."""
    from lrga.kernels.gated_gpu import gated_forward
    from lrga.kernels.sum_ops import turned_targets

    learned = (edge_attr, weight, bias, gated, from_source, from_target)
    turned = turned_targets(edges, *learned, *(() if norm is None else (norm.weight, norm.bias)))
    device = edge_attr.device.type
    if torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
        weight, bias = weight.to(kind), bias.to(kind)
    momentum = norm.momentum if norm is not None and norm.training else 0.0
    mean, new, _, _, _, running = gated_forward(
        edge_attr,
        weight,
        bias,
        gated,
        from_source,
        from_target,
        norm.weight if norm is not None else None,
        norm.bias if norm is not None else None,
        norm.running_mean if norm is not None else None,
        norm.running_var if norm is not None else None,
        momentum if isinstance(momentum, Tensor) else None,
        scale,
        edges.source,
        edges.target,
        edges.in_ptr,
        edges.out_order,
        edges.out_order if turned is None else turned,  # backward only
        edges.out_ptr,
        0.0 if isinstance(momentum, Tensor) else momentum,
        norm.eps if norm is not None else 0.0,
        norm is not None and norm.training,
        residual,
        need_edges,
    )
    if norm is not None and norm.training and edges.num_nodes:
        with torch.no_grad():
            torch._foreach_copy_([norm.running_mean, norm.running_var], list(running.unbind()))
    return mean, new if need_edges else None


def _plainly(*tensors: Tensor, norm: Normalization, **options: Any) -> tuple[Tensor, Tensor]:
    """The plain form as a function of eight tensors, which leaves the running statistics alone."""
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    still = replace(norm, weight=tensors[6], bias=tensors[7], running_mean=mean, running_var=variance)
    return gated_edges_reference(*tensors[:6], norm=still, **options)
