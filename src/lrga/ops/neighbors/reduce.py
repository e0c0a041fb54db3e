r"""Sums, means, maxima and softmax over the edges that end in a node.

Every function takes the edges as PyG's tensor ``[2, E]`` (any order; compiles and exports, no look at values) or as an
:class:`~lrga.ops.neighbors.edges.EdgeLayout` (sorted by target; on a CPU the sums then run as sparse matrix
products, see :mod:`lrga.ops.neighbors.cpu`, on a GPU as one kernel each, :mod:`lrga.ops.neighbors.gpu`).
All give the same values and gradients. A node without incoming edges gets zero.
Half precision is weighted, summed and scaled in float32 and rounded once, at the end.

Letters: T targets and S sources (both N in a whole graph), E edges, H heads, D channels.
"""

from collections.abc import Callable

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
    edges = edges.long()  # torch's scatter_reduce has wrong gradients with narrower ones
    return edges[0], edges[1]


def is_half(x: Tensor) -> bool:
    """Whether sums of x would overflow or lose digits in its own precision."""
    return x.dtype in (torch.float16, torch.bfloat16)


def num_edges(edges: Edges) -> int:
    """E."""
    return edges.num_edges if isinstance(edges, EdgeLayout) else edges.size(1)


def num_targets(edges: Edges, x: Tensor) -> int:
    """T, of edges between nodes that have the features ``x``."""
    return edges.num_targets if isinstance(edges, EdgeLayout) else x.size(0)


def degrees(edges: Edges, num_nodes: int) -> tuple[Tensor, Tensor]:
    """How many edges end and begin in each node, two ``[N]`` int64."""
    if isinstance(edges, EdgeLayout):
        if torch.compiler.is_compiling():  # a compiler does not trace through what a layout keeps
            return edges.in_ptr.diff(), edges.out_ptr.diff()
        return edges.in_degree, edges.out_degree
    ones = torch.ones_like(edges[0])
    zeros = ones.new_zeros(num_nodes)
    return zeros.index_add(0, edges[1], ones), zeros.index_add(0, edges[0], ones)


def symmetric_factors(edges: Edges, x: Tensor) -> tuple[Tensor, Tensor]:
    """1/√ of each node's edges in and out, at least one, ``[T]`` and ``[S]``: the factors of GCN's sums."""
    wide = torch.promote_types(x.dtype, torch.float32)  # float16 does not hold every degree
    if isinstance(edges, EdgeLayout) and edges.gcn_factors is not None:
        dst_scale, src_scale = (factor.to(wide) for factor in edges.gcn_factors)
        return dst_scale, src_scale
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
        weight: w, ``[E]``, or ``[E, H]`` for several heads; ``None`` is one.
        dst_scale: s, a factor for each node that is summed into, ``[T]``; ``None`` is one.
        src_scale: t, a factor for each node that is summed, ``[S]``; ``None`` is one.

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

        return neighbors_gpu.sum_sources(x, edges, weight, dst_scale=dst_scale, src_scale=src_scale)
    if is_half(x):
        return _summed_in_float32(sum_sources, x, edges, weight, dst_scale, src_scale)
    if isinstance(edges, EdgeLayout) and csr.is_supported(x, weight):
        return _scaled(_sum_sources_csr(_scaled(x, src_scale), edges, weight), dst_scale)
    return sum_sources_reference(x, edges, weight, dst_scale=dst_scale, src_scale=src_scale)


def _sum_sources_csr(x: Tensor, layout: EdgeLayout, weight: Tensor | None) -> Tensor:
    if x.dim() == 2:
        return csr.sum_sources(x, layout, weight)
    if weight is None:
        return csr.sum_sources(x.flatten(1), layout, None).view(layout.num_targets, *x.shape[1:])
    return torch.stack([csr.sum_sources(x[:, h], layout, weight[:, h]) for h in range(x.size(1))], dim=1)


