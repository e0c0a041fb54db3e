"""Metrics, exactly as their protocols define them.

Each metric is a function of scores and labels. The result is a 0-dimensional float64 tensor on the device of the
scores, so a training loop can add it up without synchronising a GPU; ``float(...)`` reads it.

A metric of a set is computed from sums over its rows, added up batch by batch (``*_sums``; ``valid`` as in
:mod:`lrga.tasks.losses`), so it does not depend on the batches.

Letters: M rows (nodes, edges or graphs), C classes.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lrga.checks import check_count, check_same_device, may_read_values
from lrga.errors import DataError, DTypeError, NonFiniteError, ShapeError
from lrga.tasks.losses import difference, exact, valid_labels


def weighted_accuracy(scores: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Mean recall over classes, in percent: the metric of PATTERN and CLUSTER.

    Only classes that occur among the labels or the predictions count; a class that is predicted but has no node has
    recall 0. The benchmark computes this per batch and averages over batches (the metric
    ``weighted_accuracy_by_batch`` of a task).

    Args:
        scores: ``[M, C]``; the prediction is the class with the highest score, the first one on a tie.
        labels: ``[M]`` integers below ``num_classes``.
        num_classes: C.

    Example:
        >>> scores = torch.tensor([[2.0, 1.0], [3.0, 0.0], [5.0, 1.0], [0.0, 1.0]])
        >>> float(weighted_accuracy(scores, torch.tensor([0, 0, 1, 1]), 2))
        75.0
    """
    check_count("num_classes", num_classes, minimum=1)
    return mean_recall(recall_sums(*_classified(scores, labels, num_classes)))


def accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """Fraction of rows whose prediction (the highest score, the first one on a tie) is the label.

    Example:
        >>> float(accuracy(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0])))
        0.5
    """
    return share(accuracy_sums(*_classified(scores, labels)))


def f1_positive(scores: Tensor, labels: Tensor) -> Tensor:
    """F1 of class 1 of two classes: 2 TP / (2 TP + FP + FN), and 0 if class 1 neither occurs nor is predicted.

    Args:
        scores: ``[M, 2]``; the prediction is the class with the higher score, class 0 on a tie.
        labels: ``[M]``, 0 or 1.

    Example:
        >>> scores = torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
        >>> round(float(f1_positive(scores, torch.tensor([1, 0, 0]))), 4)
        0.6667
    """
    return share(f1_sums(*_classified(scores, labels, 2)))


