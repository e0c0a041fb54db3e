"""Callbacks, and what they are told about a run."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrga.errors import OptionError
from lrga.io.documents import is_number
from lrga.tasks.task import LinkTask, Task
from lrga.training.config import TrainingConfig, read_fields

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
    epoch: int  # completed before this start
    batch: int  # of the next epoch, done before this start
    batches: int  # of one epoch
    unit: str = "graphs"  # what `graphs` counts
    notes: tuple[str, ...] = ()  # what one should know of the data


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One epoch: a line of ``metrics.jsonl``. Metrics are as the task reports them (accuracies in percent).

    ``numbers`` holds whatever else was logged, by name (:meth:`lrga.training.Trainer.log`).
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
        """As JSON values; ``numbers`` only where there are any."""
        return {key: value for key, value in asdict(self).items() if key != "numbers" or value}

    @classmethod
    def from_json(cls, values: Any) -> "EpochRecord":
        """What :meth:`to_json` wrote; refused where it is not the numbers of an epoch."""
        plain = {key: v for key, v in values.items() if key != "numbers"} if isinstance(values, dict) else values
        made, numbers = read_fields(cls, plain, "an epoch"), values.get("numbers", {})
        if not isinstance(numbers, dict) or not all(map(is_number, numbers.values())):
            raise OptionError("numbers by name in an epoch", repr(numbers)[:80], "restore what was written")
        return replace(made, numbers=numbers)


class Callback:
    """Base class of callbacks: override the methods of interest. All calls come from the training thread."""

    def on_start(self, facts: RunFacts) -> None:
        """A run starts or resumes."""

    def on_log(self, text: str) -> None:
        """A message about the run."""

    def on_batch_end(self, epoch: int, batch: int, batches: int) -> None:
        """``batch`` of ``batches`` of epoch ``epoch`` (from 1) are done; epoch 0 is a stage that prepares another."""

    def on_evaluation_start(self, epoch: int) -> None:
        """The training part of an epoch is over."""

    def on_evaluation_end(self, trainer: "Trainer") -> None:
        """An epoch is evaluated but not yet recorded: ``trainer.log(name, value)`` adds numbers to its record."""

    def on_epoch_end(self, record: EpochRecord) -> None:
        """An epoch is evaluated and recorded."""

    def on_checkpoint(self, path: Path) -> None:
        """A checkpoint was written."""

    def on_end(self, reason: str) -> None:
        """Training ended (``"min_lr"``, ``"max_epochs"``) or pauses (``"time_limit"``, ``"interrupted"``)."""

    def on_close(self) -> None:
        """The last call, also after an error."""


class Checkpointer:
    """Saves a run and decides when it pauses; this one does neither."""

    def pause(self, trainer: "Trainer") -> str | None:
        """Called before every batch: why to pause, ``None`` to go on."""
        return None

    def log(self, text: str, facts: dict[str, Any]) -> None:
        """Which loop trains, in words and as JSON values."""

    def end_epoch(self, trainer: "Trainer", record: EpochRecord | None) -> None:
        """Called after every epoch, with its record where the stage is evaluated."""
        self.save(trainer)

    def save(self, trainer: "Trainer") -> None:
        """Called at the end of epochs and when pausing (:func:`lrga.training.runs.checkpoint.capture`)."""
