"""Averages that grow batch by batch on the device of the values: a GPU is waited for once, when they are read."""

import torch
from torch import Tensor

from lrga.tasks.losses import exact


class Running:
    """Weighted mean of what was added, one float64 sum and one weight.

    Example:
        >>> mean = Running()
        >>> mean.add(torch.tensor(1.0))
        >>> mean.add(torch.tensor(4.0), weight=2)
        >>> mean.mean()
        3.0
    """

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self.total = exact(torch.zeros((), device=device))
        self.weight = 0.0

    def add(self, value: Tensor, weight: float = 1.0) -> None:
        """Adds a value without dimensions."""
        self.total += exact(value.detach()) * weight
        self.weight += weight

    def reset(self) -> None:
        """Forgets everything; the sum stays where it is in memory."""
        self.total.zero_()
        self.weight = 0.0

    def mean(self) -> float:
        """The mean, NaN where nothing was added."""
        return float(self.total) / self.weight if self.weight else float("nan")

    def state(self) -> tuple[float, float]:
        """Sum and weight, to be restored by :meth:`restore`."""
        return float(self.total), self.weight

    def restore(self, state: tuple[float, float]) -> None:
        """Continues from what :meth:`state` gave."""
        self.total.fill_(state[0])
        self.weight = state[1]
