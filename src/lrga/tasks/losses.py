"""Losses: functions of the scores and targets of a batch.

All accept ``valid`` ``[M]``, bool: the rows that are not padding, in a batch of fixed capacity. Value and gradient are
those of the valid rows alone, and 0 without valid rows. Shapes do not depend on their number and no value is read, so a
loss can be captured in a CUDA graph. Scores of the other rows must be finite.

Letters: M rows (nodes, edges or graphs), C classes, T targets or labels.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def wide(scores: Tensor) -> Tensor:
    """Converts half precision to float32; double precision is unchanged."""
    return scores if scores.dtype == torch.float64 else scores.float()


def exact(values: Tensor) -> Tensor:
    """Converts to double precision for metrics; float32 on Apple GPUs, which do not support double."""
    return values.float() if values.is_mps else values.double()


def cross_entropy(
    scores: Tensor, labels: Tensor, valid: Tensor | None = None, *, label_smoothing: float = 0.0
) -> Tensor:  # fmt: skip
    """Mean cross entropy of scores ``[M, C]`` and labels ``[M]``."""
    labels = valid_labels(labels, valid)
    if valid is None:
        return F.cross_entropy(wide(scores), labels, label_smoothing=label_smoothing)
    total = F.cross_entropy(wide(scores), labels, reduction="sum", label_smoothing=label_smoothing)
    return total / valid.sum().clamp(min=1)


def weighted_cross_entropy(
    scores: Tensor,
    labels: Tensor,
    valid: Tensor | None = None,
    *,
    label_smoothing: float = 0.0,
    weights: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    r"""Cross entropy with class weights from the batch: :math:`(V - n_c) / V`, and 0 for an absent class.

    V is the number of rows, :math:`n_c` the number of rows of class c. The loss is the weighted mean, as in the
    benchmark of PATTERN and CLUSTER. A batch of a single class has loss 0 (the benchmark would divide by zero).

    ``weights`` is the result of :func:`class_weights`, if known.

    Example:
        >>> scores, labels = torch.tensor([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), torch.tensor([0, 1, 1])
        >>> round(float(weighted_cross_entropy(scores, labels)), 4)
        0.5516
    """
    scores = wide(scores)
    weight, total = weights or class_weights(labels, scores.size(1), valid, dtype=scores.dtype)
    labels = valid_labels(labels, valid)
    weight = weight.to(scores.dtype)
    return F.cross_entropy(scores, labels, weight, reduction="sum", label_smoothing=label_smoothing) / total


def class_weights(
    labels: Tensor,
    num_classes: int,
    valid: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    reduce: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The class weights ``[C]`` of :func:`weighted_cross_entropy`, and the sum over rows of the weight of their class.

    If the batch is distributed over processes, ``reduce`` adds up their class counts; the losses of all processes then
    add up to the loss of the whole batch.
    """
    count = (valid_labels(labels, valid).unsqueeze(1) == torch.arange(num_classes, device=labels.device)).sum(0)
    count = count if reduce is None else reduce(count)
    rows = count.sum().clamp(min=1)
    weight = (rows - count).to(dtype) / rows * (count > 0)
    total = (weight * count).sum()
    # The sum is 0 only if one class has all rows, and then the loss is 0 too.
    return weight, torch.where(total > 0, total, torch.ones_like(total))


def binary_cross_entropy(scores: Tensor, labels: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean binary cross entropy of logits and labels ``[M, T]``; missing labels (NaN) are ignored.

    Example:
        >>> missing = float("nan")
        >>> round(float(binary_cross_entropy(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, missing]]))), 4)
        0.6931
    """
    scores = wide(scores)
    labels = labels.view_as(scores).to(scores.dtype)
    there = ~labels.isnan() if valid is None else ~labels.isnan() & valid.unsqueeze(1)
    terms = F.binary_cross_entropy_with_logits(scores, torch.where(there, labels, 0.0), reduction="none")
    return torch.where(there, terms, 0.0).sum() / there.sum().clamp(min=1)


def l1(scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean absolute difference."""
    return _mean(difference(wide(scores), targets).abs(), valid)


def mse(scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean squared difference."""
    return _mean(difference(wide(scores), targets).square(), valid)


def valid_labels(labels: Tensor, valid: Tensor | None) -> Tensor:
    """Labels ``[M]`` int64; rows that are not valid get -100, which cross entropy ignores."""
    return labels.long() if valid is None else torch.where(valid, labels.long(), -100)


def difference(scores: Tensor, targets: Tensor) -> Tensor:
    """Scores minus targets, in the precision and shape of the scores."""
    return scores - targets.view_as(scores).to(scores.dtype)


def _mean(values: Tensor, valid: Tensor | None) -> Tensor:
    """Mean over the entries of the valid rows of ``[M, T]``."""
    if valid is None:
        return values.mean()
    kept = torch.where(valid.unsqueeze(1), values, 0.0)
    return kept.sum() / (valid.sum().clamp(min=1) * values.size(1))


LOSSES: dict[str, dict[str, Callable[..., Tensor]]] = {
    "classification": {"cross_entropy": cross_entropy, "weighted_cross_entropy": weighted_cross_entropy},
    "multilabel": {"binary_cross_entropy": binary_cross_entropy},
    "regression": {"l1": l1, "mse": mse},
}
