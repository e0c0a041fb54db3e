"""The metrics of the benchmarks, to the letter of their protocols.

Scores and labels in, one number out: a float64 tensor without dimensions, on the device of the scores, so that a
training loop can add it up without waiting for a GPU; ``float(...)`` reads it.

Letters: M rows (nodes, edges or graphs), C classes.
"""

from typing import Any

import torch
from torch import Tensor

from lrga.errors import DataError, DTypeError, NonFiniteError, ShapeError
from lrga.kernels.checks import check_count, check_same_device, may_read_values
from lrga.tasks.losses import exact


def weighted_accuracy(scores: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Mean over classes of recall, in percent: what PATTERN and CLUSTER report.

    The classes are those that occur among the labels or the predictions: a class that is predicted but has no node
    counts as recall 0, one that occurs in neither does not count. The benchmark computes this per batch and averages
    over batches.

    Args:
        scores: ``[M, C]``; the highest of a row is the prediction, the first of them on a tie.
        labels: ``[M]`` integers below ``num_classes``.
        num_classes: C.

    Example:
        >>> scores = torch.tensor([[2.0, 1.0], [3.0, 0.0], [5.0, 1.0], [0.0, 1.0]])
        >>> float(weighted_accuracy(scores, torch.tensor([0, 0, 1, 1]), 2))
        75.0
    """
    check_count("num_classes", num_classes, minimum=1)
    scores, labels = _classified(scores, labels)
    if scores.size(1) != num_classes:
        raise ShapeError(
            f"scores of shape [M, {num_classes}]", f"shape {list(scores.shape)}", "pass one score per class"
        )
    classes = torch.arange(num_classes, device=scores.device)
    is_label = labels.unsqueeze(1) == classes  # [M, C]
    is_prediction = scores.argmax(dim=1, keepdim=True) == classes
    count, hits = is_label.sum(0), (is_label & is_prediction).sum(0)
    occurs = (count > 0) | is_prediction.any(0)
    return 100.0 * (exact(hits) / count.clamp(min=1)).sum() / occurs.sum()


def accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """Fraction of rows whose highest score (the first of them on a tie) is their label's.

    Example:
        >>> float(accuracy(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0])))
        0.5
    """
    scores, labels = _classified(scores, labels)
    return exact(scores.argmax(dim=1) == labels).mean()


def f1_positive(scores: Tensor, labels: Tensor) -> Tensor:
    """F1 of class 1 of two: 2 TP / (2 TP + FP + FN), and 0 where class 1 is neither there nor predicted.

    Args:
        scores: ``[M, 2]``; the higher of a row is the prediction, class 0 on a tie.
        labels: ``[M]``, 0 or 1.

    Example:
        >>> scores = torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
        >>> round(float(f1_positive(scores, torch.tensor([1, 0, 0]))), 4)
        0.6667
    """
    scores, labels = _classified(scores, labels)
    if scores.size(1) != 2:
        raise ShapeError(
            "scores of shape [M, 2]", f"shape {list(scores.shape)}", "pass a score for each of two classes"
        )
    predicted, positive = scores.argmax(dim=1) == 1, labels == 1
    found, either = (predicted & positive).sum(), predicted.sum() + positive.sum()
    return 2.0 * exact(found) / either.clamp(min=1)


def mae(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean absolute error over all entries; ``[M, 1]`` beside ``[M]`` is the same thing.

    Example:
        >>> float(mae(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 2.0])))
        0.5
    """
    scores, targets = _real("scores", scores), _real("targets", targets)
    if scores.shape != targets.shape:
        columns = {scores.shape[1:].numel(), targets.shape[1:].numel()}
        if scores.shape[:1] != targets.shape[:1] or columns != {1}:
            got = f"shapes {list(scores.shape)} and {list(targets.shape)}"
            raise ShapeError("scores and targets of one shape", got, "pass one score for each target")
        scores, targets = scores.flatten(), targets.flatten()
    _check_not_empty(scores)
    check_same_device(scores=scores, targets=targets)
    return (exact(scores) - exact(targets)).abs().mean()


def hits_at_k(positive_scores: Tensor, negative_scores: Tensor, k: int) -> Tensor:
    """Fraction of positive scores strictly above the k-th best negative one; 1 with fewer than k negatives (OGB).

    NaN cannot be ranked and is refused; on a GPU, which is not waited for, it makes the result NaN.

    Example:
        >>> float(hits_at_k(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.5, 0.3, 0.2]), 1))
        0.3333333333333333
    """
    check_count("k", k, minimum=1)
    positive, negative = _real("positive_scores", positive_scores).flatten(), _real("negative_scores", negative_scores)
    negative = negative.flatten()
    check_same_device(positive_scores=positive, negative_scores=negative)
    _check_not_empty(positive)
    unranked = positive.isnan().any() | negative.isnan().any()
    if may_read_values(unranked) and bool(unranked):
        got, remedy = "NaN among them", "look at the loss: training has diverged"
        raise NonFiniteError("scores that can be compared", got, remedy)
    if negative.numel() < k:
        found = exact(torch.ones((), device=positive.device))
    else:
        found = exact(positive > negative.topk(k).values[-1]).mean()
    return found.masked_fill(unranked, float("nan"))


def _classified(scores: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Scores ``[M, C]`` and labels ``[M]``, checked."""
    scores, labels = torch.as_tensor(scores), torch.as_tensor(labels)
    if scores.dim() != 2:
        raise ShapeError(
            "scores of shape [M, C]", f"shape {list(scores.shape)}", "pass one row each, one score per class"
        )
    if labels.dim() == 2 and labels.size(1) == 1:
        labels = labels.squeeze(1)
    if labels.shape != scores.shape[:1]:
        got = f"shape {list(labels.shape)}"
        raise ShapeError(
            f"labels of shape [{scores.size(0)}], one for each row of scores", got, "pass one label for each"
        )
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


def _real(name: str, values: Any) -> Tensor:
    values = torch.as_tensor(values)
    if values.is_complex():
        raise DTypeError(f"real {name}", str(values.dtype), "pass real numbers")
    return values


def _check_not_empty(values: Tensor) -> None:
    if values.numel() == 0:
        raise ShapeError("at least one row to score", f"shape {list(values.shape)}", "leave empty batches out")
