r"""The edges of a GatedGCN layer: gate, gated mean over the in-neighbours, and the new edge features.

.. math::
    \hat e_{ji} = C e_{ji} + d_j + t_i, \qquad
    m_i = \frac{\sum_{j \to i} \sigma(\hat e_{ji}) \odot b_j}{\sum_{j \to i} \sigma(\hat e_{ji}) + 10^{-6}}, \qquad
    e'_{ji} = e_{ji} + \mathrm{ReLU}(\mathrm{BatchNorm}(\hat e_{ji}))

with :math:`b, d, t` linear maps of the node features. Written plainly this makes a dozen tensors of E × D; on a CPU the
time goes into their pages. :func:`gated_edges` on an :class:`EdgeLayout` walks through chunks of edges that stay in the
cache instead and keeps two of them; on a GPU it is a few fused kernels (:mod:`lrga.ops.gated.gpu`).
:func:`gated_edges_reference` is the plain form; all give the same values and gradients.

In a batch of fixed capacity (``edges.valid_edges``) statistics are those of the real edges.

Letters: T targets and S sources (both N in a whole graph), E edges, D channels.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.ops._triton import runs_on_gpu
from lrga.ops.gated.cpu import EPS, GatedEdges
from lrga.ops.neighbors import cpu as csr
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.reduce import Edges, endpoints, sum_edges, sum_edges_reference
from lrga.ops.norm.definition import BatchNormState, batch_norm_reference, share_of_batch

Norm = BatchNormState | Callable[[Tensor], Tensor]


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
    training: bool = True,
    scale: Tensor | None = None,
    residual: bool = True,
    need_edges: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Gated means ``m`` ``[T, D]`` and new edge features ``[E, D]``.

    Args:
        edge_attr: e, ``[E, D_in]``.
        weight: Of the linear map C, ``[D, D_in]``.
        bias: Of C, ``[D]``.
        gated: b, ``[S, D]``.
        from_source: d, ``[S, D]``.
        from_target: t, ``[T, D]``.
        edges: ``[2, E]`` or a layout.
        norm: Normalisation of the edges, ``None`` for none. Only a batch normalisation's state is fused.
        training: Whether a batch normalisation takes the statistics of this batch, which the running ones then follow.
        scale: Factor of each edge before the normalisation, ``[E, 1]`` (graph norm).
        residual: Whether ``edge_attr`` is added to the new edge features.
        need_edges: Without need, the new edge features may be left out (``None``); running statistics are kept anyway.
    """
    tensors = (edge_attr, weight, bias, gated, from_source, from_target)
    options: dict[str, Any] = {"norm": norm, "training": training, "scale": scale, "residual": residual}
    if isinstance(edges, EdgeLayout) and _is_fusible(*tensors, norm=norm, scale=scale, residual=residual):
        return gated_edges_fused(*tensors, edges, **options, need_edges=need_edges)
    if (
        isinstance(edges, EdgeLayout)
        and isinstance(norm, BatchNormState)
        and _goes_in_chunks(edges, *tensors, norm=norm)
    ):
        options["training"] = training and edges.num_edges >= 2  # one row has no variance
        plain = partial(_plainly, edges=edges, **options)
        mean, e = GatedEdges.apply(*tensors, norm.weight, norm.bias, edges, *options.values(), need_edges, plain)
        return mean, e if need_edges else None
    return gated_edges_reference(*tensors, edges, **options)


def gated_edges_reference(
    edge_attr: Tensor, weight: Tensor, bias: Tensor, *ends_and_edges: Any, **options: Any
) -> tuple[Tensor, Tensor]:
    """:func:`gated_edges`, one tensor operation after the other."""
    return gated_edges_of_product(F.linear(edge_attr, weight, bias), edge_attr, *ends_and_edges, **options)