def mae(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean absolute error over all entries; ``[M, 1]`` and ``[M]`` may be combined.

    Example:
        >>> float(mae(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 2.0])))
        0.5
    """
    scores, targets = torch.as_tensor(scores), torch.as_tensor(targets)
    for name, values in (("scores", scores), ("targets", targets)):
        if values.is_complex():
            raise DTypeError(f"real {name}", str(values.dtype), "pass real numbers")
    if scores.shape != targets.shape:
        columns = {scores.shape[1:].numel(), targets.shape[1:].numel()}
        if scores.shape[:1] != targets.shape[:1] or columns != {1}:
            got = f"shapes {list(scores.shape)} and {list(targets.shape)}"
            raise ShapeError("scores and targets of one shape", got, "pass one score for each target")
        scores, targets = scores.flatten(), targets.flatten()
    _check_not_empty(scores)
    check_same_device(scores=scores, targets=targets)
    return share(error_sums(scores, targets))


def recall_sums(scores: Tensor, labels: Tensor, valid: Tensor | None = None) -> Tensor:
    """``[3, C]``: numbers of rows, of correctly predicted rows, and of predictions of each class."""
    every = torch.arange(scores.size(1), device=scores.device)
    is_label = valid_labels(labels, valid).unsqueeze(1) == every  # [M, C]
    is_prediction = scores.argmax(dim=1, keepdim=True) == every
    if valid is not None:
        is_prediction &= valid.unsqueeze(1)
    return torch.stack([is_label.sum(0), (is_label & is_prediction).sum(0), is_prediction.sum(0)])


def mean_recall(sums: Tensor) -> Tensor:
    """The weighted accuracy in percent from :func:`recall_sums`; 0 without rows."""
    count, found, predicted = sums
    occurs = (count > 0) | (predicted > 0)
    return 100.0 * (exact(found) / count.clamp(min=1)).sum() / occurs.sum().clamp(min=1)


def accuracy_sums(scores: Tensor, labels: Tensor, valid: Tensor | None = None) -> Tensor:
    """``[2]``: number of correct predictions, and number of rows."""
    correct = scores.argmax(dim=1) == labels
    return _sums(correct, torch.ones_like(correct), valid)


def f1_sums(scores: Tensor, labels: Tensor, valid: Tensor | None = None) -> Tensor:
    """``[2]``: twice the true positives of class 1, and rows of class 1 plus predictions of class 1."""
    predicted, positive = scores.argmax(dim=1) == 1, labels == 1
    return _sums(2 * (predicted & positive), predicted.long() + positive, valid)


def error_sums(
    scores: Tensor, targets: Tensor, valid: Tensor | None = None, *, size: Callable[[Tensor], Tensor] = torch.abs
) -> Tensor:
    """``[2]``: sum of the sizes of the errors (absolute or squared), and their number."""
    errors = size(difference(exact(scores), targets))
    return _sums(errors, torch.ones_like(errors), valid)


def share(sums: Tensor, scale: float = 1.0) -> Tensor:
    """The first number times ``scale``, divided by the second; 0 if both are 0."""
    return scale * exact(sums[0]) / sums[1].clamp(min=1)


def _sums(above: Tensor, below: Tensor, valid: Tensor | None) -> Tensor:
    """Sums of both over the valid rows of ``[M]`` or ``[M, T]``."""
    if valid is not None:
        counts = valid.view(-1, *[1] * (above.dim() - 1))
        above, below = torch.where(counts, above, 0), torch.where(counts, below, 0)
    return torch.stack([above.sum(), below.sum()])


def hits_at_k(positive_scores: Tensor, negative_scores: Tensor, k: int) -> Tensor:
    """Fraction of positive scores strictly above the k-th highest negative score; 1 with fewer than k negatives (OGB).

    NaN cannot be ranked and raises an error; on a GPU, which is not synchronised, the result is NaN instead.

    Example:
        >>> float(hits_at_k(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.5, 0.3, 0.2]), 1))
        0.3333333333333333
    """
    check_count("k", k, minimum=1)
    positive, negative = _ranked(positive_scores, negative_scores, wait=False)
    negative = negative.flatten()
    if negative.numel() < k:
        found = exact(torch.ones((), device=positive.device))
    else:
        found = exact(positive > negative.topk(k).values[-1]).mean()
    return found.masked_fill(positive.isnan().any() | negative.isnan().any(), float("nan"))


def _classified(scores: Any, labels: Any, classes: int | None = None) -> tuple[Tensor, Tensor]:
    """Scores ``[M, C]`` and labels ``[M]``, checked; C is ``classes`` if given."""
    scores, labels = torch.as_tensor(scores), torch.as_tensor(labels)
    if scores.dim() != 2 or classes not in (None, scores.size(1)):
        expected, got = f"scores of shape [M, {classes or 'C'}]", f"shape {list(scores.shape)}"
        raise ShapeError(expected, got, "pass one row per sample and one score per class")
    if labels.dim() == 2 and labels.size(1) == 1:
        labels = labels.squeeze(1)
    if labels.shape != scores.shape[:1]:
        expected, got = f"labels of shape [{scores.size(0)}], one for each row of scores", f"shape {list(labels.shape)}"
        raise ShapeError(expected, got, "pass one label per row")
    if labels.is_floating_point() or labels.is_complex():
        raise DTypeError("integer labels", str(labels.dtype), "call labels.long()")
    _check_not_empty(scores)
    check_same_device(scores=scores, labels=labels)
    if may_read_values(labels):
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= scores.size(1):
            expected = f"labels from 0 to {scores.size(1) - 1}, one for each column of scores"
            raise DataError(expected, f"label {low if low < 0 else high}", "number the classes from 0")
    return scores, labels


def _check_not_empty(values: Tensor) -> None:
    if values.numel() == 0:
        raise ShapeError("at least one row to score", f"shape {list(values.shape)}", "skip empty batches")


def mrr(positive: Tensor, negative: Tensor) -> Tensor:
    """Mean reciprocal rank of each positive among negatives.

    The rank is the mean of the optimistic rank (behind negatives with a higher score) and the pessimistic rank (behind
    negatives with an equal score too), as in OGB's evaluator.

    Args:
        positive: ``[P]``.
        negative: ``[P, M]``, one row for each positive, or ``[M]``, shared by all.

    Example:
        >>> float(mrr(torch.tensor([0.9, 0.5]), torch.tensor([0.7, 0.5, 0.1])))  # ranks 1 and 2.5
        0.7
    """
    positive, negative = _ranked(positive, negative)
    if negative.dim() not in (1, 2):
        raise ShapeError("negatives of shape [P, M] or [M]", f"shape {list(negative.shape)}", "pass [P, M] or [M]")
    if negative.dim() == 2:
        if negative.size(0) != positive.numel():
            got = f"{negative.size(0)} rows for {positive.numel()} positives"
            raise ShapeError("negatives of shape [P, M], a row for each positive", got, "pass [P, M] or [M]")
        above = (negative > positive.unsqueeze(1)).sum(1)
        as_high = (negative >= positive.unsqueeze(1)).sum(1)
    else:
        ordered = negative.sort().values  # two searches instead of P × M comparisons
        above = ordered.numel() - torch.searchsorted(ordered, positive, right=True)
        as_high = ordered.numel() - torch.searchsorted(ordered, positive, right=False)
    return (1.0 / (0.5 * exact(above + as_high) + 1.0)).mean()


def auc(positive: Tensor, negative: Tensor) -> Tensor:
    """Area under the ROC curve: the probability that a positive scores above a negative; ties count half.

    Example:
        >>> float(auc(torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.1])))
        0.875
    """
    positive, negative = _ranked(positive, negative)
    if negative.numel() == 0:
        raise ShapeError("at least one negative score", "none", "pass the scores of some negative pairs")
    ordered = negative.flatten().sort().values
    below = torch.searchsorted(ordered, positive, right=False) + torch.searchsorted(ordered, positive, right=True)
    return 0.5 * exact(below).mean() / ordered.numel()


def roc_auc(scores: Tensor, labels: Tensor) -> Tensor:
    """Area under the ROC curve, averaged over the labels that have both classes.

    Args:
        scores: ``[N, T]`` or ``[N]``; or ``[N, 2]`` for two classes, with labels ``[N]``.
        labels: Labels 1 or 0 of the same shape, NaN if missing.

    Example:
        >>> scores, missing = torch.tensor([[0.1, 0.9], [0.4, 0.8], [0.3, 0.7]]), float("nan")
        >>> float(roc_auc(scores, torch.tensor([[0.0, 1.0], [1.0, missing], [1.0, 1.0]])))  # label 1 is never 0
        1.0
    """
    return _mean_over_labels(auc, scores, labels)


def average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """Average precision, averaged over the labels that have both classes; arguments as in :func:`roc_auc`.

    Example:
        >>> float(average_precision(torch.tensor([0.9, 0.8, 0.3]), torch.tensor([1, 0, 0])))
        1.0
    """
    return _mean_over_labels(_average_precision, scores, labels)


def _average_precision(positive: Tensor, negative: Tensor) -> Tensor:
    """The sum over thresholds of precision times the increase in recall; equal scores share one threshold."""
    positive, negative = _ranked(positive, negative)
    ordered, order = torch.cat([positive, negative]).sort(descending=True)
    is_last = torch.cat([ordered[1:] != ordered[:-1], ordered.new_ones(1, dtype=torch.bool)])  # of equal scores
    found = (order < positive.numel()).cumsum(0)[is_last]
    seen = torch.arange(1, ordered.numel() + 1, device=ordered.device)[is_last]
    gained = found.diff(prepend=found.new_zeros(1))
    return (exact(gained) * exact(found) / seen).sum() / positive.numel()


def _mean_over_labels(metric: Callable[[Tensor, Tensor], Tensor], scores: Tensor, labels: Tensor) -> Tensor:
    scores, labels = torch.as_tensor(scores), torch.as_tensor(labels)
    check_same_device(scores=scores, labels=labels)
    if scores.dim() == 2 and scores.size(1) == 2 and labels.shape in ((scores.size(0),), (scores.size(0), 1)):
        scores = exact(scores[:, 1]) - exact(scores[:, 0])  # class 1 minus class 0
    scores, labels = (values.view(-1, 1) if values.dim() == 1 else values for values in (scores, labels))
    if scores.dim() != 2 or scores.shape != labels.shape:
        got = f"shapes {list(scores.shape)} and {list(labels.shape)}"
        raise ShapeError("scores and labels of one shape, [N] or [N, T]", got, "pass one score for each label")
    if bool(((labels != 0) & (labels != 1) & (labels == labels)).any()):
        raise DataError("labels 0 and 1, or NaN if missing", "other values", "number the two classes 0 and 1")
    values = []
    for score, label in zip(scores.unbind(1), labels.unbind(1), strict=True):
        positive, negative = score[label == 1], score[label == 0]
        if positive.numel() and negative.numel():
            values.append(metric(positive, negative))
    if not values:
        remedy = "split the data so that both classes are in every split, or choose another metric"
        raise DataError("both classes of at least one label", f"one class in {scores.size(0)} rows", remedy)
    return torch.stack(values).mean()


def _ranked(positive: Tensor, negative: Tensor, *, wait: bool = True) -> tuple[Tensor, Tensor]:
    """Checks positive scores ``[P]`` and negative scores; on a GPU, NaN is checked only if ``wait``."""
    positive, negative = torch.as_tensor(positive), torch.as_tensor(negative)
    check_same_device(positive=positive, negative=negative)
    for name, scores in (("positive", positive), ("negative", negative)):
        if scores.is_complex() or scores.dtype == torch.bool:
            raise DTypeError(f"{name} scores that are numbers", str(scores.dtype), "pass real scores")
        if (wait or may_read_values(scores)) and bool(scores.isnan().any()):
            got = f"NaN among the {name} scores"
            raise NonFiniteError("scores that can be compared", got, "check the loss: training has diverged")
    if positive.numel() == 0:
        raise ShapeError("at least one positive score", "none", "skip empty splits")
    dtype = torch.promote_types(positive.dtype, negative.dtype)
    return positive.flatten().to(dtype), negative.to(dtype)
