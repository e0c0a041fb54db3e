"""Records wherever they lie, found again for the cells that they belong to."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lrga.bench.cell import Cell, run_name
from lrga.bench.records import FINISHED, RUN_NAME, RunRecord, read_record
from lrga.bench.runner import PENDING, Outcome
from lrga.bench.tables import Row
from lrga.errors import DataError, DataMissingError
from lrga.io import limits
from lrga.io.files import writing
from lrga.training.config import TrainingConfig, essence

_FIELDS = {"format", "run", "status", "config"}  # what tells a record from other JSON files


@dataclass(frozen=True)
class Landed:
    """A record and its file."""

    record: RunRecord
    path: Path

    @property
    def config(self) -> TrainingConfig:
        """Of the run."""
        return TrainingConfig.from_json(self.record.config)


def gather_records(folders: Iterable[str | Path]) -> list[Landed]:
    """Every record below the folders, attempts included, in order of time; other JSON files are passed over.

    Raises:
        DataMissingError: A folder is not there.
        DataError: A record is damaged.

    Example:
        >>> import tempfile
        >>> gather_records([tempfile.mkdtemp()])
        []
    """
    found: dict[Path, Landed] = {}
    for folder in map(Path, folders):
        if not folder.exists():
            remedy = "name a folder of records, such as results or the --output of a campaign"
            raise DataMissingError(f"records in {folder}", "no such folder", remedy)
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*.json")):
            if path.name.startswith(".") or not _is_record(path):
                continue
            found[Path(os.path.realpath(path))] = Landed(read_record(path), path)
    return sorted(found.values(), key=lambda landed: (landed.record.time, str(landed.path)))


def _is_record(path: Path) -> bool:
    try:
        values = limits.read_json(path)
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"JSON in {path}", str(error), "restore the file or take it away") from error
    if isinstance(values, dict) and set(values) >= _FIELDS:
        return True
    if RUN_NAME.search(path.name.removesuffix(".json").partition(".attempt-")[0]):
        got = f"keys {', '.join(list(values)[:4])}" if isinstance(values, dict) else type(values).__name__
        raise DataError(f"a record in {path}, as its name says", got, "restore the file, or take it away")
    return False


def key_of(config: TrainingConfig) -> str:
    """The same for runs that compute the same, whatever their seed."""
    values = essence(config)
    values["run"] = {key: value for key, value in values["run"].items() if key != "seed"}
    return json.dumps(values, sort_keys=True)


def rows_of(cells: Sequence[Cell], landed: Sequence[Landed]) -> list[Row]:
    """The cells with what the records say of them.

    A run that has several records counts once: by the first that is finished, else by the latest. Seeds that are no
    cell's own count too where their runs are finished.
    """
    by_run: dict[str, dict[int, list[RunRecord]]] = {}
    for entry in landed:
        by_run.setdefault(key_of(entry.config), {}).setdefault(entry.record.seed, []).append(entry.record)
    rows = []
    for cell in cells:
        seeds = by_run.get(key_of(cell.config), {})
        more = [seed for seed in sorted(seeds) if seed not in cell.seeds and _chosen(seeds[seed]).status == FINISHED]
        own = replace(cell, seeds=(*cell.seeds, *more))
        outcomes = []
        for config in own.runs():
            record = _chosen(seeds[config.run.seed]) if config.run.seed in seeds else None
            status = PENDING if record is None else record.status
            name = run_name(config) if record is None else record.run
            outcomes.append(Outcome(name=name, config=config, status=status, record=record))
        rows.append(Row(cell=own, outcomes=tuple(outcomes)))
    return rows


def _chosen(records: Sequence[RunRecord]) -> RunRecord:
    return next((record for record in records if record.status == FINISHED), records[-1])


def land(
    cells: Sequence[Cell], landed: Sequence[Landed], target: str | Path, *, known: Sequence[Landed] = ()
) -> list[Path]:
    """Copies the records that belong to the cells into a folder, under their own names; none is overwritten.

    Those that are ``known``, as another experiment landed them, are left out. Attempts that were paused are copied,
    too, as they say what time was spent. Where two finished runs have one name, nothing is copied. Returns the new
    files.
    """
    keys = {key_of(cell.config) for cell in cells}
    place, planned = Path(target), dict[Path, Landed]()
    for entry in landed:
        if key_of(entry.config) not in keys or any(_alike(other.record, entry.record) for other in known):
            continue
        if (goal := _free_name(entry, place, planned)) is not None:
            planned[goal] = entry
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        for goal, entry in planned.items():
            shutil.copyfile(entry.path, goal)
    return list(planned)


def _free_name(entry: Landed, place: Path, planned: Mapping[Path, Landed]) -> Path | None:
    """Where to copy a record; ``None`` where it lies already. Attempts of several campaigns are numbered on."""
    number = 1
    while True:
        ending = "" if entry.record.status == FINISHED else f".attempt-{number}"
        goal = place / f"{entry.record.run}{ending}.json"
        if goal not in planned and not goal.exists():
            return goal
        there = planned[goal].record if goal in planned else read_record(goal)
        if goal.resolve() == entry.path.resolve() or _alike(there, entry.record):
            return None
        if entry.record.status == FINISHED:
            remedy = "see which of the two is meant, and take the other away"
            raise DataError(f"the record {goal} to be the only one of its name", f"another in {entry.path}", remedy)
        number += 1


def _alike(first: RunRecord, second: RunRecord) -> bool:
    """Whether two files are the record of one run; the commit may have been filled in."""
    return replace(first, environment=[]) == replace(second, environment=[])
