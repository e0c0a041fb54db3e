"""The result of a training run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from lrga.errors import OptionError
from lrga.io.documents import check_fields
from lrga.tasks.task import METRICS, number_format
from lrga.training.callbacks.base import EpochRecord
from lrga.training.runs.checkpoint import damage_explained

FINISHED = ("min_lr", "max_epochs")
_PLAIN = ("stopped_by", "metric", "epochs", "seconds", "parameters", "seed")


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """The result of a run, finished or paused.

    Attributes:
        stopped_by: ``"min_lr"`` or ``"max_epochs"`` if it is finished; ``"time_limit"`` if it can be continued.
        metric: Name of the metric (:data:`lrga.tasks.METRICS`); accuracies are in percent.
        test: The reported number: the metric on ``test`` of the last epoch's model, or of the best one in validation if
            the protocol says so (link prediction). ``None`` before the first epoch.
        last: Record of the last epoch.
        best: Record of the best epoch in validation; compare ``best.test_metric`` with ``test``.
        epochs: Number of trained epochs.
        seconds: Training time, including evaluation.
        parameters: Number of parameters of the model.
        seed: Seed of the run.
        folder: The run folder, if any.
        history: Records of all epochs.
        model: The last epoch's model, in evaluation mode.
        reported: The reported epoch, ``"last"`` or ``"best"``.
    """

    stopped_by: str
    metric: str
    last: EpochRecord | None
    best: EpochRecord | None
    epochs: int
    seconds: float
    parameters: int
    seed: int
    folder: Path | None = field(default=None, compare=False)
    history: tuple[EpochRecord, ...] = ()
    reported: str = "last"
    model: nn.Module | None = field(default=None, repr=False, compare=False)

    @property
    def test(self) -> float | None:
        """The reported number."""
        record = self.best if self.reported == "best" else self.last
        return None if record is None else record.test_metric

    @property
    def finished(self) -> bool:
        """Whether the run reached its end; a paused one continues with the same call."""
        return self.stopped_by in FINISHED

    def format_metric(self, value: float) -> str:
        """Formats the metric with its usual number of digits."""
        return f"{value:{number_format(value, METRICS[self.metric].decimals)}}"

    def to_json(self) -> dict[str, Any]:
        """The contents of ``result.json``: all fields except folder, history and model."""
        records = {name: getattr(self, name) for name in ("last", "best")}
        return {
            "test": self.test,
            "reported": self.reported,
            **{key: getattr(self, key) for key in _PLAIN},
            **{name: None if record is None else record.to_json() for name, record in records.items()},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any], **more: Any) -> "TrainingResult":
        """Reads the values of :meth:`to_json`; folder, history and model may be added."""
        with damage_explained("a result", "restore result.json, or train the run to its end again"):
            made: dict[str, Any] = {key: values[key] for key in _PLAIN}
            check_fields(cls, made)
            if made["metric"] not in METRICS:
                raise OptionError(f"a metric, one of {', '.join(METRICS)}", repr(made["metric"]), "")
            for name in ("last", "best"):
                made[name] = None if values[name] is None else EpochRecord.from_json(values[name])
        return cls(**made, **more)
