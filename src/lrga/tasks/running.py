"""Losses and metrics that grow batch by batch on the device: a GPU is waited for once, when they are read.

What is added with ``valid``, the rows that count, is added in memory that does not move, so that a step can be captured
in a CUDA graph.
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

    def add(self, scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> None:
        """Adds a batch."""
        self.total += self._sums(scores.detach(), targets, valid)

    def reserve(self, rows: int) -> None:
        """Before steps are captured: so many rows will be added. The sums do not grow."""

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

    def __init__(self, task: Task, device: str | torch.device) -> None:
        self._metric, self._width, self._device = task.metric_facts, task.out_channels, device
        self._columns = 1 if task.kind == "classification" else task.out_channels  # of targets
        self._parts: list[tuple[Tensor, Tensor]] = []
        self._buffer: tuple[Tensor, Tensor] | None = None  # for rows of captured steps, the last one for all others
        self.total = torch.zeros((), dtype=torch.int64, device=device)  # rows in it

    def add(self, scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> None:
        """Adds a batch; with ``valid`` into the memory that :meth:`reserve` made."""
        rows = exact(scores.detach()), targets.view(scores.size(0), self._columns).float()
        if valid is None:
            self._parts.append(rows)
            return
        assert self._buffer is not None
        row = torch.where(valid, self.total + valid.cumsum(0) - 1, self._buffer[0].size(0) - 1)
        # Rows of valid scores differ, so that any order of writing is right; the fixed order would wait for a GPU.
        before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(False)
        try:
            for buffer, values in zip(self._buffer, rows, strict=True):
                buffer.index_copy_(0, row, values)
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        self.total += valid.sum()

    def reserve(self, rows: int) -> None:
        """Before steps are captured: so many rows will be added."""
        if self._buffer is None or self._buffer[0].size(0) <= rows:
            scores = exact(torch.zeros(rows + 1, self._width, device=self._device))
            self._buffer = scores, torch.zeros(rows + 1, self._columns, device=self._device)

    def reset(self) -> None:
        """Forgets everything; what is reserved stays where it is in memory."""
        self._parts.clear()
        self.total.zero_()

    def value(self, batches: float) -> float:
        """The metric of all that was added; NaN where there was nothing, or where scores cannot be ranked."""
        scores, targets = self._all()
        if not batches or bool(scores.isnan().any()):
            return float("nan")
        return float(self._metric.function(scores, targets))

    def _all(self) -> tuple[Tensor, Tensor]:
        parts, number = list(self._parts), int(self.total)
        if self._buffer is not None:
            parts.append((self._buffer[0][:number], self._buffer[1][:number]))
        if not parts:
            return torch.zeros(0, self._width), torch.zeros(0, self._columns)
        return torch.cat([scores for scores, _ in parts]), torch.cat([targets for _, targets in parts])

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
        if len(scores):
            kept = exact(torch.zeros((), device=self._device)).dtype
            self._parts.append((scores.to(kept).to(self._device), targets.to(self._device)))


def running_metric(task: Task, device: str | torch.device) -> MetricSums | RankedScores:
    """What keeps the task's metric over batches; the value does not depend on how rows are divided into them, but for
    the benchmark's metrics (``*_by_batch``)."""
    return (RankedScores if task.metric_facts.sums is None else MetricSums)(task, device)