def sum_sources_reference(
    x: Tensor,
    edges: Edges,
    weight: Tensor | None = None,
    *,
    dst_scale: Tensor | None = None,
    src_scale: Tensor | None = None,
) -> Tensor:
    """:func:`sum_sources` by gathering a message for each edge and adding it where it ends."""
    if is_half(x):
        return _summed_in_float32(sum_sources_reference, x, edges, weight, dst_scale, src_scale)
    source, target = endpoints(edges)
    messages = _scaled(x, src_scale).index_select(0, source)
    if weight is not None:
        messages = weight.unsqueeze(-1) * messages
    return _scaled(sum_edges_reference(messages, target, num_targets(edges, x)), dst_scale)


def _summed_in_float32(
    function: Callable[..., Tensor],
    x: Tensor,
    edges: Edges,
    weight: Tensor | None,
    dst_scale: Tensor | None,
    src_scale: Tensor | None,
) -> Tensor:
    dtype = x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)
    weight = None if weight is None else weight.to(torch.promote_types(weight.dtype, torch.float32))
    return function(x.float(), edges, weight, dst_scale=dst_scale, src_scale=src_scale).to(dtype)


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

    Where a neighbour is NaN, so are the maximum and the gradients of all its neighbours.
    """
    if isinstance(edges, EdgeLayout) and runs_on_gpu(x):
        from lrga.ops.neighbors import gpu as neighbors_gpu

        return neighbors_gpu.max_sources(x, edges)
    if isinstance(edges, EdgeLayout) and csr.is_supported(x):
        return csr.max_sources(x, edges)
    return max_sources_reference(x, edges)


def max_sources_reference(x: Tensor, edges: Edges) -> Tensor:
    """:func:`max_sources` by scattering a message for each edge."""
    source, target = endpoints(edges)
    messages = x.index_select(0, source)
    index = target.unsqueeze(-1).expand_as(messages)
    # From -inf, for torch counts an equal starting value among those that share the gradient.
    lowest = x.new_full((num_targets(edges, x), x.size(1)), -torch.inf)
    highest = lowest.scatter_reduce(0, index, messages, "amax")
    in_degree, _ = degrees(edges, x.size(0))
    return highest.masked_fill(in_degree.unsqueeze(-1) == 0, 0.0)


def sum_edges(values: Tensor, edges: Edges, num_nodes: int) -> Tensor:
    """Values of the edges that end in each node, summed: ``[E, …]`` to ``[N, …]``."""
    if isinstance(edges, EdgeLayout) and runs_on_gpu(values):
        from lrga.ops.neighbors import gpu as neighbors_gpu

        return neighbors_gpu.sum_edges(values, edges)
    if isinstance(edges, EdgeLayout) and csr.is_supported(values):
        return csr.sum_edges(values.flatten(1), edges).view(num_nodes, *values.shape[1:])
    return sum_edges_reference(values, endpoints(edges)[1], num_nodes)


def sum_edges_reference(values: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """:func:`sum_edges` by adding each edge where it ends."""
    wide = values.float() if is_half(values) else values
    return wide.new_zeros(num_nodes, *values.shape[1:]).index_add(0, target, wide).to(values.dtype)


def softmax_edges(scores: Tensor, edges: Edges, num_nodes: int) -> Tensor:
    """Softmax over the edges that end in the same node, ``[E, H]`` to ``[E, H]``."""
    _, target = endpoints(edges)
    wide = scores.float() if is_half(scores) else scores
    with torch.no_grad():  # the softmax does not depend on the shift
        index = target.unsqueeze(-1).expand_as(wide)
        lowest = wide.new_full((num_nodes, wide.size(1)), -torch.inf)
        highest = lowest.scatter_reduce(0, index, wide, "amax")
    weights = (wide - highest.index_select(0, target)).exp()
    totals = sum_edges(weights, edges, num_nodes)
    return (weights / totals.index_select(0, target)).to(scores.dtype)


def _scaled(x: Tensor, factor: Tensor | None) -> Tensor:
    """Each row times its factor, in the precision of the rows."""
    return x if factor is None else x * factor.to(x.dtype).view(-1, *[1] * (x.dim() - 1))


def _check_shape(name: str, factor: Tensor | None, wanted: list[int], remedy: str) -> None:
    if factor is not None and list(factor.shape) != wanted:
        raise ShapeError(f"{name} of shape {wanted}", f"shape {list(factor.shape)}", remedy)
