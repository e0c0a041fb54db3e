r"""GAT's terms of the scores: one of each node as a source and one as a target, for each head.

.. math::
    s_i = \langle a_s, x_i \rangle, \qquad t_i = \langle a_t, x_i \rangle

As products and sums over channels this reads x twice and keeps two tensors of its size, and as many backward. The
definition below is one product of matrices with all heads of both vectors as blocks on a diagonal; on a GPU
:mod:`lrga.kernels.triton_scores` reads x once, in float32 whatever the dtype is.

Letters: N nodes, H heads, D channels of a head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.errors import ShapeError
from lrga.kernels.checks import without_autocast
from lrga.kernels.support import runs_on_gpu


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
        from lrga.kernels import triton_scores

        return triton_scores.node_scores(x, att_source, att_target)
    return node_scores_reference(x, att_source, att_target)


def node_scores_reference(x: Tensor, att_source: Tensor, att_target: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`node_scores` as one product of matrices, ``[N, H·D]`` with ``[H·D, 2·H]``."""
    dtype = score_dtype(x, att_source, att_target)
    blocks = [torch.block_diag(*attention.to(dtype).unsqueeze(1)) for attention in (att_source, att_target)]
    with without_autocast(x.device.type):  # a softmax is to follow, for which half precision is coarse
        by_source, by_target = F.linear(x.flatten(1).to(dtype), torch.cat(blocks)).split(x.size(1), 1)
    return by_source, by_target


def score_dtype(x: Tensor, att_source: Tensor, att_target: Tensor) -> torch.dtype:
    """The widest of the three."""
    return torch.promote_types(torch.promote_types(x.dtype, att_source.dtype), att_target.dtype)
