r"""GAT's sum over the in-neighbours, weighted by a softmax of scores; a score adds a source and a target term.

.. math::
    y_i = \sum_{j \to i} \alpha_{ji} x_j, \qquad
    \alpha_{ji} = \operatorname{softmax}_j \, \mathrm{LeakyReLU}(s_j + t_i), \qquad
    s_i = \langle a_s, x_i \rangle, \quad t_i = \langle a_t, x_i \rangle

for each head. A direct implementation needs several tensors of E × H and, on a GPU, messages of E × H × D; there
:mod:`lrga.ops.gat.gpu` stores only two numbers per node and head, and reads x once for both terms.

Letters: T targets and S sources (both N in a whole graph), E edges, H heads, D channels of a head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.checks import without_autocast
from lrga.errors import ShapeError
from lrga.ops._triton import runs_on_gpu
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.reduce import Edges, endpoints, num_targets, softmax_edges, sum_sources


def attention_sum(
    x: Tensor, by_source: Tensor, by_target: Tensor, edges: Edges, *, negative_slope: float, dropout: float = 0.0
) -> Tensor:
    """The weighted sums, ``[T, H, D]``.

    Args:
        x: ``[S, H, D]``.
        by_source: s, ``[S, H]``.
        by_target: t, ``[T, H]``.
        edges: ``[2, E]`` or a layout.
        negative_slope: Negative slope of the LeakyReLU.
        dropout: Probability of dropping a weight; the GPU kernel requires 0.

    Example:
        >>> import torch
        >>> x, scores = torch.tensor([[[1.0]], [[2.0]], [[4.0]]]), torch.zeros(3, 1)
        >>> edges = torch.tensor([[1, 2, 0], [0, 0, 1]])
        >>> attention_sum(x, scores, scores, edges, negative_slope=0.2).flatten().tolist()
        [3.0, 1.0, 0.0]
    """
    for name, scores, rows in (("by_source", by_source, x.size(0)), ("by_target", by_target, num_targets(edges, x))):
        if x.dim() != 3 or list(scores.shape) != [rows, x.size(1)]:
            got = f"x {list(x.shape)} and {name} {list(scores.shape)}"
            raise ShapeError(f"x of shape [N, H, D] and {name} of shape [N, H]", got, "give every node H scores")
    if isinstance(edges, EdgeLayout) and dropout == 0 and runs_on_gpu(x, by_source, by_target):
        from lrga.ops.gat.gpu import attend_op
        from lrga.ops.neighbors.gpu import graph_of, may_be_long

        graph, split = graph_of(edges, x, by_source, by_target), may_be_long(edges.num_edges, edges.longest)
        return attend_op(x, by_source, by_target, graph, negative_slope, split)[0]
    return attention_sum_reference(x, by_source, by_target, edges, negative_slope=negative_slope, dropout=dropout)


def attention_sum_reference(
    x: Tensor, by_source: Tensor, by_target: Tensor, edges: Edges, *, negative_slope: float, dropout: float = 0.0
) -> Tensor:
    """:func:`attention_sum` in plain tensor operations."""
    source, target = endpoints(edges)
    scores = by_source.index_select(0, source) + by_target.index_select(0, target)
    attention = softmax_edges(F.leaky_relu(scores, negative_slope), edges, by_target.size(0))
    return sum_sources(x, edges, F.dropout(attention, dropout))


def node_scores(x: Tensor, att_source: Tensor, att_target: Tensor) -> tuple[Tensor, Tensor]:
    """The terms s and t, ``[N, H]`` each.

    Args:
        x: ``[N, H, D]``.
        att_source: a_s, ``[H, D]``.
        att_target: a_t, ``[H, D]``.

    Example:
        >>> import torch
        >>> x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
        >>> s, t = node_scores(x, torch.ones(2, 2), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        >>> s.tolist(), t.tolist()
        ([[3.0, 7.0]], [[1.0, 4.0]])
    """
    for name, attention in (("att_source", att_source), ("att_target", att_target)):
        if x.dim() != 3 or attention.shape != x.shape[1:]:
            got = f"x {list(x.shape)} and {name} {list(attention.shape)}"
            raise ShapeError(f"x of shape [N, H, D] and {name} of shape [H, D]", got, "give every head one vector")
    if runs_on_gpu(x, att_source, att_target):
        from lrga.ops.gat import gpu

        return gpu.node_scores(x, att_source, att_target)
    return node_scores_reference(x, att_source, att_target)


def node_scores_reference(x: Tensor, att_source: Tensor, att_target: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`node_scores` as one matrix product, ``[N, H·D]`` with ``[H·D, 2·H]``."""
    dtype = score_dtype(x, att_source, att_target)
    blocks = [torch.block_diag(*attention.to(dtype).unsqueeze(1)) for attention in (att_source, att_target)]
    with without_autocast(x.device.type):  # half precision is too coarse for the softmax that follows
        by_source, by_target = F.linear(x.flatten(1).to(dtype), torch.cat(blocks)).split(x.size(1), 1)
    return by_source, by_target


def score_dtype(x: Tensor, of_source: Tensor, of_target: Tensor) -> torch.dtype:
    """The widest dtype of the three."""
    return torch.promote_types(torch.promote_types(x.dtype, of_source.dtype), of_target.dtype)
