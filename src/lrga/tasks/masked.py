"""Losses and metrics of some rows only, in shapes that do not depend on how many they are.

Batches of a fixed capacity have rows of padding. Each function here equals its namesake in :mod:`lrga.tasks.losses` or
:mod:`lrga.tasks.metrics` on the rows ``counted`` alone, in value and gradient; none reads a value, so that all can be
captured in a CUDA graph. Scores of rows that do not count must be finite and get no gradient. Where no row counts the
result is 0. On a GPU the losses and metrics of PATTERN and CLUSTER are kernels of their own
(:mod:`lrga.kernels.classes`).

Letters: M rows (nodes, edges or graphs), C classes.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.kernels import classes
from lrga.tasks.losses import exact, wide

_IGNORED = -100  # as a label: of no class


def cross_entropy(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """Mean cross entropy of scores ``[M, C]`` and labels ``[M]`` over the rows ``counted`` ``[M]``."""
    labels = _hidden(labels, counted)
    return F.cross_entropy(wide(scores), labels, ignore_index=_IGNORED, reduction="sum") / _number(counted)


def weighted_cross_entropy(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """As :func:`lrga.tasks.losses.weighted_cross_entropy`, the weights following from the rows ``counted``.

    Example:
        >>> scores, labels = torch.tensor([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0], [9.0, 9.0]]), torch.tensor([0, 1, 1, 1])
        >>> round(float(weighted_cross_entropy(scores, labels, torch.tensor([True, True, True, False]))), 4)
        0.5516
    """
    if classes.takes(scores, labels, counted):
        return classes.class_loss(scores, labels, counted)[0]
    scores, labels = wide(scores), _hidden(labels, counted)
    count = (labels.unsqueeze(1) == torch.arange(scores.size(1), device=labels.device)).sum(0)
    rows = count.sum()
    weight = (rows - count).to(scores.dtype) / rows.clamp(min=1) * (count > 0)
    total = F.cross_entropy(scores, labels, weight=weight, ignore_index=_IGNORED, reduction="sum")
    mass = (weight * count).sum()
    return total / torch.where(mass > 0, mass, torch.ones_like(mass))


def l1(scores: Tensor, targets: Tensor, counted: Tensor) -> Tensor:
    """Mean absolute difference over the rows ``counted``."""
    return _mean_of_rows(_difference(wide(scores), targets).abs(), counted)


def mse(scores: Tensor, targets: Tensor, counted: Tensor) -> Tensor:
    """Mean squared difference over the rows ``counted``."""
    return _mean_of_rows(_difference(wide(scores), targets).square(), counted)


def weighted_accuracy(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """As :func:`lrga.tasks.metrics.weighted_accuracy`, in percent, over the rows ``counted``."""
    if classes.takes(scores, labels, counted):
        return classes.class_accuracy(scores, labels, counted)
    every = torch.arange(scores.size(1), device=scores.device)
    is_label = _hidden(labels, counted).unsqueeze(1) == every  # [M, C]
    is_prediction = (scores.argmax(dim=1, keepdim=True) == every) & counted.unsqueeze(1)
    count, hits = is_label.sum(0), (is_label & is_prediction).sum(0)
    occurs = (count > 0) | is_prediction.any(0)
    return 100.0 * (exact(hits) / count.clamp(min=1)).sum() / occurs.sum().clamp(min=1)


def accuracy(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """Fraction of the rows ``counted`` whose highest score is their label's."""
    return exact((scores.argmax(dim=1) == _hidden(labels, counted)).sum()) / _number(counted)


def f1_positive(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """F1 of class 1 of two over the rows ``counted``."""
    predicted, positive = (scores.argmax(dim=1) == 1) & counted, (labels == 1) & counted
    found, either = (predicted & positive).sum(), predicted.sum() + positive.sum()
    return 2.0 * exact(found) / either.clamp(min=1)


def mae(scores: Tensor, targets: Tensor, counted: Tensor) -> Tensor:
    """Mean absolute error over all entries of the rows ``counted``."""
    return _mean_of_rows(_difference(exact(scores), targets).abs(), counted)


def _hidden(labels: Tensor, counted: Tensor) -> Tensor:
    """Labels ``[M]`` int64, of no class where they do not count."""
    return torch.where(counted, labels.long(), _IGNORED)


def _number(counted: Tensor) -> Tensor:
    return counted.sum().clamp(min=1)


def _difference(scores: Tensor, targets: Tensor) -> Tensor:
    return scores - targets.view_as(scores).to(scores.dtype)


def _mean_of_rows(values: Tensor, counted: Tensor) -> Tensor:
    """Mean over the entries of the rows ``counted`` of ``[M, …]``."""
    values = values.flatten(1) if values.dim() > 1 else values.unsqueeze(1)
    kept = torch.where(counted.unsqueeze(1), values, 0.0)
    return kept.sum() / (_number(counted) * values.size(1))


Masked = Callable[[Tensor, Tensor, Tensor], Tensor]
MASKED_LOSSES: dict[str, Masked] = {
    "cross_entropy": cross_entropy,
    "weighted_cross_entropy": weighted_cross_entropy,
    "l1": l1,
    "mse": mse,
}
MASKED_METRICS: dict[str, Masked] = {
    "weighted_accuracy": weighted_accuracy,
    "accuracy": accuracy,
    "f1_positive": f1_positive,
    "mae": mae,
}
