r"""The edges of a GatedGCN layer: gate, gated mean over the in-neighbours, and the new edge features.

.. math::
    \hat e_{ji} = C e_{ji} + d_j + t_i, \qquad
    m_i = \frac{\sum_{j \to i} \sigma(\hat e_{ji}) \odot b_j}{\sum_{j \to i} \sigma(\hat e_{ji}) + 10^{-6}}, \qquad
    e'_{ji} = e_{ji} + \mathrm{ReLU}(\mathrm{BatchNorm}(\hat e_{ji}))

with :math:`b, d, t` linear maps of the node features. A direct version such as :func:`gated_edges_reference` needs
a dozen tensors of E × D. :func:`gated_edges` on an :class:`EdgeLayout` needs fewer, with the same values and gradients:
on a CPU gates and means are computed in chunks of edges (:mod:`lrga.ops.gated.cpu`), on a GPU by few fused kernels
(:mod:`lrga.ops.gated.gpu`).

In a padded batch (``edges.valid_edges``) only the real edges count in the statistics.

Letters: T targets and S sources (both N in a whole graph), E edges, D channels.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.ops._triton import runs_on_gpu
from lrga.ops.gated.cpu import EPS, GatedMeans
from lrga.ops.neighbors import cpu as csr
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.reduce import Edges, endpoints, sum_edges
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
        weight: Weight of the linear map C, ``[D, D_in]``.
        bias: Bias of C, ``[D]``.
        gated: b, ``[S, D]``.
        from_source: d, ``[S, D]``.
        from_target: t, ``[T, D]``.
        edges: ``[2, E]`` or a layout.
        norm: Normalisation of the edges, or ``None``. Only the state of a batch normalisation is fused.
        training: Whether batch normalisation uses the statistics of this batch and updates the running statistics.
        scale: Factor of each edge before the normalisation, ``[E, 1]`` (graph norm).
        residual: Whether ``edge_attr`` is added to the new edge features.
        need_edges: If ``False``, the new edge features are ``None``; running statistics are updated anyway.
    """
    tensors = (edge_attr, weight, bias, gated, from_source, from_target)
    options: dict[str, Any] = {"norm": norm, "training": training, "scale": scale, "residual": residual}
    if isinstance(edges, EdgeLayout) and _is_fusible(*tensors, norm=norm, scale=scale, residual=residual):
        return gated_edges_fused(*tensors, edges, **options, need_edges=need_edges)
    in_chunks = isinstance(edges, EdgeLayout) and _goes_in_chunks(edges, *tensors)
    product = F.linear(edge_attr, weight, bias)
    mean, e = gated_edges_of_product(product, edge_attr, *tensors[3:], edges, **options, in_chunks=in_chunks)
    return mean, e if need_edges else None


def gated_edges_reference(
    edge_attr: Tensor, weight: Tensor, bias: Tensor, *ends_and_edges: Any, **options: Any
) -> tuple[Tensor, Tensor]:
    """:func:`gated_edges` in plain tensor operations."""
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
    in_chunks: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`gated_edges_reference` of C e, ``[E, D]``, computed by any module; with ``in_chunks`` in its memory."""
    valid = edges.valid_edges if isinstance(edges, EdgeLayout) else None
    if in_chunks:
        mean, e = GatedMeans.apply(product, gated, from_source, from_target, edges)
    else:
        source, target = endpoints(edges)
        e = product + from_source.index_select(0, source) + from_target.index_select(0, target)
        dtype, num_nodes = torch.promote_types(e.dtype, gated.dtype), from_target.size(0)
        gates = e.to(torch.promote_types(dtype, torch.float32)).sigmoid()  # sums and divides half precision
        total = sum_edges(gates * gated.index_select(0, source), edges, num_nodes)
        mean = (total / (sum_edges(gates, edges, num_nodes) + EPS)).to(dtype)
    if scale is not None:
        e = e * scale
    if isinstance(norm, BatchNormState):
        e = batch_norm_reference(e, norm, training=training, count=valid)
    elif norm is not None:
        e = norm(e)
    e = F.relu(e)
    return mean, edge_attr + e if residual else e


def _goes_in_chunks(edges: EdgeLayout, *tensors: Tensor) -> bool:
    """Whether the CPU version in chunks supports this call."""
    one_type = len({tensor.dtype for tensor in tensors}) == 1 and not torch.is_autocast_enabled("cpu")
    return edges.valid_edges is None and one_type and csr.is_supported(*tensors)


def _is_fusible(*tensors: Tensor, norm: Norm | None, scale: Tensor | None, residual: bool) -> bool:
    """Whether the GPU kernels support this call on an :class:`EdgeLayout`."""
    of_norm = (norm.weight, norm.bias, norm.mean, norm.var) if isinstance(norm, BatchNormState) else ()
    if norm is not None and not (of_norm and all(tensor is not None for tensor in of_norm)):
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
    """:func:`gated_edges` by the Triton kernels. Edges before ``edges.in_ptr[N]`` are real; new features of
    other edges are zero."""
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
