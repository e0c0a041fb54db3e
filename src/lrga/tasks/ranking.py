"""Metrics of link prediction: scores of true and of false pairs in, one number out.

Equal to OGB's evaluator (Hits@K, MRR) and to scikit-learn (AUC). Results are float64 tensors without dimensions on the
device of the scores.

Letters: P positive pairs, M negative pairs.
"""

import torch
from torch import Tensor

from lrga.errors import DTypeError, NonFiniteError, ShapeError
from lrga.kernels.checks import check_count, check_same_device
from lrga.tasks.losses import exact
from lrga.tasks.metrics import hits_at_k


def hits(positive: Tensor, negative: Tensor, k: int) -> Tensor:
    """Fraction of positives strictly above the k-th best negative; 1 with fewer than k negatives. NaN is refused.

    Example:
        >>> float(hits(torch.tensor([0.9, 0.5, 0.1, 0.7]), torch.tensor([0.5, 0.3, 0.2]), 1))
        0.5
    """
    check_count("k", k, minimum=1)
    positive, negative = _scores(positive, negative)
    return hits_at_k(positive, negative.flatten(), k)


def mrr(positive: Tensor, negative: Tensor) -> Tensor:
    """Mean reciprocal rank of each positive among negatives.

    The rank is the mean of the optimistic one (behind the negatives that score more) and the pessimistic one (behind
    those that score as much, too), as in OGB's evaluator.

    Args:
        positive: ``[P]``.
        negative: ``[P, M]``, a row for each positive, or ``[M]``, the same for all.

    Example:
        >>> float(mrr(torch.tensor([0.9, 0.5]), torch.tensor([0.7, 0.5, 0.1])))  # ranks 1 and 2.5
        0.7
    """
    positive, negative = _scores(positive, negative)
    if negative.dim() not in (1, 2):
        raise ShapeError("negatives of shape [P, M] or [M]", f"shape {list(negative.shape)}", "pass [P, M] or [M]")
    if negative.dim() == 2:
        if negative.size(0) != positive.numel():
            got = f"{negative.size(0)} rows for {positive.numel()} positives"
            raise ShapeError("negatives of shape [P, M], a row for each positive", got, "pass [P, M] or [M]")
        above = (negative > positive.unsqueeze(1)).sum(1)
        as_high = (negative >= positive.unsqueeze(1)).sum(1)
    else:
        ordered = negative.sort().values  # two searches in place of P × M comparisons
        above = ordered.numel() - torch.searchsorted(ordered, positive, right=True)
        as_high = ordered.numel() - torch.searchsorted(ordered, positive, right=False)
    return (1.0 / (0.5 * exact(above + as_high) + 1.0)).mean()


def auc(positive: Tensor, negative: Tensor) -> Tensor:
    """Area under the ROC curve: the chance that a positive scores above a negative, ties counting half.

    Example:
        >>> float(auc(torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.1])))
        0.875
    """
    positive, negative = _scores(positive, negative)
    if negative.numel() == 0:
        raise ShapeError("at least one negative score", "none", "pass the scores of some pairs that are no edge")
    ordered = negative.flatten().sort().values
    below = torch.searchsorted(ordered, positive, right=False) + torch.searchsorted(ordered, positive, right=True)
    return 0.5 * exact(below).mean() / ordered.numel()


def _scores(positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    positive, negative = torch.as_tensor(positive), torch.as_tensor(negative)
    check_same_device(positive=positive, negative=negative)
    for name, scores in (("positive", positive), ("negative", negative)):
        if scores.is_complex() or scores.dtype == torch.bool:
            raise DTypeError(f"{name} scores that are numbers", str(scores.dtype), "pass real scores")
        if scores.is_floating_point() and bool(scores.isnan().any()):
            got = f"NaN among the {name} scores"
            raise NonFiniteError("scores that can be compared", got, "look at the loss: training has diverged")
    if positive.numel() == 0:
        raise ShapeError("at least one positive score", "none", "leave empty splits out")
    dtype = torch.promote_types(positive.dtype, negative.dtype)
    return positive.flatten().to(dtype), negative.to(dtype)
