"""What a training run tells whoever listens."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrga.errors import OptionError
from lrga.io.documents import check_fields, is_number
from lrga.tasks.link import LinkTask
from lrga.tasks.task import Task
from lrga.training.config import TrainingConfig

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """A run that begins or continues."""

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
        names = {field.name for field in fields(cls)} - {"numbers"}
        if not isinstance(values, dict) or set(values) - {"numbers"} != names:
            got = repr(values)[:80]
            raise OptionError(f"an epoch with {', '.join(sorted(names))}", got, "restore what was written")
        plain = {key: value for key, value in values.items() if key != "numbers"}
        check_fields(cls, plain)
        numbers = values.get("numbers", {})
        if not isinstance(numbers, dict) or not all(is_number(value) for value in numbers.values()):
            raise OptionError("numbers by name in an epoch", repr(numbers)[:80], "restore what was written")
        return cls(**plain, numbers=numbers)


class Listener:
    """Base of whoever listens: override what is of interest. All calls come from the training thread."""

    def started(self, facts: RunFacts) -> None:
        """A run begins or continues."""

    def noted(self, text: str) -> None:
        """Something worth saying once, in words."""

    def batch_done(self, epoch: int, batch: int, batches: int) -> None:
        """``batch`` of ``batches`` of epoch ``epoch`` (from 1) are done; epoch 0 is a stage that prepares another."""

    def evaluating(self, epoch: int) -> None:
        """The training part of an epoch is over."""

    def epoch_ending(self, trainer: "Trainer") -> None:
        """An epoch is evaluated but not yet recorded: ``trainer.log(name, value)`` adds numbers to its record."""

    def epoch_done(self, record: EpochRecord) -> None:
        """An epoch is over, evaluated and recorded."""

    def checkpointed(self, path: Path) -> None:
        """A checkpoint was written."""

    def stopped(self, reason: str) -> None:
        """Training ended (``"min_lr"``, ``"max_epochs"``) or pauses (``"time_limit"``, ``"interrupted"``)."""

    def closed(self) -> None:
        """Nothing more will come, be it for an error."""


class Listeners(Listener):
    """Several listeners as one."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners = list(listeners)

    def started(self, facts: RunFacts) -> None:
        for listener in self.listeners:
            listener.started(facts)

    def noted(self, text: str) -> None:
        for listener in self.listeners:
            listener.noted(text)

    def batch_done(self, epoch: int, batch: int, batches: int) -> None:
        for listener in self.listeners:
            listener.batch_done(epoch, batch, batches)

    def evaluating(self, epoch: int) -> None:
        for listener in self.listeners:
            listener.evaluating(epoch)

    def epoch_ending(self, trainer: "Trainer") -> None:
        for listener in self.listeners:
            listener.epoch_ending(trainer)

    def epoch_done(self, record: EpochRecord) -> None:
        for listener in self.listeners:
            listener.epoch_done(record)

    def checkpointed(self, path: Path) -> None:
        for listener in self.listeners:
            listener.checkpointed(path)

    def stopped(self, reason: str) -> None:
        for listener in self.listeners:
            listener.stopped(reason)

    def closed(self) -> None:
        for listener in self.listeners:
            listener.closed()
