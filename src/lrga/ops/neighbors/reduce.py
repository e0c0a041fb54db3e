r"""Sums, means, maxima and softmax over the incoming edges of a node.

Every function takes the edges as PyG's tensor ``[2, E]`` (any order; for compile and export) or as an
:class:`~lrga.ops.neighbors.edges.EdgeLayout` (sorted by target; on a CPU sums and maxima over sources then run as
sparse matrix products, see :mod:`lrga.ops.neighbors.cpu`, on a GPU as one kernel each, :mod:`lrga.ops.neighbors.gpu`).
All give the same values and gradients. A node without incoming edges gets zero.
Half precision is weighted, summed and scaled in float32 and rounded once, at the end.

Letters: T targets and S sources (both N in a whole graph), E edges, H heads, D channels.
"""

import torch
from torch import Tensor

from lrga.errors import ShapeError
from lrga.ops._triton import runs_on_gpu
from lrga.ops.neighbors import cpu as csr
from lrga.ops.neighbors.edges import EdgeLayout

Edges = EdgeLayout | Tensor


def endpoints(edges: Edges) -> tuple[Tensor, Tensor]:
    """Source and target of each edge, ``[E]`` each."""
    if isinstance(edges, EdgeLayout):
        return edges.source, edges.target
    edges = edges.long()  # torch's scatter_reduce has wrong gradients with narrower dtypes
    return edges[0], edges[1]


def is_half(x: Tensor) -> bool:
    """Whether sums of x would overflow or lose digits in its own precision."""
    return x.dtype in (torch.float16, torch.bfloat16)


def num_edges(edges: Edges) -> int:
    """E."""
    return edges.num_edges if isinstance(edges, EdgeLayout) else edges.size(1)


def num_targets(edges: Edges, x: Tensor) -> int:
    """T, the number of targets of edges between nodes with features ``x``."""
    return edges.num_targets if isinstance(edges, EdgeLayout) else x.size(0)


def degrees(edges: Edges, num_nodes: int) -> tuple[Tensor, Tensor]:
    """In- and out-degree of each node, ``[N]`` int64 each."""
    if isinstance(edges, EdgeLayout):
        if torch.compiler.is_compiling():  # compilers do not trace cached values
            return edges.in_ptr.diff(), edges.out_ptr.diff()
        return edges.in_degree, edges.out_degree
    ones = torch.ones_like(edges[0])
    zeros = ones.new_zeros(num_nodes)
    return zeros.index_add(0, edges[1], ones), zeros.index_add(0, edges[0], ones)


def symmetric_factors(edges: Edges, x: Tensor) -> tuple[Tensor, Tensor]:
    """1/√ of the in- and out-degrees (at least 1), ``[T]`` and ``[S]``: the factors of GCN's sums."""
    wide = torch.promote_types(x.dtype, torch.float32)  # float16 cannot represent large degrees
    if isinstance(edges, EdgeLayout) and edges.gcn_factors is not None:
        return edges.gcn_factors[0].to(wide), edges.gcn_factors[1].to(wide)
    if isinstance(edges, EdgeLayout) and runs_on_gpu(x) and not torch.compiler.is_compiling():
        return edges.degree_roots
    dst_scale, src_scale = (d.clamp(min=1).to(wide).rsqrt() for d in degrees(edges, x.size(0)))
    return dst_scale, src_scale


def sum_sources(
    x: Tensor,
    edges: Edges,
    weight: Tensor | None = None,
    *,
    dst_scale: Tensor | None = None,
    src_scale: Tensor | None = None,
) -> Tensor:
    r"""Weighted sum over the in-neighbours, :math:`s_i \sum_{j \to i} w_{ji} t_j x_j`.

    Args:
        x: ``[S, D]``, or ``[S, H, D]`` for several heads.
        edges: ``[2, E]`` or a layout.
        weight: w, ``[E]``, or ``[E, H]`` for several heads; ``None`` is 1.
        dst_scale: s, factor of each sum, ``[T]``; ``None`` is 1.
        src_scale: t, factor of each source, ``[S]``; ``None`` is 1.

    Example:
        >>> import torch
        >>> x, edges = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([[1, 2, 0], [0, 0, 1]])
        >>> sum_sources(x, edges).tolist()
        [[6.0], [1.0], [0.0]]
        >>> sum_sources(x, edges, src_scale=torch.tensor([5.0, 1.0, 0.5])).tolist()
        [[4.0], [5.0], [0.0]]
    """
    _check_shape("weight", weight, [num_edges(edges), *x.shape[1:-1]], "give every edge one weight")
    _check_shape("dst_scale", dst_scale, [num_targets(edges, x)], "give every node one factor")
    _check_shape("src_scale", src_scale, [x.size(0)], "give every node one factor")
    factors = (dst_scale, src_scale)
    learned = any(f is not None and f.requires_grad for f in factors)
    if isinstance(edges, EdgeLayout) and runs_on_gpu(x, weight, *factors) and not learned:
        from lrga.ops.neighbors import gpu as neighbors_gpu

        split = neighbors_gpu.may_be_long(edges.num_edges, edges.longest)
        return neighbors_gpu.sum_sources_op(x, weight, *factors, neighbors_gpu.graph_of(edges, x), split)
    x, weight, dtype = _widened(x, weight)
    # On a CPU a strided sparse product for each head takes longer than the definition.
    if isinstance(edges, EdgeLayout) and csr.is_supported(x, weight) and (x.dim() == 2 or weight is None):
        total = csr.sum_sources(_scaled(x, src_scale).flatten(1), edges, weight)
        return _scaled(total.view(edges.num_targets, *x.shape[1:]), dst_scale).to(dtype)
    return sum_sources_reference(x, edges, weight, dst_scale=dst_scale, src_scale=src_scale).to(dtype)


