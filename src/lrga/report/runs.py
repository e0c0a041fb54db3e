"""A run as a page shows it, whether it comes from a run folder or from a record."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrga.bench.recording import best_epoch
from lrga.bench.records import FINISHED, RunRecord
from lrga.errors import DataError
from lrga.io import limits
from lrga.io.documents import is_number
from lrga.models.zoo import MODELS
from lrga.report.metrics_file import COLUMNS, read_metrics
from lrga.tasks.task import METRICS, Metric
from lrga.training.callbacks.events import EpochRecord
from lrga.training.config import TrainingConfig, essence
from lrga.training.problems.kinds import AnyArchitecture, AnyTask
from lrga.training.runs.folder import RunFolder

UNFINISHED = "unfinished"
# What a damaged file can raise while it is read; anything else is a fault of ours and must be seen.
DAMAGE = (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, OverflowError)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run.

    Attributes:
        name: Of its folder or in its record.
        place: Where it was read from.
        status: As in a record, or ``"unfinished"`` of a run folder without a result.
        reason: What ended it, or what is known of why it has not.
        config: Its options.
        metric: What is measured, ``None`` where the run never came so far.
        parameters: Of the network, where they are known.
        epochs: Epochs trained.
        seconds: Spent on them.
        last, best: All numbers of the last epoch, and of the best in validation.
        curve: Columns of numbers, among them ``epoch``.
        data: What is known of the graphs.
        environment: Where every start happened.
        faults: What could not be read of it.
    """

    name: str
    place: str
    status: str
    reason: str
    config: TrainingConfig
    metric: Metric | None
    parameters: int | None
    epochs: int
    seconds: float
    last: dict[str, float] | None
    best: dict[str, float] | None
    curve: dict[str, list[float]]
    data: dict[str, Any] = field(default_factory=dict)
    environment: list[dict[str, Any]] = field(default_factory=list)
    faults: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether it reached its end: only such runs are averaged."""
        return self.status == FINISHED and self.last is not None and self.metric is not None

    @property
    def dataset(self) -> str:
        """Name of the data set, as the paper has it or as the user typed it."""
        return self.config.data.name

    @property
    def model(self) -> str:
        """The network as the paper writes it."""
        model = self.config.model
        return ("LRGA + " if model.lrga else "") + MODELS.get(model.model, model.model)

    @property
    def reported(self) -> str:
        """Which epoch's number counts: the ``"last"``, in link prediction the ``"best"`` in validation."""
        return self.config.reported

    @property
    def seed(self) -> int:
        """Of weights and order."""
        return self.config.run.seed

    @property
    def identity(self) -> str:
        """Equal for a run folder and the record that was made of it, different for runs that compute something else."""
        return json.dumps([self.name, essence(self.config)], sort_keys=True)


def run_of_record(record: RunRecord, place: str) -> Run:
    """From a record."""
    return Run(
        name=record.run,
        place=place,
        status=record.status,
        reason=record.reason,
        config=TrainingConfig.from_json(record.config),
        metric=None if record.metric is None else METRICS[record.metric],
        parameters=record.parameters if isinstance(record.parameters, int) else None,
        epochs=record.epochs,
        seconds=float(record.seconds),
        last=record.last,
        best=record.best,
        curve=_sound_curve(record.curve),
        data={key: value for key, value in record.data.items() if key not in ("recipe", "files")},
        environment=[start for start in record.environment if isinstance(start, dict)],
    )


def run_of_folder(path: str | Path) -> Run:
    """From a run folder, finished or not; only a configuration that cannot be read is an error.

    Raises:
        CheckpointError, OptionError: Where there is no sound configuration.
    """
    home, faults = RunFolder(path), []
    config = home.config()
    network, task, checksum = None, None, None
    try:
        network, task, checksum = home.model_facts()
    except DAMAGE as error:
        faults.append(f"model.json: {error}")
    epochs, wrong = read_metrics(home.path / "metrics.jsonl")
    faults += wrong
    result: dict[str, Any] | None = None
    try:
        result = home.result()
    except DAMAGE as error:
        faults.append(f"result.json: {error}")
    environment: list[dict[str, Any]] = []
    try:
        environment = home.environments()
    except DAMAGE as error:
        faults.append(f"environment.json: {error}")
    finished = result is not None and bool(epochs) and task is not None
    if result is not None and not finished:
        faults.append("result.json stands there, but not the epochs or the task that it sums up")
    best = None if task is None else best_epoch([_record(epoch) for epoch in epochs], task)
    return Run(
        name=home.path.resolve().name,
        place=str(path),
        status=FINISHED if finished else UNFINISHED,
        reason=str((result or {}).get("stopped_by", "")) if finished else _last_word(home.path / "log.txt"),
        config=config,
        metric=None if task is None else task.metric_facts,
        parameters=_parameters(result, network, task),
        epochs=len(epochs),
        seconds=epochs[-1]["elapsed"] if epochs else 0.0,
        last=epochs[-1] if epochs else None,
        best=None if best is None else {name: value for name, value in vars(best).items() if name != "numbers"},
        curve={name: [epoch[name] for epoch in epochs] for name in _common(epochs)},
        data={"name": config.data.name, "options": dict(config.data.options), "sha256": checksum},
        environment=environment,
        faults=tuple(faults),
    )


def _record(epoch: dict[str, float]) -> EpochRecord:
    values: dict[str, Any] = {name: epoch[name] for name in COLUMNS}
    return EpochRecord(**values)


def _common(epochs: list[dict[str, float]]) -> list[str]:
    """The names that every epoch has a number of."""
    return [name for name in epochs[0] if all(name in epoch for epoch in epochs)] if epochs else []


def _parameters(result: dict[str, Any] | None, network: AnyArchitecture | None, task: AnyTask | None) -> int | None:
    counted = (result or {}).get("parameters")
    if isinstance(counted, int):
        return counted
    return None if network is None or task is None else network.size()


def _last_word(path: Path) -> str:
    """The last line of the log, which says how far the run came."""
    try:
        lines = limits.read_bytes(path).decode("utf-8", errors="replace").splitlines()
    except (OSError, DataError):
        lines = []
    return f"last in its log: {lines[-1].strip()}" if lines else "no log"


def _sound_curve(curve: dict[str, Any]) -> dict[str, list[float]]:
    """Columns of finite numbers, all as long as ``epoch``; what is not is left out."""
    epochs = curve.get("epoch")
    length = len(epochs) if isinstance(epochs, list) else 0

    def sound(values: Any) -> bool:
        return isinstance(values, list) and len(values) == length and all(is_number(v) for v in values)

    kept = {name: values for name, values in curve.items() if sound(values)}
    return kept if length and "epoch" in kept else {}
