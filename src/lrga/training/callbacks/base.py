"""Callbacks, and the facts about a run that they receive."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrga.io.documents import read_fields
from lrga.tasks.task import LinkTask, Task
from lrga.training.config import TrainingConfig

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Facts about a run that starts or resumes."""

    config: TrainingConfig
    task: Task | LinkTask
    parameters: int
    graphs: dict[str, int]
    device: str
    folder: Path | None
    epoch: int  # epochs completed before this start
    batch: int  # batches of the next epoch completed before this start
    batches: int  # batches per epoch
    unit: str = "graphs"  # what `graphs` counts
    notes: tuple[str, ...] = ()  # notes on the data


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One epoch: a line of ``metrics.jsonl``. Metrics are in the units of the task (accuracies in percent).

    ``numbers`` holds other logged values by name (:meth:`lrga.training.Trainer.log`).
    """

    epoch: int
    lr: float
    train_loss: float
    train_metric: float
    val_loss: float
    val_metric: float
    test_loss: float
    test_metric: float
    seconds: float
    elapsed: float
    numbers: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values; without ``numbers`` if there are none."""
        return {key: value for key, value in asdict(self).items() if key != "numbers" or value}

    @classmethod
    def from_json(cls, values: Any) -> "EpochRecord":
        """Reads the values of :meth:`to_json`; raises an error if they are not the numbers of an epoch."""
        return read_fields(cls, values, "an epoch")


class Callback:
    """Base class of callbacks: override the methods of interest. All calls come from the training thread."""

    def on_start(self, facts: RunFacts) -> None:
        """A run starts or resumes."""

    def on_log(self, text: str) -> None:
        """A message about the run."""

    def on_batch_end(self, epoch: int, batch: int, batches: int) -> None:
        """``batch`` of ``batches`` of epoch ``epoch`` (from 1) are done; epoch 0 is a preparatory stage."""

    def on_evaluation_start(self, epoch: int) -> None:
        """The training part of an epoch is over."""

    def on_evaluation_end(self, trainer: "Trainer") -> None:
        """An epoch is evaluated but not yet recorded; ``trainer.log(name, value)`` adds values to its record."""

    def on_epoch_end(self, record: EpochRecord) -> None:
        """An epoch is evaluated and recorded."""

    def on_checkpoint(self, path: Path) -> None:
        """A checkpoint was written."""

    def on_end(self, reason: str) -> None:
        """Training ended (``"min_lr"``, ``"max_epochs"``) or pauses (``"time_limit"``, ``"interrupted"``)."""

    def on_close(self) -> None:
        """The last call, also after an error."""


class Checkpointer:
    """Saves a run and decides when it pauses; this base class does neither."""

    def pause(self, trainer: "Trainer") -> str | None:
        """Called before every batch; returns the reason to pause, or ``None`` to continue."""
        return None

    def log(self, text: str, facts: dict[str, Any]) -> None:
        """Receives the training loop in use, in words and as JSON values."""

    def end_epoch(self, trainer: "Trainer", record: EpochRecord | None) -> None:
        """Called after every epoch, with its record if the stage is evaluated."""
        self.save(trainer)

    def save(self, trainer: "Trainer") -> None:
        """Called at the end of epochs and when pausing (:func:`lrga.training.runs.checkpoint.capture`)."""