def sum_sources_reference(
    x: Tensor,
    edges: Edges,
    weight: Tensor | None = None,
    *,
    dst_scale: Tensor | None = None,
    src_scale: Tensor | None = None,
) -> Tensor:
    """:func:`sum_sources` by gathering a message for each edge and adding it to its target."""
    x, weight, dtype = _widened(x, weight)
    source, target = endpoints(edges)
    messages = _scaled(x, src_scale).index_select(0, source)
    if weight is not None:
        messages = weight.unsqueeze(-1) * messages
    return _scaled(sum_edges_reference(messages, target, num_targets(edges, x)), dst_scale).to(dtype)


def _widened(x: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None, torch.dtype]:
    """Features and weights, at least in float32 if x is in half precision; and the dtype of their sums."""
    dtype = x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)
    if is_half(x):
        x, weight = x.float(), None if weight is None else weight.to(torch.promote_types(weight.dtype, torch.float32))
    return x, weight, dtype


def mean_sources(x: Tensor, edges: Edges) -> Tensor:
    """Mean over the in-neighbours, ``[S, D]`` to ``[T, D]``."""
    if isinstance(edges, EdgeLayout) and runs_on_gpu(x) and not torch.compiler.is_compiling():
        return sum_sources(x, edges, dst_scale=edges.degree_inverse)
    if is_half(x):
        return mean_sources(x.float(), edges).to(x.dtype)
    in_degree, _ = degrees(edges, x.size(0))
    return sum_sources(x, edges) / in_degree.clamp(min=1).to(x.dtype).unsqueeze(-1)


def max_sources(x: Tensor, edges: Edges) -> Tensor:
    """Maximum over the in-neighbours in each channel, ``[S, D]`` to ``[T, D]``; equal maxima share the gradient.

    If a neighbour is NaN, the maximum and the gradients of all neighbours are NaN.
    """
    if isinstance(edges, EdgeLayout) and runs_on_gpu(x):
        from lrga.ops.neighbors import gpu as neighbors_gpu

        return neighbors_gpu.max_sources_op(x, neighbors_gpu.graph_of(edges, x))[0]
    if isinstance(edges, EdgeLayout) and csr.is_supported(x):
        return csr.max_sources(x, edges)
    return max_sources_reference(x, edges)


def max_sources_reference(x: Tensor, edges: Edges) -> Tensor:
    """:func:`max_sources` by scattering a message for each edge."""
    source, target = endpoints(edges)
    messages = x.index_select(0, source)
    index = target.unsqueeze(-1).expand_as(messages)
    # Starts at -inf, because in torch a starting value equal to the maximum shares the gradient.
    lowest = x.new_full((num_targets(edges, x), x.size(1)), -torch.inf)
    highest = lowest.scatter_reduce(0, index, messages, "amax")
    in_degree, _ = degrees(edges, x.size(0))
    return highest.masked_fill(in_degree.unsqueeze(-1) == 0, 0.0)


def sum_edges(values: Tensor, edges: Edges, num_nodes: int) -> Tensor:
    """Sums values over the incoming edges of each node: ``[E, …]`` to ``[N, …]``."""
    if isinstance(edges, EdgeLayout) and runs_on_gpu(values):
        from lrga.ops.neighbors import gpu as neighbors_gpu

        split = neighbors_gpu.may_be_long(edges.num_edges, edges.longest)
        return neighbors_gpu.sum_edges_op(values, edges.target, edges.in_ptr, split)
    return sum_edges_reference(values, endpoints(edges)[1], num_nodes)


def sum_edges_reference(values: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """:func:`sum_edges` by adding each edge to its target."""
    wide = values.float() if is_half(values) else values
    return wide.new_zeros(num_nodes, *values.shape[1:]).index_add(0, target, wide).to(values.dtype)


def softmax_edges(scores: Tensor, edges: Edges, num_nodes: int) -> Tensor:
    """Softmax over the incoming edges of each node, ``[E, H]`` to ``[E, H]``."""
    _, target = endpoints(edges)
    wide = scores.float() if is_half(scores) else scores
    with torch.no_grad():  # the softmax does not depend on the shift
        index = target.unsqueeze(-1).expand_as(wide)
        lowest = wide.new_full((num_nodes, wide.size(1)), -torch.inf)
        highest = lowest.scatter_reduce(0, index, wide, "amax")
    weights = (wide - highest.index_select(0, target)).exp()
    totals = sum_edges(weights, edges, num_nodes)
    totals = totals.masked_fill(totals == 0, 1.0)  # nodes that have only padding edges, which are not summed
    return (weights / totals.index_select(0, target)).to(scores.dtype)


def _scaled(x: Tensor, factor: Tensor | None) -> Tensor:
    """Each row times its factor, in the dtype of the rows."""
    return x if factor is None else x * factor.to(x.dtype).view(-1, *[1] * (x.dim() - 1))


def _check_shape(name: str, factor: Tensor | None, wanted: list[int], remedy: str) -> None:
    if factor is not None and list(factor.shape) != wanted:
        raise ShapeError(f"{name} of shape {wanted}", f"shape {list(factor.shape)}", remedy)
