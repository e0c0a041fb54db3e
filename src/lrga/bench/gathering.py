"""Records wherever they lie, found again for the cells that they belong to."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lrga.bench.cell import Cell, run_name
from lrga.bench.records import FINISHED, RUN_NAME, RunRecord, read_record
from lrga.bench.runner import PENDING, Outcome
from lrga.bench.tables import Row
from lrga.errors import DataError, DataMissingError
from lrga.io import limits
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
