"""Losses and metrics that grow batch by batch on the device: a GPU is waited for once, when they are read.

``valid`` are the rows that count; the others are padding.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrga.errors import CheckpointError
from lrga.tasks.losses import exact
from lrga.tasks.task import Task


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


class MetricSums:
    """A metric whose sums over batches are all that is kept.

    Example:
        >>> metric = running_metric(Task(level="node", kind="classification", out_channels=2), "cpu")
        >>> metric.add(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
        >>> metric.add(torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), torch.tensor([1, 1, 1]))
        >>> metric.value(batches=2)
        25.0
    """

    def __init__(self, task: Task, device: str | torch.device) -> None:
        self._metric = task.metric_facts
        assert self._metric.sums is not None
        self._sums = self._metric.sums
        shape = (0,) if task.kind == "classification" else (0, task.out_channels)
        empty = torch.zeros(0, task.out_channels, device=device), torch.zeros(shape, device=device)
        self.total = exact(self._sums(*empty, None))
        self.tensors = [self.total]  # memory that does not move, which captured steps may add to

    def add(self, scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> None:
        """Adds a batch."""
        self.total += self._sums(scores.detach(), targets, valid)

    def reset(self) -> None:
        """Forgets everything; the sums stay where they are in memory."""
        self.total.zero_()

    def value(self, batches: float) -> float:
        """The metric of all that was added, in so many batches; NaN where there were none."""
        if not batches:
            return float("nan")
        return float(self.total) / batches if self._metric.by_batch else float(self._metric.function(self.total))

    def state(self) -> dict[str, Any]:
        """The sums as JSON values, to be restored by :meth:`restore`."""
        return {"sums": self.total.flatten().tolist()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from what :meth:`state` gave."""
        if not isinstance(state, Mapping):
            remedy = "finish the run with the version of lrga that began it, or train anew"
            raise CheckpointError("the sums of a metric by name", f"{state!r:.60}", remedy)
        self.total.copy_(torch.tensor(state["sums"], dtype=self.total.dtype).view(self.total.shape))


class RankedScores:
    """A metric that ranks all scores, which are kept."""

    tensors: tuple[Tensor, ...] = ()

    def __init__(self, task: Task, device: str | torch.device) -> None:
        self._metric, self._width, self._device = task.metric_facts, task.out_channels, device
        self._columns = 1 if task.kind == "classification" else task.out_channels  # of targets
        self._parts: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def add(self, scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> None:
        """Adds a batch."""
        self._parts.append((exact(scores.detach()), targets.view(scores.size(0), self._columns).float(), valid))

    def reset(self) -> None:
        """Forgets everything."""
        self._parts.clear()

    def value(self, batches: float) -> float:
        """The metric of all that was added; NaN where there was nothing, or where scores cannot be ranked."""
        scores, targets = self._all()
        if not batches or bool(scores.isnan().any()):
            return float("nan")
        return float(self._metric.function(scores, targets))

    def _all(self) -> tuple[Tensor, Tensor]:
        rows = [(s, t) if valid is None else (s[valid], t[valid]) for s, t, valid in self._parts]
        empty = torch.zeros(0, self._width, device=self._device), torch.zeros(0, self._columns, device=self._device)
        return torch.cat([empty[0], *(s for s, _ in rows)]), torch.cat([empty[1], *(t for _, t in rows)])

    def state(self) -> dict[str, Any]:
        """Scores and targets as JSON values, to be restored by :meth:`restore`."""
        scores, targets = self._all()
        arrays = {"scores": scores.cpu().double().numpy(), "targets": targets.cpu().numpy()}
        return {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from what :meth:`state` gave."""
        self.reset()
        kinds = {"scores": (np.float64, self._width), "targets": (np.float32, self._columns)}
        scores, targets = (
            torch.from_numpy(np.frombuffer(base64.b64decode(state[name]), kind).reshape(-1, width).copy())
            for name, (kind, width) in kinds.items()
        )
        self.add(scores.to(self._device), targets.to(self._device))


def running_metric(task: Task, device: str | torch.device) -> MetricSums | RankedScores:
    """What keeps the task's metric over batches; the value does not depend on how rows are divided into them, but for
    the benchmark's metrics (``*_by_batch``)."""
    return (RankedScores if task.metric_facts.sums is None else MetricSums)(task, device)
