r"""GAT's sum over the in-neighbours, weighted by a softmax of scores that are sums of a term of each end.

.. math::
    y_i = \sum_{j \to i} \alpha_{ji} x_j, \qquad
    \alpha_{ji} = \operatorname{softmax}_j \, \mathrm{LeakyReLU}(s_j + t_i)

for each head. Written plainly this makes several tensors of E × H and, on a GPU, messages of E × H × D; there
:mod:`lrga.kernels.triton_softmax` keeps two numbers for each node and head instead.

Letters: N nodes, E edges, H heads, D channels of a head.
"""

import torch.nn.functional as F
from torch import Tensor

from lrga.errors import ShapeError
from lrga.kernels.edges import EdgeLayout
from lrga.kernels.message import Edges, endpoints, softmax_edges, sum_sources
from lrga.kernels.support import runs_on_gpu


def attention_sum(
    x: Tensor,
    by_source: Tensor,
    by_target: Tensor,
    edges: Edges,
    *,
    negative_slope: float,
    dropout: float = 0.0,
) -> Tensor:
    """The weighted sums, ``[N, H, D]``.

    Args:
        x: ``[N, H, D]``.
        by_source: s, ``[N, H]``.
        by_target: t, ``[N, H]``.
        edges: ``[2, E]`` or a layout.
        negative_slope: Of the LeakyReLU.
        dropout: Probability with which a weight is dropped; the GPU kernel is for none.

    Example:
        >>> import torch
        >>> x, scores = torch.tensor([[[1.0]], [[2.0]], [[4.0]]]), torch.zeros(3, 1)
        >>> edges = torch.tensor([[1, 2, 0], [0, 0, 1]])
        >>> attention_sum(x, scores, scores, edges, negative_slope=0.2).flatten().tolist()
        [3.0, 1.0, 0.0]
    """
    wanted = list(x.shape[:2])
    for name, scores in (("by_source", by_source), ("by_target", by_target)):
        if x.dim() != 3 or list(scores.shape) != wanted:
            got = f"x {list(x.shape)} and {name} {list(scores.shape)}"
            raise ShapeError(f"x of shape [N, H, D] and {name} of shape [N, H]", got, "give every node H scores")
    if isinstance(edges, EdgeLayout) and dropout == 0 and runs_on_gpu(x, by_source, by_target):
        from lrga.kernels import triton_softmax

        return triton_softmax.attention_sum(x, by_source, by_target, edges, negative_slope)
    return attention_sum_reference(x, by_source, by_target, edges, negative_slope=negative_slope, dropout=dropout)


def attention_sum_reference(
    x: Tensor,
    by_source: Tensor,
    by_target: Tensor,
    edges: Edges,
    *,
    negative_slope: float,
    dropout: float = 0.0,
) -> Tensor:
    """:func:`attention_sum`, one tensor operation after the other."""
    source, target = endpoints(edges)
    scores = by_source.index_select(0, source) + by_target.index_select(0, target)
    attention = softmax_edges(F.leaky_relu(scores, negative_slope), edges, x.size(0))
    return sum_sources(x, edges, F.dropout(attention, dropout))
