"""Creates the record of a run from its folder, also if the folder is damaged."""

import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from lrga.data.datasets.building import plan_dataset
from lrga.data.datasets.spec import SPLITS, dataset_name, spec_of
from lrga.errors import CheckpointError, DataError
from lrga.experiments.published import Published
from lrga.experiments.records import CLOCK, FAILED, FINISHED, RunRecord, compact
from lrga.io import limits
from lrga.io.documents import is_number
from lrga.training.callbacks.base import Callback, EpochRecord, RunFacts
from lrga.training.config import PLACE_OPTIONS, TrainingConfig, essence
from lrga.training.problems.data import AnyTask
from lrga.training.runs.folder import RunFolder

UNFINISHED = "unfinished"  # status of a run folder without a result
COLUMNS = tuple(field.name for field in fields(EpochRecord) if field.name != "numbers")


class Witness(Callback):
    """Keeps the facts that a run reports at its start."""

    def __init__(self) -> None:
        self.facts: RunFacts | None = None

    def on_start(self, facts: RunFacts) -> None:
        self.facts = facts


def make_record(
    config: TrainingConfig,
    folder: Path,
    *,
    status: str,
    reason: str,
    published: Published | None = None,
    facts: RunFacts | None = None,
    given: bool = False,
    seconds: float | None = None,
) -> RunRecord:
    """The record of a run, from the files in its folder.

    Args:
        config: The run's configuration.
        folder: Its run folder; may be empty if the run failed early.
        status: Its final status.
        reason: Reason for the status.
        published: The published number, if any.
        facts: Facts that the run reported at its start.
        given: Whether the graphs were passed in; the name of the data does not tell their origin then.
        seconds: Duration; by default that of its epochs.
    """
    home = RunFolder(folder)
    try:
        history, environment = home.history(), home.environments()
        network, task, checksum = home.model_facts() if home.holds_a_run else (None, None, None)
    except CheckpointError:
        if status != FAILED:  # an unreadable folder is a failed run and does not end the campaign
            raise
        history, environment, network, task, checksum = (), [], None, None, None
    words = ("model", "budget", "lrga", "preset", "wiring") if config.budget is not None else ("model", "lrga")
    model: dict[str, Any] = {key: getattr(config.model, key) for key in words}
    if network is not None:
        counted = network.size() if facts is None and history else None  # its options may be impossible
        model |= {"parameters": counted if facts is None else facts.parameters, "architecture": network.to_json()}
    spent = history[-1].elapsed if history else 0.0
    best = None if task is None else best_epoch(history, task)
    return RunRecord(
        run=folder.name,
        status=status,
        reason=reason,
        data=_data_facts(config, facts, given=given) | {"sha256": checksum},
        model=model,
        config=recorded_options(config),
        seed=config.run.seed,
        metric=None if task is None else task.metric,
        epochs=len(history),
        seconds=spent if seconds is None else seconds,
        last=history[-1].to_json() if history else None,
        best=None if best is None else best.to_json(),
        curve=compact(history),
        environment=environment,
        published=None if published is None else {**published.to_json(), "source": published.source},
        time=time.strftime(CLOCK),
    )


def recorded_options(config: TrainingConfig) -> dict[str, Any]:
    """All options; folders of this machine are replaced by their defaults."""
    values = essence(config)
    values["run"] |= {key: getattr(config.run, key) for key in PLACE_OPTIONS["run"]}
    return values


def best_epoch(history: Sequence[EpochRecord], task: AnyTask) -> EpochRecord | None:
    """The first epoch with the best validation metric."""
    best: EpochRecord | None = None
    for record in history:
        if task.is_better(record.val_metric, None if best is None else best.val_metric):
            best = record
    return best


def _data_facts(config: TrainingConfig, facts: RunFacts | None, *, given: bool) -> dict[str, Any]:
    """Name, options and number of graphs; for a named data set also its recipe with the checksum of every file."""
    data = config.data
    dataset = None if given else dataset_name(data.name)
    found: dict[str, Any] = {"name": dataset or data.name, "options": dict(data.options)}
    graphs = None if facts is None else facts.graphs
    if dataset is None:
        return found | {"origin": "graphs passed in" if given else "the user's own", "graphs": graphs}
    plan = plan_dataset(dataset, data.root, **data.options)
    found |= {"origin": plan.spec.origin, "recipe": plan.recipe, "note": plan.spec.note}
    if (manifest := plan.finished()) is not None:
        source = manifest.notes.get("source")
        found |= {
            "built_by": manifest.lrga,
            "built_from": None if source is None else Path(source).name,
            "files": {name: file.sha256 for name, file in manifest.files.items()},
        }
        found["note"] = manifest.notes.get("note", "")  # depends on the source files
        if config.budget is not None and graphs is None:
            graphs = {split: manifest.notes["statistics"][split]["graphs"] for split in SPLITS}
    return found | {"graphs": graphs}


