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


class RunningMetric:
    """The metric of a task over batches: from its sums or, where it ranks all scores, from the scores, which are kept.

    The value does not depend on how rows are divided into batches, but for the benchmark's metrics (``*_by_batch``).

    Attributes:
        tensors: The sums, in memory that does not move, which captured steps may add to; none where scores are kept.

    Example:
        >>> metric = RunningMetric(Task(level="node", kind="classification", out_channels=2), "cpu")
        >>> metric.add(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
        >>> metric.add(torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), torch.tensor([1, 1, 1]))
        >>> metric.value(batches=2)
        25.0
    """

    def __init__(self, task: Task, device: str | torch.device) -> None:
        self._metric, width = task.metric_facts, task.out_channels
        columns = 1 if task.kind == "classification" else width  # of targets
        self._empty = exact(torch.zeros(0, width, device=device)), torch.zeros(0, columns, device=device)
        self._kept: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self.tensors: list[Tensor] = []
        if self._metric.sums is not None:
            targets = self._empty[1].view(0) if task.kind == "classification" else self._empty[1]
            self.tensors = [exact(self._metric.sums(self._empty[0], targets, None))]

    def add(self, scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> None:
        """Adds a batch."""
        if self._metric.sums is None:
            targets = targets.view(scores.size(0), self._empty[1].size(1)).float()
            self._kept.append((exact(scores.detach()), targets, valid))
        else:
            self.tensors[0] += self._metric.sums(scores.detach(), targets, valid)

    def reset(self) -> None:
        """Forgets everything; sums stay where they are in memory."""
        self._kept.clear()
        for tensor in self.tensors:
            tensor.zero_()

    def value(self, batches: float) -> float:
        """The metric of all that was added, in so many batches; NaN where there were none, or NaN is to be ranked."""
        rows = self.tensors or self._rows()
        if not batches or bool(rows[0].isnan().any()):
            return float("nan")
        return float(rows[0]) / batches if self._metric.by_batch else float(self._metric.function(*rows))

    def _rows(self) -> list[Tensor]:
        """Scores and targets that were kept."""
        parts = [(s, t) if valid is None else (s[valid], t[valid]) for s, t, valid in self._kept]
        return [torch.cat(columns) for columns in zip(self._empty, *parts, strict=True)]

    def state(self) -> dict[str, Any]:
        """As JSON values, to be restored by :meth:`restore`."""
        if self.tensors:
            return {"sums": self.tensors[0].flatten().tolist()}
        scores, targets = (values.cpu() for values in self._rows())
        arrays = {"scores": scores.double().numpy(), "targets": targets.numpy()}
        return {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from what :meth:`state` gave."""
        if not isinstance(state, Mapping):
            remedy = "finish the run with the version of lrga that began it, or train anew"
            raise CheckpointError("the sums of a metric by name", f"{state!r:.60}", remedy)
        self.reset()
        if self.tensors:
            (total,) = self.tensors
            total.copy_(torch.tensor(state["sums"], dtype=total.dtype).view(total.shape))
            return
        kept = []
        for (name, kind), empty in zip((("scores", np.float64), ("targets", np.float32)), self._empty, strict=True):
            array = np.frombuffer(base64.b64decode(state[name]), kind).reshape(-1, empty.size(1))
            kept.append(torch.from_numpy(array.copy()).to(empty))
        self.add(*kept)
