"""The losses of the benchmarks: scores and targets of a batch in, one number to minimise out."""

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


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of scores ``[M, C]`` and labels ``[M]``."""
    return F.cross_entropy(wide(scores), labels.long())


def weighted_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    r"""Cross entropy whose class weights follow from the batch: :math:`(V - n_c) / V`, 0 for an absent class.

    V rows, :math:`n_c` of them of class c; as in the benchmark of PATTERN and CLUSTER it is the weighted mean. A batch
    of one class only has weight 0 throughout and loss 0 (the benchmark would divide by zero).

    Example:
        >>> scores, labels = torch.tensor([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), torch.tensor([0, 1, 1])
        >>> round(float(weighted_cross_entropy(scores, labels)), 4)
        0.5516
    """
    scores, labels = wide(scores), labels.long()
    rows = scores.size(0)
    count = (labels.unsqueeze(1) == torch.arange(scores.size(1), device=labels.device)).sum(0)
    weight = (rows - count).to(scores.dtype) / max(rows, 1) * (count > 0)
    total = F.cross_entropy(scores, labels, weight=weight, reduction="sum")
    # Σ over rows of their class's weight, which is 0 only where one class has all rows; total is 0 there too.
    mass = (weight * count).sum()
    return total / torch.where(mass > 0, mass, torch.ones_like(mass))


def l1(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean absolute difference."""
    return F.l1_loss(wide(scores), targets.view_as(scores).to(wide(scores).dtype))


def mse(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean squared difference."""
    return F.mse_loss(wide(scores), targets.view_as(scores).to(wide(scores).dtype))


Loss = Callable[[Tensor, Tensor], Tensor]
CLASSIFICATION_LOSSES: dict[str, Loss] = {
    "cross_entropy": cross_entropy,
    "weighted_cross_entropy": weighted_cross_entropy,
}
REGRESSION_LOSSES: dict[str, Loss] = {"l1": l1, "mse": mse}
