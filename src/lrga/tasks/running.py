"""Losses and metrics accumulated batch by batch on the device; a GPU is synchronised only when they are read.

``valid`` marks the rows that count; the others are padding.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrga.tasks.losses import exact
from lrga.tasks.task import Task


class Running:
    """Running weighted mean: one float64 sum and one weight.

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
        """Adds a 0-dimensional value."""
        self.total += exact(value.detach()) * weight
        self.weight += weight

    def reset(self) -> None:
        """Resets the mean; the sum keeps its memory."""
        self.total.zero_()
        self.weight = 0.0

    def mean(self) -> float:
        """The mean; NaN if nothing was added."""
        return float(self.total) / self.weight if self.weight else float("nan")

    def state(self) -> tuple[float, float]:
        """Sum and weight, for :meth:`restore`."""
        return float(self.total), self.weight

    def restore(self, state: tuple[float, float]) -> None:
        """Restores a :meth:`state`."""
        self.total.fill_(state[0])
        self.weight = state[1]


class Scores:
    """Mean loss over batches and the metric of a task. The metric is computed from sums, or from all scores if it ranks
    them. For standardised targets both are in the units of the data.

    The metric does not depend on the batches, except for the benchmark's metrics (``*_by_batch``).

    Attributes:
        loss: The mean loss.
        tensors: The sums, at fixed memory addresses, so captured steps may add to them; empty if scores are kept.

    Example:
        >>> sums = Scores(Task(level="node", kind="classification", out_channels=2), "cpu")
        >>> sums.add(torch.tensor(0.5), torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
        >>> sums.add(torch.tensor(1.5), torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), torch.tensor([1, 1, 1]))
        >>> sums.means()
        (1.0, 25.0)
    """

    def __init__(self, task: Task, device: str | torch.device) -> None:
        self.task, self.loss = task, Running(device)
        self._metric, width = task.metric_facts, task.out_channels
        columns = 1 if task.kind == "classification" else width  # of targets
        self._empty = exact(torch.zeros(0, width, device=device)), torch.zeros(0, columns, device=device)
        self._kept: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self.tensors: list[Tensor] = []
        if self._metric.sums is not None:
            targets = self._empty[1].view(0) if task.kind == "classification" else self._empty[1]
            self.tensors = [exact(self._metric.sums(self._empty[0], targets, None))]
        # Created here, because captured steps cannot create a tensor. Double precision, because squares may be large.
        self._scale = None
        if task.target_std is not None:
            self._scale = torch.tensor(task.target_std, dtype=torch.float64, device=device)

    def add(self, loss: Tensor, scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> None:
        """Adds a batch; a batch without targets is ignored.

        With ``valid`` the step may be captured: this call then changes only tensors at fixed memory addresses, and
        :meth:`count` does the rest.
        """
        if valid is None and scores.size(0) == 0:
            return
        if self._scale is not None:
            scores, targets = scores.detach() * self._scale, targets * self._scale
            loss = self.task.loss_of(scores, targets, valid)
        if valid is None:
            self.loss.add(loss)
        else:
            self.loss.total += loss.detach()
        if valid is None or self.tensors:
            self._add_rows(scores, targets, valid)

    def count(self, rows: int, scored: tuple[Tensor, Tensor, Tensor]) -> None:
        """Completes :meth:`add` with ``valid``: takes the number of rows, and scores, targets and ``valid``."""
        self.loss.weight += 1.0 if rows else 0.0
        if not self.tensors:  # the next replay overwrites this memory
            self._add_rows(*(values.clone() for values in scored))

    def _add_rows(self, scores: Tensor, targets: Tensor, valid: Tensor | None) -> None:
        if self._metric.sums is None:
            targets = targets.view(scores.size(0), self._empty[1].size(1)).float()
            self._kept.append((exact(scores.detach()), targets, valid))
        else:
            self.tensors[0] += self._metric.sums(scores.detach(), targets, valid)

    def reset(self) -> None:
        """Resets everything; sums keep their memory."""
        self.loss.reset()
        self._kept.clear()
        for tensor in self.tensors:
            tensor.zero_()

    def means(self) -> tuple[float, float]:
        """Loss and metric of all batches; NaN if there are none, or if a ranking metric has NaN scores."""
        loss, rows, batches = self.loss.mean(), self.tensors or self._rows(), self.loss.weight
        if not batches or bool(rows[0].isnan().any()):
            return loss, float("nan")
        return loss, float(rows[0]) / batches if self._metric.by_batch else float(self._metric.function(*rows))

    def _rows(self) -> list[Tensor]:
        """The kept scores and targets."""
        parts = [(s, t) if valid is None else (s[valid], t[valid]) for s, t, valid in self._kept]
        return [torch.cat(columns) for columns in zip(self._empty, *parts, strict=True)]

    def state(self) -> dict[str, Any]:
        """JSON values for :meth:`restore`."""
        if self.tensors:
            return {"loss": self.loss.state(), "metric": {"sums": self.tensors[0].flatten().tolist()}}
        scores, targets = (values.cpu() for values in self._rows())
        arrays = {"scores": scores.double().numpy(), "targets": targets.numpy()}
        kept = {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}
        return {"loss": self.loss.state(), "metric": kept}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restores a :meth:`state`."""
        self.reset()
        self.loss.restore(values["loss"])
        state = values["metric"]
        if self.tensors:
            (total,) = self.tensors
            total.copy_(torch.tensor(state["sums"], dtype=total.dtype).view(total.shape))
            return
        kept = []
        for (name, kind), empty in zip((("scores", np.float64), ("targets", np.float32)), self._empty, strict=True):
            array = np.frombuffer(base64.b64decode(state[name]), kind).reshape(-1, empty.size(1))
            kept.append(torch.from_numpy(array.copy()).to(empty))
        scores, targets = kept
        self._add_rows(scores, targets, None)
