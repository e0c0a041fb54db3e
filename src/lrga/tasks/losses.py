"""The losses: scores and targets of a batch in, one number to minimise out.

All take ``valid`` ``[M]``, bool: the rows that count, where a batch of fixed capacity has rows of padding. Value and
gradient are those of the valid rows alone, and 0 without any. Shapes do not depend on how many they are and no value is
read, so that a loss can be captured in a CUDA graph. Scores of the other rows must be finite.

Letters: M rows (nodes, edges or graphs), C classes, T targets or labels.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def wide(scores: Tensor) -> Tensor:
    """Half precision as float32; double precision as it is."""
    return scores if scores.dtype == torch.float64 else scores.float()


def exact(values: Tensor) -> Tensor:
    """Double precision, in which metrics are computed; float32 on Apple's GPUs, which have none."""
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
    reduce: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    r"""Cross entropy whose class weights follow from the batch: :math:`(V - n_c) / V`, 0 for an absent class.

    V rows, :math:`n_c` of them of class c; as in the benchmark of PATTERN and CLUSTER it is the weighted mean. A batch
    of one class only has weight 0 throughout and loss 0 (the benchmark would divide by zero).

    Where the batch is divided between processes, ``reduce`` adds up the counts of the classes over them; the losses of
    all processes then add up to that of the whole batch.

    Example:
        >>> scores, labels = torch.tensor([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), torch.tensor([0, 1, 1])
        >>> round(float(weighted_cross_entropy(scores, labels)), 4)
        0.5516
    """
    scores, labels = wide(scores), valid_labels(labels, valid)
    count = (labels.unsqueeze(1) == torch.arange(scores.size(1), device=labels.device)).sum(0)
    count = count if reduce is None else reduce(count)
    rows = count.sum().clamp(min=1)
    weight = (rows - count).to(scores.dtype) / rows * (count > 0)
    total = F.cross_entropy(scores, labels, weight=weight, reduction="sum", label_smoothing=label_smoothing)
    # Σ over rows of their class's weight, which is 0 only where one class has all rows; total is 0 there too.
    mass = (weight * count).sum()
    return total / torch.where(mass > 0, mass, torch.ones_like(mass))


def binary_cross_entropy(scores: Tensor, labels: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean binary cross entropy of logits and labels ``[M, T]`` over the labels that are there: NaN is a missing one.

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
    """Labels ``[M]`` int64, where not valid -100, which is of no class."""
    return labels.long() if valid is None else torch.where(valid, labels.long(), -100)


def difference(scores: Tensor, targets: Tensor) -> Tensor:
    """Scores less targets, in the precision and shape of the scores."""
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
