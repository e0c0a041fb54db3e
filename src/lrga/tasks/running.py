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


class Scores:
    """Mean loss over batches and, for a task on graphs, its metric. The metric is computed from sums, or from all
    scores if it ranks them. For standardised targets both are in the units of the data.

    The metric does not depend on the batches, except for the benchmark's metrics (``*_by_batch``).

    Args:
        task: The task; ``None`` without a metric.
        device: Device of the sums.

    Attributes:
        total: The weighted sum of the losses, float64.
        weight: The sum of the weights.
        tensors: The sums, at fixed memory addresses, so captured steps may add to them; empty if scores are kept.

    Example:
        >>> sums = Scores(Task(level="node", kind="classification", out_channels=2), "cpu")
        >>> sums.add(torch.tensor(0.5), torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
        >>> sums.add(torch.tensor(1.5), torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), torch.tensor([1, 1, 1]))
        >>> sums.means()
        (1.0, 25.0)
    """

    def __init__(self, task: Task | None, device: str | torch.device = "cpu") -> None:
        self.task: Any = task
        self.total, self.weight = exact(torch.zeros((), device=device)), 0.0
        self._kept: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self.tensors: list[Tensor] = []
        self._scale = None
        if task is None:
            return
        self._metric, width = task.metric_facts, task.out_channels
        columns = 1 if task.kind == "classification" else width  # of targets
        self._empty = exact(torch.zeros(0, width, device=device)), torch.zeros(0, columns, device=device)
        if self._metric.sums is not None:
            targets = self._empty[1].view(0) if task.kind == "classification" else self._empty[1]
            self.tensors = [exact(self._metric.sums(self._empty[0], targets, None))]
        # Created here, because captured steps cannot create a tensor. Double precision, because squares may be large.
        if task.target_std is not None:
            self._scale = torch.tensor(task.target_std, dtype=torch.float64, device=device)

    def add(
        self,
        loss: Tensor,
        scores: Tensor | None = None,
        targets: Tensor | None = None,
        valid: Tensor | None = None,
        *,
        weight: float = 1.0,
    ) -> None:
        """Adds a batch; a batch without targets is ignored. Without a task only the loss is given, with its weight.

        With ``valid`` the step may be captured: this call then changes only tensors at fixed memory addresses, and
        :meth:`count` does the rest.
        """
        if scores is None or targets is None:
            self.total += exact(loss.detach()) * weight
            self.weight += weight
            return
        if valid is None and scores.size(0) == 0:
            return
        if self._scale is not None:
            scores, targets = scores.detach() * self._scale, targets * self._scale
            loss = self.task.loss_of(scores, targets, valid)
        if valid is None:
            self.add(loss)
        else:
            self.total += loss.detach()
        if valid is None or self.tensors:
            self._add_rows(scores, targets, valid)

    def count(self, rows: int, scored: tuple[Tensor, Tensor, Tensor]) -> None:
        """Completes :meth:`add` with ``valid``: takes the number of rows, and scores, targets and ``valid``."""
        self.weight += 1.0 if rows else 0.0
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
        self.weight = 0.0
        self._kept.clear()
        for tensor in (self.total, *self.tensors):
            tensor.zero_()

    def means(self) -> tuple[float, float]:
        """Loss and metric of all batches; NaN if there are none, or if a ranking metric has NaN scores.

        Without a task the metric is NaN.
        """
        loss = float(self.total) / self.weight if self.weight else float("nan")
        if self.task is None or not self.weight or bool((rows := self.tensors or self._rows())[0].isnan().any()):
            return loss, float("nan")
        return loss, float(rows[0]) / self.weight if self._metric.by_batch else float(self._metric.function(*rows))

    def _rows(self) -> list[Tensor]:
        """The kept scores and targets."""
        parts = [(s, t) if valid is None else (s[valid], t[valid]) for s, t, valid in self._kept]
        return [torch.cat(columns) for columns in zip(self._empty, *parts, strict=True)]

    def state(self) -> dict[str, Any]:
        """JSON values for :meth:`restore`."""
        state: dict[str, Any] = {"loss": (float(self.total), self.weight)}
        if self.task is None:
            return state
        if self.tensors:
            return state | {"metric": {"sums": self.tensors[0].flatten().tolist()}}
        scores, targets = (values.cpu() for values in self._rows())
        arrays = {"scores": scores.double().numpy(), "targets": targets.numpy()}
        kept = {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}
        return state | {"metric": kept}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restores a :meth:`state`."""
        self.reset()
        total, self.weight = values["loss"]
        self.total.fill_(total)
        if self.task is None:
            return
        state = values["metric"]
        if self.tensors:
            (sums,) = self.tensors
            sums.copy_(torch.tensor(state["sums"], dtype=sums.dtype).view(sums.shape))
            return
        kept = []
        for (name, kind), empty in zip((("scores", np.float64), ("targets", np.float32)), self._empty, strict=True):
            array = np.frombuffer(base64.b64decode(state[name]), kind).reshape(-1, empty.size(1))
            kept.append(torch.from_numpy(array.copy()).to(empty))
        scores, targets = kept
        self._add_rows(scores, targets, None)
