"""What a user points at: run folders, records, benchmark records, or folders of them."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lrga.bench.records import DIVERGED, FAILED, FINISHED, RunRecord
from lrga.data.datasets import manifest
from lrga.errors import DataError, DataMissingError, LRGAError
from lrga.io import limits
from lrga.report.patience import Patience, Say
from lrga.report.runs import DAMAGE, UNFINISHED, Run, run_of_folder, run_of_record
from lrga.report.speed import SpeedRecord, speed_record

_SKIPPED_FOLDERS = {"checkpoints", "tensorboard", "__pycache__"}
_RUN_FILES = ("metrics.jsonl", "model.json", "result.json", "environment.json")
_LARGEST = 50_000_000  # bytes of a JSON file that may be a record


@dataclass(frozen=True)
class Problem:
    """Something that could not be read: where, and why."""

    place: str
    reason: str


@dataclass
class Collection:
    """All that was found.

    Attributes:
        runs: One for each run, though its folder and its record were both found.
        speed: Records of the scripts under ``benchmarks/``.
        problems: What could not be read.
    """

    runs: list[Run] = field(default_factory=list)
    speed: list[SpeedRecord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def failed(self) -> list[Run]:
        """Runs that failed or diverged."""
        return [run for run in self.runs if run.status in (FAILED, DIVERGED)]

    @property
    def unfinished(self) -> list[Run]:
        """Runs that can be continued."""
        return [run for run in self.runs if not run.finished and run.status not in (FAILED, DIVERGED)]


def gather(paths: Iterable[str | Path], *, say: Say | None = None) -> Collection:
    """Reads everything below ``paths``; what cannot be read becomes a problem, never an exception.

    Args:
        paths: Run folders, records, or folders of them.
        say: Is told how far it is, where it takes long.

    Raises:
        DataMissingError: Of a path that is not there.
        DataError: Where nothing at all was found.

    Example:
        >>> import tempfile
        >>> gather([tempfile.mkdtemp()])
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected run folders or records in ..., got none. To fix: ...
    """
    given = [Path(path) for path in paths]
    if not given:
        raise DataError("run folders or records", "no path", "name some: lrga report runs results -o page.html")
    found, seen, patience = Collection(), set(), Patience(say)
    for path in given:
        if not path.exists():
            remedy = "name a run folder, a record (.json) or a folder of them"
            raise DataMissingError(f"runs at {path}", "no such file or folder", remedy)
        for place in _places(path):
            if (real := os.path.realpath(place)) not in seen:
                seen.add(real)
                _read(place, found)
                patience(f"{len(seen):,} files and folders read")
    if not (found.runs or found.speed or found.problems):
        where = ", ".join(map(str, given))
        remedy = "train something first (lrga train CLUSTER --sizes 600,100,100 --epochs 5), or name another folder"
        raise DataError(f"run folders or records in {where}", "none", remedy)
    found.runs = _told_apart(_once_each(found.runs))
    return found


def _places(path: Path) -> Iterator[Path]:
    """Run folders and JSON files at or below ``path``, in order of their names."""
    if path.is_file() or (path / "config.json").is_file():
        yield path
        return
    for parent, folders, files in os.walk(path):
        here = Path(parent)
        if "config.json" in files or any(name in files for name in _RUN_FILES):
            folders.clear()
            yield here
            continue
        if manifest.FILE_NAME in files:  # a data set, as `lrga demo` keeps beside its runs
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("."))
        yield from (here / name for name in sorted(files) if name.endswith(".json") and not name.startswith("."))


def _read(place: Path, found: Collection) -> None:
    try:
        if place.is_dir():
            found.runs.append(run_of_folder(place))
        else:
            _read_file(place, found)
    except LRGAError as error:
        found.problems.append(Problem(str(place), str(error)))
    except DAMAGE as error:
        found.problems.append(Problem(str(place), f"{type(error).__name__}: {error}"))


def _read_file(path: Path, found: Collection) -> None:
    if path.stat().st_size > _LARGEST:
        found.problems.append(Problem(str(path), f"larger than any record, {path.stat().st_size:,} bytes"))
        return
    try:
        values: Any = limits.read_json(path)
    except ValueError as error:
        found.problems.append(Problem(str(path), f"no JSON: {error}"))
        return
    if isinstance(values, dict) and "run" in values and "config" in values:
        found.runs.append(run_of_record(RunRecord.from_json(values, where=str(path)), str(path)))
    elif (record := speed_record(values, path)) is not None:
        found.speed.append(record)
    else:
        found.problems.append(Problem(str(path), "neither the record of a run nor that of a benchmark"))


def _once_each(runs: list[Run]) -> list[Run]:
    """Of a folder and its records the one that says most; how it failed is known to the record alone."""
    kept: dict[str, Run] = {}
    for run in runs:
        other = kept.get(run.identity)
        kept[run.identity] = run if other is None else _merged(other, run)
    return list(kept.values())


def _merged(a: Run, b: Run) -> Run:
    finished = [run for run in (a, b) if run.finished]
    if len(finished) == 1:
        return finished[0]
    first, second = sorted((a, b), key=lambda run: (run.epochs, len(run.curve.get("epoch", ())), _attempt(run)))
    longer, shorter = second, first
    known = [run for run in (longer, shorter) if run.status not in (UNFINISHED, FINISHED)]
    if longer.status == UNFINISHED and known:
        longer = replace(longer, status=known[0].status, reason=known[0].reason)
    return replace(longer, data=shorter.data | {k: v for k, v in longer.data.items() if v is not None})


def _attempt(run: Run) -> int:
    number = re.search(r"\.attempt-(\d+)\.json$", run.place)
    return int(number[1]) if number else 0


def _told_apart(runs: list[Run]) -> list[Run]:
    """Different runs of one name get their place behind it."""
    names = [run.name for run in runs]
    return [replace(run, name=f"{run.name} ({run.place})") if names.count(run.name) > 1 else run for run in runs]