def record_of_folder(path: str | Path) -> tuple[RunRecord, tuple[str, ...]]:
    """The record of a run folder, finished, unfinished or damaged, and the errors from reading it.

    Raises:
        CheckpointError, OptionError: There is no valid configuration.
    """
    home, faults = RunFolder(path), []

    def sound(name: str, read: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return read()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, OverflowError) as error:
            faults.append(f"{name}: {error}")
            return otherwise

    config = home.config()
    network, task, checksum = sound("model.json", home.model_facts, (None, None, None))
    epochs, wrong = read_metrics(home.path / "metrics.jsonl")
    faults += wrong
    result = sound("result.json", home.result, None)
    environment = sound("environment.json", home.environments, [])
    finished = result is not None and bool(epochs) and task is not None
    if result is not None and not finished:
        faults.append("result.json exists, but its epochs or its task are missing")
    history = [EpochRecord(**{name: epoch[name] for name in COLUMNS}) for epoch in epochs]  # type: ignore[arg-type]
    best = None if task is None else best_epoch(history, task)
    counted = None if result is None else result.parameters
    if counted is None and network is not None and task is not None:
        counted = network.size()
    columns, name = dict.fromkeys(column for epoch in epochs for column in epoch), config.data.name
    note = "" if dataset_name(name) is None else spec_of(name).note
    record = RunRecord(
        run=home.path.resolve().name,
        status=FINISHED if finished else UNFINISHED,
        reason=result.stopped_by if finished else _last_word(home.path / "log.txt"),
        data={"name": name, "options": dict(config.data.options), "sha256": checksum, "note": note},
        model={"parameters": counted},
        config=config.to_json(),
        seed=config.run.seed,
        metric=None if task is None else task.metric,
        epochs=len(epochs),
        seconds=epochs[-1]["elapsed"] if epochs else 0.0,
        last=history[-1].to_json() if history else None,
        best=None if best is None else best.to_json(),
        curve={name: [epoch.get(name) for epoch in epochs] for name in columns},
        environment=environment,
        published=None,
        time=str(environment[-1].get("started", "")) if environment else "",
    )
    return record, tuple(faults)


def _last_word(path: Path) -> str:
    """The last line of the log; it shows how far the run came."""
    try:
        lines = limits.read_bytes(path).decode("utf-8", errors="replace").splitlines()
    except (OSError, DataError):
        lines = []
    return f"last line of its log: {lines[-1].strip()}" if lines else "no log"


def read_metrics(path: str | Path) -> tuple[list[dict[str, float]], list[str]]:
    """The valid epochs of the file, and the errors of its other lines.

    An incomplete last line is ignored: a running training may be writing it.

    Example:
        >>> import tempfile
        >>> read_metrics(tempfile.mkdtemp() + "/metrics.jsonl")
        ([], [])
    """
    try:
        content = limits.read_bytes(Path(path))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{Path(path).name}: {error.strerror or error}"]
    except DataError as error:
        return [], [str(error)]
    *whole, rest = content.split(b"\n")
    epochs, faults = [], []
    for number, line in enumerate([*whole, rest] if rest else whole, start=1):
        epoch = _epoch(line)
        if isinstance(epoch, dict):
            epochs.append(epoch)
        elif number <= len(whole):
            faults.append(f"{Path(path).name}, line {number}: {epoch}")
    return epochs, faults


def _epoch(line: bytes) -> dict[str, float] | str:
    """The numbers of a line, or the reason why they cannot be read."""
    try:
        values: Any = limits.parse_json(line)
    except ValueError:
        return "no JSON"
    if not isinstance(values, dict) or any(not is_number(values.get(name)) for name in COLUMNS):
        return "not the numbers of an epoch"
    numbers = values.get("numbers", {})
    logged = {name: value for name, value in numbers.items() if is_number(value)} if isinstance(numbers, dict) else {}
    return logged | {name: values[name] for name in COLUMNS}
