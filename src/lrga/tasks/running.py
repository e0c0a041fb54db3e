"""Losses and metrics accumulated batch by batch on the device; a GPU is synchronised only when they are read.

``valid`` marks the rows that count; the others are padding.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrga.errors import OptionError
from lrga.io.limits import first_line
from lrga.tasks.losses import exact
from lrga.tasks.task import Task


class Scores:
    """Mean loss over batches and, for a task on graphs, its metrics. A metric is computed from sums, or from all
    scores if it ranks them. For standardised targets all are in the units of the data.

    Metrics do not depend on the batches, except for the benchmark's metrics (``*_by_batch``).

    Args:
        task: The task; ``None`` without a metric.
        device: Device of the sums.

    Attributes:
        total: The weighted sum of the losses, float64.
        weight: The sum of the weights.
        tensors: The sums of the metrics by name, at fixed memory addresses, so captured steps may add to them.

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
        self._metrics: dict[str, Any] = {} if task is None else {task.metric: task.metric_facts, **task.logged()}
        self._ranks = any(metric.sums is None for metric in self._metrics.values())
        self.tensors: dict[str, Tensor] = {}
        self._scale = None
        if task is None:
            return
        width = task.out_channels
        columns = 1 if task.kind == "classification" else width  # of targets
        self._empty = exact(torch.zeros(0, width, device=device)), torch.zeros(0, columns, device=device)
        targets = self._empty[1].view(0) if task.kind == "classification" else self._empty[1]
        for name, metric in self._metrics.items():
            try:
                if metric.sums is not None:
                    self.tensors[name] = torch.zeros_like(exact(metric.sums(self._empty[0], targets, None)))
            except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
                got, remedy = f"{type(error).__name__}: {first_line(error)}", "return sums over the rows"
                raise OptionError(f"sums of {name!r} that are a tensor, also of 0 rows", got, remedy) from error
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
        self.total += loss.detach()
        for name, total in self.tensors.items():
            total += self._metrics[name].sums(scores.detach(), targets, valid)
        if valid is None:
            self.weight += 1.0
            self._keep(scores, targets, None)

    def count(self, rows: int, scored: tuple[Tensor, Tensor, Tensor]) -> None:
        """Completes :meth:`add` with ``valid``: takes the number of rows, and scores, targets and ``valid``."""
        self.weight += 1.0 if rows else 0.0
        if self._ranks:  # the next replay overwrites this memory
            self._keep(*(values.clone() for values in scored))

    def _keep(self, scores: Tensor, targets: Tensor, valid: Tensor | None) -> None:
        if self._ranks:
            targets = targets.view(scores.size(0), self._empty[1].size(1)).float()
            self._kept.append((exact(scores.detach()), targets, valid))

    def reset(self) -> None:
        """Resets everything; sums keep their memory."""
        self.weight = 0.0
        self._kept.clear()
        for tensor in (self.total, *self.tensors.values()):
            tensor.zero_()

    def means(self) -> tuple[float, float]:
        """Loss and metric of all batches; NaN if there are none, or if a ranking metric has NaN scores.

        Without a task the metric is NaN.
        """
        loss = float(self.total) / self.weight if self.weight else float("nan")
        return loss, float("nan") if self.task is None else float(self._value(self.task.metric))

    def numbers(self) -> dict[str, Any]:
        """The task's other metrics of all batches, by name."""
        return {name: self._value(name) for name in [*self._metrics][1:]}

    def _value(self, name: str) -> Any:
        metric, rows = self._metrics[name], [self.tensors[name]] if name in self.tensors else self._rows()
        if not self.weight or bool(rows[0].isnan().any()):
            return float("nan")
        return float(rows[0]) / self.weight if metric.by_batch else metric.function(*rows)

    def _rows(self) -> list[Tensor]:
        """The kept scores and targets."""
        parts = [(s, t) if valid is None else (s[valid], t[valid]) for s, t, valid in self._kept]
        return [torch.cat(columns) for columns in zip(self._empty, *parts, strict=True)]

    def state(self) -> dict[str, Any]:
        """JSON values for :meth:`restore`."""
        state: dict[str, Any] = {"loss": (float(self.total), self.weight)}
        if self.task is None:
            return state
        metrics: dict[str, Any] = {}
        if self.tensors:
            metrics["sums"] = torch.cat([total.flatten() for total in self.tensors.values()]).tolist()
        if self._ranks:
            scores, targets = (values.cpu() for values in self._rows())
            arrays = {"scores": scores.double().numpy(), "targets": targets.numpy()}
            metrics |= {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}
        return state | {"metric": metrics}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restores a :meth:`state`."""
        self.reset()
        total, self.weight = values["loss"]
        self.total.fill_(total)
        if self.task is None:
            return
        state, totals = values["metric"], self.tensors.values()
        parts = torch.tensor(state.get("sums", []), dtype=torch.float64).split([total.numel() for total in totals])
        for total, part in zip(totals, parts, strict=True):
            total.copy_(part.view(total.shape))
        if not self._ranks:
            return
        kept = []
        for (name, kind), empty in zip((("scores", np.float64), ("targets", np.float32)), self._empty, strict=True):
            array = np.frombuffer(base64.b64decode(state[name]), kind).reshape(-1, empty.size(1))
            kept.append(torch.from_numpy(array.copy()).to(empty))
        self._keep(kept[0], kept[1], None)
