"""Records: one small JSON file per run with its settings and results.

A campaign's folder holds them in ``records``. ``RUN.json`` is the record of a finished run; it is written
once and never replaced. Other attempts are stored next to it as ``RUN.attempt-1.json`` and so on.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from lrga.data.datasets.spec import dataset_specs
from lrga.errors import DataError
from lrga.experiments.cell import earlier_name, run_name
from lrga.io import limits
from lrga.io.documents import is_number, to_json_bytes
from lrga.io.files import write_new
from lrga.tasks.task import BY_BATCH, METRICS
from lrga.training.callbacks.base import EpochRecord
from lrga.training.config import TrainingConfig

FORMAT = 1
FINISHED, TIME_LIMITED, FAILED, DIVERGED = "finished", "time-limited", "failed", "diverged"
STATUSES = (FINISHED, TIME_LIMITED, FAILED, DIVERGED)
FOLDER = "records"
RUN_NAME = re.compile(r"-seed\d+-[0-9a-f]{10}$")  # names of campaign runs end with a hash of their options
CLOCK = "%Y-%m-%dT%H:%M:%S%z"
POINTS = 100  # maximum number of epochs of a learning curve
DIGITS = 5
_COLUMNS = ("lr", "train_loss", "train_metric", "val_loss", "val_metric", "test_metric")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything needed to repeat a run.

    Attributes:
        run: Name of the run and of its run folder (:func:`lrga.experiments.cell.run_name`).
        status: ``"finished"``, ``"time-limited"`` (can be resumed), ``"failed"`` or ``"diverged"`` (the loss was no
            longer finite).
        reason: Why it ended: the stopping rule, the time limit or the error.
        data: Name, options, origin, number and checksum of the graphs.
        model: Complete description of the network: name, preset, wiring, widths, exact number of parameters.
        config: All options, except folders of the machine.
        seed: Seed of weights and data order.
        metric: Name of the metric (:data:`lrga.tasks.METRICS`); accuracies are in percent.
        epochs: Epochs trained.
        seconds: Duration of the epochs, including evaluation.
        last: All numbers of the last epoch; most protocols report its ``test_metric``.
        best: All numbers of the best epoch in validation.
        curve: The learning curves, at most :data:`POINTS` epochs.
        environment: Hardware, versions and commit of every start.
        published: Mean and standard deviation of the published number, if any.
        time: End of the run.
    """

    run: str
    status: str
    reason: str
    data: dict[str, Any]
    model: dict[str, Any]
    config: dict[str, Any]
    seed: int
    metric: str | None
    epochs: int
    seconds: float
    last: dict[str, Any] | None
    best: dict[str, Any] | None
    curve: dict[str, list[Any]]
    environment: list[dict[str, Any]]
    published: dict[str, Any] | None
    time: str

    @property
    def test(self) -> float | None:
        """The reported number on ``test``: of the last epoch or the best in validation, as the protocol says."""
        epoch = getattr(self, TrainingConfig.from_json(self.config).reported)
        return None if epoch is None else float(epoch["test_metric"])

    @property
    def parameters(self) -> int | None:
        """Exact number of parameters, ``None`` if the run failed before the network was built."""
        return self.model.get("parameters")

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; :meth:`from_json` reads them."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, values: Any, *, where: str = "a record") -> "RunRecord":
        """Reads the output of :meth:`to_json`; missing, unknown or impossible fields are errors that name the field."""
        remedy = "restore the file, or delete it to repeat the run"
        known = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping):
            raise DataError(f"a JSON object in {where}", type(values).__name__, remedy)
        if values.get("format") != FORMAT:
            got = f"format {values.get('format')!r}"
            raise DataError(f"{where} in format {FORMAT}", got, "read it with the version of lrga that wrote it")
        given = {key: value for key, value in values.items() if key != "format"}
        if odd := sorted(set(given) ^ known):
            raise DataError(f"the fields of a record in {where}", f"unknown or missing: {', '.join(odd)}", remedy)
        if problem := next(_problems(given), None):
            raise DataError(f"a valid record in {where}", problem, remedy)
        return cls(**given)


