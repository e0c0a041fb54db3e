"""Finds runs: reads records and run folders, each once, and assigns them to cells."""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lrga.data.datasets.building import MANIFEST_FILE
from lrga.errors import DataError, DataMissingError, LRGAError
from lrga.experiments.campaign import PENDING, Outcome
from lrga.experiments.cell import Cell, budget_label, cell_beside, flat_options, key_of, model_label, run_name
from lrga.experiments.published import Reference
from lrga.experiments.recording import UNFINISHED, record_of_folder
from lrga.experiments.records import DIVERGED, FAILED, FINISHED, RUN_NAME, RunRecord
from lrga.experiments.sheet import value_text
from lrga.experiments.table import DETAILED, RECORDED, SEEDS, Row, Table
from lrga.io import limits
from lrga.tasks.task import METRICS, Metric
from lrga.training.config import TrainingConfig, essence

# Errors that reading a damaged file can raise; any other error is a bug of lrga and is not hidden.
DAMAGE = (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, OverflowError)
_SKIPPED_FOLDERS = {"checkpoints", "tensorboard", "__pycache__"}
_RUN_FILES = ("metrics.jsonl", "model.json", "result.json", "environment.json")
PATIENCE = 2.0  # seconds between two progress messages
_MAX_BYTES = 50_000_000  # bytes; larger JSON files are no records


@dataclass(frozen=True)
class Run:
    """A run that was found, with its record, read from a file or made from its folder.

    Attributes:
        record: The record of the run.
        place: Path that it was read from.
        faults: Errors from reading its folder.
        name: Name of the run; if several runs share a name, followed by the place.
    """

    record: RunRecord
    place: str
    faults: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.record.run)

    @cached_property
    def config(self) -> TrainingConfig:
        """Its options."""
        return TrainingConfig.from_json(self.record.config)

    @property
    def metric(self) -> Metric | None:
        """The metric, or ``None`` if the run ended too early."""
        return None if self.record.metric is None else METRICS[self.record.metric]

    @property
    def finished(self) -> bool:
        """Whether the run finished; only finished runs are averaged."""
        return self.record.status == FINISHED and self.record.last is not None and self.record.metric is not None

    @cached_property
    def identity(self) -> str:
        """A key: equal for a run folder and its record, different for runs with other options."""
        return json.dumps([self.record.run, essence(self.config)], sort_keys=True)


@dataclass(frozen=True)
class Problem:
    """A file that could not be read: path, reason, and whether it is the record of a run."""

    place: str
    reason: str
    record: bool = False


