"""A finished tour as plain data, with its plots and a file beside them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lrga.errors import DataError, MissingDependencyError
from lrga.theory.plots import draw
from lrga.theory.tour import Stop


def write_tour(stops: Sequence[Stop], folder: Path) -> dict[str, Any]:
    """Writes ``tour.json`` and a plot per statement that has one, and returns what the file holds.

    Returns:
        ``statements``: one row each; ``plots_skipped``: why there are none, or ``None``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"a folder to write to at {folder}", str(error), "name another with --output") from error
    rows = [tour_row(stop) for stop in stops]
    skipped = None
    try:
        for row, stop in zip(rows, stops, strict=True):
            path = draw(stop, folder)
            row["plot"] = None if path is None else str(path)
    except MissingDependencyError as error:
        skipped = str(error)
    report = {"statements": rows, "holds": all(row["holds"] for row in rows), "plots_skipped": skipped}
    (folder / "tour.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


def tour_row(stop: Stop) -> dict[str, Any]:
    """One statement as a row: key, place, claim, figure, holds, values, seconds, plot."""
    return {
        "key": stop.statement.key,
        "place": stop.statement.place,
        "claim": stop.statement.claim,
        "figure": stop.measurement.figure,
        "holds": bool(stop.measurement.holds),
        "values": dict(stop.measurement.values),
        "seconds": round(stop.seconds, 2),
        "plot": None,
    }