def _problems(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields what is impossible in a record; every check relies on the earlier ones."""
    types: dict[str, type | tuple[type, ...]] = {
        "run": str, "reason": str, "time": str, "data": dict, "model": dict, "config": dict, "curve": dict,
        "environment": list, "seed": int, "epochs": int, "seconds": (int, float), "last": (dict, type(None)),
        "best": (dict, type(None)), "published": (dict, type(None)), "metric": (str, type(None)),
    }  # fmt: skip
    for key, kind in types.items():
        if not isinstance(values[key], kind) or isinstance(values[key], bool):
            yield f"{key} = {values[key]!r}"[:200]
    for key, known in (("status", STATUSES), ("metric", (None, *METRICS))):
        if values[key] not in known:
            yield f"{key} {values[key]!r}, none of {', '.join(filter(None, known))}"
    if values["epochs"] < 0 or not is_number(values["seconds"]) or values["seconds"] < 0:
        yield f"{values['epochs']} epochs in {values['seconds']} seconds"[:200]
    names = {f.name for f in fields(EpochRecord)} - {"numbers"}  # additional logged numbers are allowed
    for key in ("last", "best"):
        epoch: dict[str, Any] = dict.fromkeys(names, 0) if values[key] is None else values[key]
        if set(epoch) - {"numbers"} != names:
            yield f"{key} with {', '.join(sorted(epoch))}"
        logged = epoch.get("numbers", {})
        if not isinstance(logged, Mapping):
            yield f"numbers of {key} = {logged!r}"[:200]
        for name, value in [*((name, epoch[name]) for name in names), *logged.items()]:
            if not is_number(value):
                yield f"{name} of {key} = {value!r}"[:200]
    needed = {
        "numbers": all(values[key] is not None for key in ("last", "best", "metric")),
        "a number of parameters": isinstance(values["model"].get("parameters"), int),
        "a name of its data": isinstance(values["data"].get("name"), str),
    }
    if values["status"] == FINISHED and not all(needed.values()):
        yield f"a finished run without {next(what for what, there in needed.items() if not there)}"
    yield from _problems_of_config(values)
    checksum, published, starts = values["data"].get("sha256"), values["published"], values["environment"]
    if not isinstance(checksum, str | None):
        yield f"sha256 {checksum!r} of its data"
    numbers = [] if published is None else [published.get("mean"), published.get("std") or 0.0]  # std may be missing
    if not all(map(_is_number, numbers)):
        yield f"published = {published!r}"
    for start in starts:
        if not isinstance(start, Mapping):
            yield f"environment with {start!r}"
    for text in (values["time"], *(start["started"] for start in starts if "started" in start)):
        try:
            datetime.strptime(text, CLOCK if text[19:] else CLOCK.removesuffix("%z"))
        except (TypeError, ValueError):
            yield f"time {text!r}"
    yield from _problems_of_curve(values["curve"], values["last"])


def _problems_of_config(values: Mapping[str, Any]) -> Iterator[str]:
    try:
        config = TrainingConfig.from_json(values["config"])
    except ValueError as error:
        yield f"an invalid configuration: {error}"
        return
    if config.run.seed != values["seed"]:
        yield f"seed {values['seed']}, but {config.run.seed} in its configuration"
    named, names = values["run"], (run_name(config), earlier_name(config))
    spec = None if config.budget is None else dataset_specs().get(config.data.name)
    if spec is not None and RUN_NAME.search(named) and named not in names:
        yield f"run {named!r}, but its configuration belongs to {names[0]!r}"
    reported = config.run.metric or (None if spec is None else spec.task.metric)
    metrics = {name.removesuffix(BY_BATCH) for name in (values["metric"], reported) if name is not None}
    if values["metric"] is not None and len(metrics) > 1:  # version 0.1 wrote batch means without the suffix
        yield f"metric {values['metric']!r}, but the metric of {config.data.name} is {reported!r}"


def _problems_of_curve(curve: Mapping[str, Any], last: Mapping[str, Any] | None) -> Iterator[str]:
    """Yields columns of different lengths, or a last point that differs from the last epoch: the file was edited."""
    for name, column in curve.items():
        if not isinstance(column, list) or not all(value is None or _is_number(value) for value in column):
            yield f"{name} of the curve = {column!r}"[:200]
    if curve and ("epoch" not in curve or len({len(column) for column in curve.values()}) != 1):
        yield f"a curve with columns of different lengths, or no column of epochs: {', '.join(curve)}"
    if last is not None and curve.get("epoch") and curve["epoch"][-1] == last["epoch"]:
        for key, column in curve.items():
            if key in last and not _near(column[-1], last[key]):
                yield f"{key} {last[key]:g} in the last epoch, {column[-1]:g} at the end of the curve"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _near(rounded: Any, number: float) -> bool:
    """Whether ``value`` is valid in a curve; a non-number means a missing value."""
    try:
        return math.isclose(rounded, number, rel_tol=1e-3, abs_tol=1e-3)
    except (OverflowError, TypeError):
        return True


def spread_evenly(length: int, most: int) -> list[int]:
    """Evenly spread indices below ``length``, including the first and the last; their number is limited."""
    count = min(length, most)
    return [round(i * (length - 1) / max(count - 1, 1)) for i in range(count)]


def compact(history: Sequence[EpochRecord]) -> dict[str, list[Any]]:
    """Columns with at most :data:`POINTS` epochs, evenly spread, including the first and the last.

    Example:
        >>> compact([])
        {}
    """
    if not history:
        return {}
    chosen = [history[place] for place in spread_evenly(len(history), POINTS)]
    curve: dict[str, list[Any]] = {"epoch": [record.epoch for record in chosen]}
    for name in _COLUMNS:
        curve[name] = [float(f"{getattr(record, name):.{DIGITS}g}") for record in chosen]
    for name in dict.fromkeys(name for record in chosen for name in record.numbers):
        values = [record.numbers.get(name) for record in chosen]
        curve[name] = [None if value is None else float(f"{value:.{DIGITS}g}") for value in values]
    return curve


def write_record(record: RunRecord, folder: str | Path) -> Path:
    """Writes a record into ``folder/records`` atomically; never overwrites a record.

    An existing record of a finished run is kept; an attempt gets the next number.
    """
    place = Path(folder) / FOLDER
    numbers = re.compile(rb"\[\s+([-+.\deE,\s]+?)\s+\]")  # every list of numbers on one line
    content = numbers.sub(lambda found: b"[" + b" ".join(found[1].split()) + b"]", to_json_bytes(record.to_json()))
    number = 1
    while True:
        ending = "" if record.status == FINISHED else f".attempt-{number}"
        target = place / f"{record.run}{ending}.json"
        if write_new(target, content) or record.status == FINISHED:
            return target
        number += 1


def read_record(path: str | Path) -> RunRecord:
    """Reads and checks one record."""
    path = Path(path)
    try:
        values = limits.read_json(path)
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"a record at {path}", "no such file", "pass a file of a campaign's records") from error
    except IsADirectoryError as error:
        raise DataError(f"the file of a record at {path}", "a folder", "pass one of the files in it") from error
    except (OSError, ValueError) as error:
        remedy = "restore the file, or delete it to repeat the run"
        raise DataError(f"JSON in {path}", str(error), remedy) from error
    return RunRecord.from_json(values, where=str(path))


def find_record(folder: str | Path, run: str) -> RunRecord | None:
    """The record of a finished run, else of its latest attempt, or ``None``."""
    place = Path(folder) / FOLDER
    if (place / f"{run}.json").is_file():
        return read_record(place / f"{run}.json")
    attempts = {
        int(match[1]): path
        for path in place.glob(f"{run}.attempt-*.json")
        if (match := re.search(r"\.attempt-(\d+)\.json$", path.name))
    }
    return read_record(attempts[max(attempts)]) if attempts else None


def read_records(folder: str | Path) -> list[RunRecord]:
    """One record per run of a campaign's folder, by name."""
    place = Path(folder) / FOLDER
    names = {re.sub(r"(\.attempt-\d+)?\.json$", "", path.name) for path in place.glob("*.json")}
    found = (find_record(folder, name) for name in sorted(names))
    return [record for record in found if record is not None]