def gated_edges_of_product(
    product: Tensor,
    edge_attr: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    edges: Edges,
    *,
    norm: Norm | None,
    training: bool = True,
    scale: Tensor | None = None,
    residual: bool = True,
) -> tuple[Tensor, Tensor]:
    """:func:`gated_edges_reference` of C e, ``[E, D]``, whatever module computed it."""
    source, target = endpoints(edges)
    e = product + from_source.index_select(0, source) + from_target.index_select(0, target)
    dtype, num_nodes = torch.promote_types(e.dtype, gated.dtype), from_target.size(0)
    valid = edges.valid_edges if isinstance(edges, EdgeLayout) else None
    wide = torch.promote_types(dtype, torch.float32)  # in which half precision is summed and divided
    gates = e.to(wide).sigmoid()
    # In a padded batch the last edges are in no node's run, but it does no harm to add them to the dummy at the end.
    add = sum_edges if valid is None else lambda values, *_: sum_edges_reference(values, target, num_nodes)
    total = add(gates * gated.index_select(0, source), edges, num_nodes)
    mean = (total / (add(gates, edges, num_nodes) + EPS)).to(dtype)
    if scale is not None:
        e = e * scale
    if isinstance(norm, BatchNormState):
        e = batch_norm_reference(e, norm, training=training, count=valid)
    elif norm is not None:
        e = norm(e)
    e = F.relu(e)
    return mean, edge_attr + e if residual else e


def _is_whole(norm: BatchNormState) -> bool:
    return norm.weight is not None and norm.bias is not None and norm.mean is not None and norm.var is not None


def _goes_in_chunks(edges: EdgeLayout, *tensors: Tensor, norm: BatchNormState) -> bool:
    """Whether the CPU's chunks of edges compute this."""
    return (
        edges.valid_edges is None
        and edges.num_edges > 0
        and csr.is_supported(*tensors)
        and _is_whole(norm)
        and len({t.dtype for t in (*tensors, norm.weight) if t is not None}) == 1
        and not torch.is_autocast_enabled("cpu")
    )


def _is_fusible(*tensors: Tensor, norm: Norm | None, scale: Tensor | None, residual: bool) -> bool:
    """Whether the GPU's kernels compute this, given an :class:`EdgeLayout`."""
    of_norm: tuple[Tensor | None, ...] = ()
    if isinstance(norm, BatchNormState):
        of_norm = norm.weight, norm.bias, norm.mean, norm.var
    if norm is not None and not (isinstance(norm, BatchNormState) and _is_whole(norm)):
        return False
    edge_attr, weight = tensors[:2]
    return (
        runs_on_gpu(*tensors, *of_norm, scale)
        and (torch.is_autocast_enabled("cuda") or edge_attr.dtype == weight.dtype)
        and (not residual or edge_attr.size(1) == weight.size(0))
        and (scale is None or not scale.requires_grad)
    )


def gated_edges_fused(
    *inputs: Any,
    norm: BatchNormState | None,
    training: bool = True,
    scale: Tensor | None = None,
    residual: bool = True,
    need_edges: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """:func:`gated_edges` by the Triton kernels. Real edges are those before ``edges.in_ptr[N]``; the new features of
    the others are zero."""
    from lrga.ops.gated.gpu import gated_forward
    from lrga.ops.neighbors.gpu import graph_of

    *learned, edges = inputs
    affine, running = ((None, None), []) if norm is None else ((norm.weight, norm.bias), [*norm.running])
    graph = graph_of(edges, *(t for t in (*learned, *affine) if t is not None))
    count = edges.num_edges if edges.valid_edges is None else edges.valid_edges
    training = training and norm is not None and (edges.valid_edges is not None or edges.num_edges >= 2)
    share = share_of_batch(norm, count) if norm is not None and training else 0.0
    rate, known_rate = (share, 0.0) if isinstance(share, Tensor) else (None, share)
    device = learned[0].device.type
    if torch.is_autocast_enabled(device):
        learned[1:3] = (tensor.to(torch.get_autocast_dtype(device)) for tensor in learned[1:3])  # the map C
    options = (known_rate, 0.0 if norm is None else norm.eps, training, residual, need_edges)
    mean, new, _, _, _, new_running = gated_forward(*learned, *affine, running, rate, scale, graph, *options)
    if training and edges.num_targets:
        with torch.no_grad():
            torch._foreach_copy_(running, list(new_running.unbind()))
    return mean, new if need_edges else None


def _plainly(*tensors: Tensor, norm: BatchNormState, **options: Any) -> tuple[Tensor, Tensor]:
    """The plain form as a function of eight tensors, which leaves the running statistics alone."""
    mean, var = (tensor.clone() for tensor in norm.running)
    still = replace(norm, weight=tensors[6], bias=tensors[7], mean=mean, var=var, batches=None)
    return gated_edges_reference(*tensors[:6], norm=still, **options)
