"""Metrics that rank all scores of a set: those of link prediction, and those of labels that are there or not.

Equal to OGB's evaluator (Hits@K, MRR, means over the labels of several tasks) and to scikit-learn (AUC, average
precision). Results are float64 tensors without dimensions on the device of the scores.

Letters: P positive pairs, M negative pairs; N rows, T labels.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lrga.errors import DataError, DTypeError, NonFiniteError, ShapeError
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


def roc_auc(scores: Tensor, labels: Tensor) -> Tensor:
    """Area under the ROC curve of each label, the mean over those that have both classes.

    Args:
        scores: ``[N, T]`` or ``[N]``; also ``[N, 2]`` of two classes, with labels ``[N]``.
        labels: As many, 1 or 0, NaN where one is missing.

    Example:
        >>> scores, missing = torch.tensor([[0.1, 0.9], [0.4, 0.8], [0.3, 0.7]]), float("nan")
        >>> float(roc_auc(scores, torch.tensor([[0.0, 1.0], [1.0, missing], [1.0, 1.0]])))  # label 1 is never 0
        1.0
    """
    return _mean_over_labels(auc, scores, labels)


def average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """Average precision of each label, the mean over those that have both classes; arguments as :func:`roc_auc`.

    Example:
        >>> float(average_precision(torch.tensor([0.9, 0.8, 0.3]), torch.tensor([1, 0, 0])))
        1.0
    """
    return _mean_over_labels(_average_precision, scores, labels)


def _average_precision(positive: Tensor, negative: Tensor) -> Tensor:
    """The sum over thresholds of precision times what recall gains there; equal scores have one threshold."""
    positive, negative = _scores(positive, negative)
    ordered, order = torch.cat([positive, negative]).sort(descending=True)
    is_last = torch.cat([ordered[1:] != ordered[:-1], ordered.new_ones(1, dtype=torch.bool)])  # of its equals
    found = (order < positive.numel()).cumsum(0)[is_last]
    seen = torch.arange(1, ordered.numel() + 1, device=ordered.device)[is_last]
    gained = found.diff(prepend=found.new_zeros(1))
    return (exact(gained) * exact(found) / seen).sum() / positive.numel()


def _mean_over_labels(metric: Callable[[Tensor, Tensor], Tensor], scores: Tensor, labels: Tensor) -> Tensor:
    scores, labels = torch.as_tensor(scores), torch.as_tensor(labels)
    check_same_device(scores=scores, labels=labels)
    if scores.dim() == 2 and scores.size(1) == 2 and labels.shape in ((scores.size(0),), (scores.size(0), 1)):
        scores = exact(scores[:, 1]) - exact(scores[:, 0])  # of class 1 above class 0
    scores, labels = (values.view(-1, 1) if values.dim() == 1 else values for values in (scores, labels))
    if scores.dim() != 2 or scores.shape != labels.shape:
        got = f"shapes {list(scores.shape)} and {list(labels.shape)}"
        raise ShapeError("scores and labels of one shape, [N] or [N, T]", got, "pass one score for each label")
    if bool(((labels != 0) & (labels != 1) & (labels == labels)).any()):
        raise DataError("labels 0 and 1, NaN where one is missing", "others", "number the two classes 0 and 1")
    values = []
    for score, label in zip(scores.unbind(1), labels.unbind(1), strict=True):
        positive, negative = score[label == 1], score[label == 0]
        if positive.numel() and negative.numel():
            values.append(metric(positive, negative))
    if not values:
        remedy = "divide the data so that both classes are in every split, or choose another metric"
        raise DataError("both classes of at least one label", f"one class in {scores.size(0)} rows", remedy)
    return torch.stack(values).mean()


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