@dataclass
class Collection:
    """Everything that was found.

    Attributes:
        runs: One entry per run, even if both its folder and its record were found.
        others: JSON files that are not records of runs, such as those of benchmarks.
        problems: Files that could not be read.
    """

    runs: list[Run] = field(default_factory=list)
    others: list[tuple[Path, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def failed(self) -> list[Run]:
        """Runs that failed or diverged."""
        return [run for run in self.runs if run.record.status in (FAILED, DIVERGED)]

    @property
    def unfinished(self) -> list[Run]:
        """Runs that can be resumed."""
        return [run for run in self.runs if not run.finished and run.record.status not in (FAILED, DIVERGED)]


def collect(paths: Iterable[str | Path], *, say: Callable[[str], None] | None = None) -> Collection:
    """Reads everything below ``paths``; unreadable files are listed as problems and raise no exception.

    Args:
        paths: Run folders, records, or folders of them.
        say: Called with a progress message every two seconds.

    Raises:
        DataMissingError: A path does not exist.
    """
    found, seen, told = Collection(), set(), time.monotonic()
    for path in map(Path, paths):
        if not path.exists():
            remedy = "pass a run folder, a record (.json) or a folder of them"
            raise DataMissingError(f"runs at {path}", "no such file or folder", remedy)
        for place in _places(path):
            if (real := os.path.realpath(place)) not in seen:
                seen.add(real)
                _read(place, found)
                if say is not None and time.monotonic() - told >= PATIENCE:
                    told = time.monotonic()
                    say(f"{len(seen):,} files and folders read")
    kept: dict[str, Run] = {}  # of a folder and its records, the most complete one
    for run in found.runs:
        other = kept.get(run.identity)
        kept[run.identity] = run if other is None else _merged(other, run)
    runs = list(kept.values())
    counts = Counter(run.name for run in runs)  # different runs with one name are told apart by their path
    found.runs = [replace(run, name=f"{run.name} ({run.place})") if counts[run.name] > 1 else run for run in runs]
    return found


def load_runs(paths: Iterable[str | Path]) -> list[Run]:
    """Every run below the paths, sorted by time.

    Raises:
        DataMissingError: A path does not exist.
        DataError: A record is damaged.

    Example:
        >>> import tempfile
        >>> load_runs([tempfile.mkdtemp()])
        []
    """
    found = collect(paths)
    for problem in found.problems:
        if problem.record:
            raise DataError(f"an undamaged record in {problem.place}", problem.reason, "restore the file, or remove it")
    return sorted(found.runs, key=lambda run: (run.record.time, run.place))


def _places(path: Path) -> Iterator[Path]:
    """Run folders and JSON files at or below ``path``, sorted by name."""
    if path.is_file() or (path / "config.json").is_file():
        yield path
        return
    for parent, folders, files in os.walk(path):
        here = Path(parent)
        if "config.json" in files or any(name in files for name in _RUN_FILES):
            folders.clear()
            yield here
            continue
        if MANIFEST_FILE in files:  # a data set, as `lrga demo` stores next to its runs
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("."))
        yield from (here / name for name in sorted(files) if name.endswith(".json") and not name.startswith("."))


def _read(place: Path, found: Collection) -> None:
    try:
        if place.is_dir():
            record, faults = record_of_folder(place)
            found.runs.append(Run(record, str(place), faults))
        else:
            _read_file(place, found)
    except (LRGAError, *DAMAGE) as error:
        reason = str(error) if isinstance(error, LRGAError) else f"{type(error).__name__}: {error}"
        found.problems.append(Problem(str(place), reason, record=not place.is_dir()))


def _read_file(path: Path, found: Collection) -> None:
    named = bool(RUN_NAME.search(path.name.removesuffix(".json").partition(".attempt-")[0]))
    if path.stat().st_size > _MAX_BYTES:
        reason = f"larger than any record, {path.stat().st_size:,} bytes"
        found.problems.append(Problem(str(path), reason, named))
        return
    values: Any = limits.read_json(path)
    if isinstance(values, dict) and "run" in values and "config" in values:
        found.runs.append(Run(RunRecord.from_json(values, where=str(path)), str(path)))
    elif named:
        got = f"keys {', '.join(list(values)[:4])}" if isinstance(values, dict) else type(values).__name__
        found.problems.append(Problem(str(path), f"the name of a record, but {got}", record=True))
    else:
        found.others.append((path, values))


def _merged(a: Run, b: Run) -> Run:
    finished = [run for run in (a, b) if run.finished]
    if finished:  # of two finished ones the record, else the first
        return min(finished, key=lambda run: (Path(run.place).is_dir(), run.record.time))

    def said(run: Run) -> tuple[int, int, int]:
        attempt = re.search(r"\.attempt-(\d+)\.json$", run.place)
        return run.record.epochs, len(run.record.curve), int(attempt[1]) if attempt else 0

    first, second = sorted((a, b), key=said)
    known = [run.record for run in (second, first) if run.record.status != UNFINISHED]
    record = replace(
        second.record, data=first.record.data | {k: v for k, v in second.record.data.items() if v is not None}
    )
    if record.status == UNFINISHED and known:
        record = replace(record, status=known[0].status, reason=known[0].reason)
    return replace(second, record=record)


def _outcome(run: Run) -> Outcome:
    return Outcome(name=run.name, config=run.config, status=run.record.status, record=run.record)


def rows_of(cells: Sequence[Cell], runs: Iterable[Run], *, more_seeds: bool = True) -> list[Row]:
    """The cells with their runs; with ``more_seeds`` also finished runs with seeds that no cell lists."""
    by_key: dict[str, dict[int, Run]] = {}
    for run in runs:
        seeds = by_key.setdefault(key_of(run.config), {})
        before = seeds.get(run.record.seed)
        if before is None or not before.finished:  # of several runs of a seed: the first finished one, else the last
            seeds[run.record.seed] = run
    rows = []
    for cell in cells:
        seeds = by_key.get(key_of(cell.config), {})
        more = [seed for seed in sorted(seeds) if more_seeds and seed not in cell.seeds and seeds[seed].finished]
        own = replace(cell, seeds=(*cell.seeds, *more))
        outcomes = [
            _outcome(seeds[config.run.seed])
            if config.run.seed in seeds
            else Outcome(name=run_name(config), config=config, status=PENDING)
            for config in own.runs()
        ]
        rows.append(Row(cell=own, outcomes=tuple(outcomes)))
    return rows


def grouped_rows(runs: Iterable[Run], reference: Reference | None = None) -> list[Row]:
    """One row per configuration (all its seeds), sorted by data set, budget and network.

    Labels are the data set and the network with its budget. Rows that share these labels also show the options that
    differ, except the only one of them that follows the protocol of its published number.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(key_of(run.config), []).append(run)

    def place(group: list[Run]) -> tuple[Any, ...]:
        config, model = group[0].config, group[0].config.model
        return config.data.name, str(model.budget), model.model, model.lrga, model.rank, key_of(config)

    ordered = sorted(groups.values(), key=place)
    configs = [group[0].config for group in ordered]
    rows = []
    for group, label in zip(ordered, network_labels(configs), strict=True):
        members = sorted(group, key=lambda run: (run.record.seed, run.record.time, run.place))
        labels = {"dataset": members[0].config.data.name, "model": label}
        seeds = list(dict.fromkeys(run.record.seed for run in members))
        cell = cell_beside(reference, labels=labels, config=members[0].config, seeds=seeds)
        rows.append(Row(cell=cell, outcomes=tuple(map(_outcome, members))))
    usual = {
        number: {**row.cell.labels, "model": row.cell.labels["model"].partition(" (")[0]}
        for number, row in enumerate(rows)
        if row.cell.published is not None and not row.cell.deviations()
    }
    for number, labels in usual.items():  # the network of the protocol needs no further label, if there is one protocol
        if list(usual.values()).count(labels) == 1:
            rows[number] = replace(rows[number], cell=replace(rows[number].cell, labels=labels))
    return rows


def network_labels(configs: Sequence[TrainingConfig], *ignored: str) -> list[str]:
    """Network and budget; if two on one data set share them, also the options that differ."""
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    names = [(config.data.name, model_label(config), budget_label(config)) for config in configs]
    options = [flat_options(config, *ignored) for config in configs]
    for name, values in zip(names, options, strict=True):
        alike.setdefault(name, []).append(values)
    labels = []
    for (dataset, model, budget), values in zip(names, options, strict=True):
        group = alike[dataset, model, budget]
        differing = [key for key in values if any(other.get(key) != values[key] for other in group)]
        told = ", ".join(f"{_word(key)} {text}" for key in differing if (text := value_text(values[key])))
        labels.append(f"{model} {budget}".strip() + (f" ({told})" if told else ""))
    return labels


def _word(option: str) -> str:
    name = option.partition(".")[2]
    return {"rank": "κ", "options": "data", "max_epochs": "epochs"}.get(name, name.replace("_", " "))


def rank_series(rows: Sequence[Row]) -> list[tuple[str, list[tuple[int, Row]]]]:
    """Networks with results at two or more ranks: for each a label, and its rows by rank."""
    groups: dict[str, dict[int, Row]] = {}
    for row in rows:
        config = row.cell.config
        if config.model.lrga and row.spread() is not None:
            groups.setdefault(key_of(config, "rank"), {})[config.model.rank] = row
    series = [sorted(group.items()) for group in groups.values() if len(group) > 1]
    labels = network_labels([points[0][1].cell.config for points in series], "rank")
    return [
        (f"{points[0][1].cell.config.data.name}, {label}", points) for points, label in zip(series, labels, strict=True)
    ]


def table_of_runs(
    title: str,
    cells: Sequence[Cell],
    runs: Iterable[Run],
    *,
    detailed: bool = False,
    done: bool = False,
    seeds: Sequence[int] | None = None,
) -> Table:
    """The table of some cells, from runs that :func:`load_runs` found; nothing is trained.

    Args:
        title: Title of the table.
        cells: The rows of the table.
        runs: Runs; those of other cells are ignored.
        detailed: Whether to add columns for the best epoch in validation and for training.
        done: Whether to show only cells with finished runs, with few notes.
        seeds: Only runs with these seeds; by default all.

    Example:
        >>> import tempfile
        >>> from lrga.experiments.comparison import comparison
        >>> table = table_of_runs("", comparison("CLUSTER").cells, load_runs([tempfile.mkdtemp()]))
        >>> table.done, "not yet run" in table.to_markdown()
        ((0, 2), True)
    """
    rows = rows_of(cells, (run for run in runs if seeds is None or run.record.seed in seeds))
    shown = tuple(row for row in rows if row.finished or not done)
    columns = DETAILED if detailed else RECORDED
    return Table(title=title, rows=shown, columns=columns, hidden=len(rows) - len(shown), brief=done)


def table_of_seeds(
    config: TrainingConfig, folders: Mapping[int, Path], reference: Reference, remarks: Sequence[str] = ()
) -> Table:
    """The table of a configuration with several seeds, each in its run folder: one row per seed, and one for all."""
    whole = cell_beside(reference, labels={"seed": "all"}, config=config, seeds=folders)
    single = [replace(whole, labels={"seed": str(seed)}, seeds=(seed,), published=None) for seed in folders]
    runs = collect(path for path in folders.values() if path.exists()).runs
    rows = rows_of([*single, whole], runs, more_seeds=False)
    metric, spread = rows[-1].metric, rows[-1].spread()
    title = f"test {metric.name}: {spread.text(metric.decimals)}" if spread else "no run has finished yet"
    columns = tuple(c for c in SEEDS if whole.published is not None or c not in ("published", "diff"))
    return Table(title=title, rows=tuple(rows), columns=columns, remarks=tuple(remarks))
