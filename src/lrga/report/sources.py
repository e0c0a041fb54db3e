"""What a user points at: runs and benchmark records, below any folders."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lrga.errors import DataError
from lrga.experiments.loading import Collection, Problem, collect
from lrga.explain.patience import Patience, Say
from lrga.report.speed import SpeedRecord, speed_record
from lrga.speed.record import problem_of


@dataclass
class Gathered(Collection):
    """Runs, records of the scripts under ``benchmarks/``, and what could not be read."""

    speed: list[SpeedRecord] = field(default_factory=list)


def gather(paths: Iterable[str | Path], *, say: Say | None = None) -> Gathered:
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
    given = list(paths)
    if not given:
        raise DataError("run folders or records", "no path", "name some: lrga report runs -o page.html")
    found = collect(given, say=Patience(say))
    speed, problems = [], list(found.problems)
    for path, values in found.others:
        if (problem := problem_of(values)) is None:
            speed.append(speed_record(values, path))
        else:
            problems.append(Problem(str(path), f"neither the record of a run nor that of a benchmark: {problem}"))
    if not (found.runs or speed or problems):
        where = ", ".join(map(str, given))
        remedy = "train something first (lrga train CLUSTER --sizes 600,100,100 --epochs 5), or name another folder"
        raise DataError(f"run folders or records in {where}", "none", remedy)
    return Gathered(runs=found.runs, problems=problems, speed=speed)
