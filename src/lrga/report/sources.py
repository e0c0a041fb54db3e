"""Finds runs, their records and benchmark records in folders."""

from collections.abc import Callable, Iterable
from pathlib import Path

from lrga.errors import DataError
from lrga.experiments.loading import Collection, Problem, collect
from lrga.speed.record import problem_of


def gather(paths: Iterable[str | Path], *, say: Callable[[str], None] | None = None) -> Collection:
    """Reads all runs and records below ``paths``; unreadable files are listed as problems, without an exception.

    The attribute ``others`` of the result has the benchmark records (:mod:`lrga.speed.record`).

    Args:
        paths: Run folders, records, or folders of them.
        say: Called with progress messages.

    Raises:
        DataMissingError: A path does not exist.
        DataError: Nothing was found.

    Example:
        >>> import tempfile
        >>> gather([tempfile.mkdtemp()])
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected run folders or records in ..., got none. To fix: ...
    """
    given = list(paths)
    if not given:
        raise DataError("run folders or records", "no path", "pass one, for example: lrga report runs -o page.html")
    found = collect(given, say=say)
    for path, values in found.others:
        if (problem := problem_of(values)) is not None:
            found.problems.append(Problem(str(path), f"neither a run record nor a benchmark record: {problem}"))
    found.others = [(path, values) for path, values in found.others if problem_of(values) is None]
    if not (found.runs or found.problems or found.others):
        where = ", ".join(map(str, given))
        remedy = "train something first (lrga train CLUSTER --sizes 600,100,100 --epochs 5), or pass another folder"
        raise DataError(f"run folders or records in {where}", "none", remedy)
    return found
