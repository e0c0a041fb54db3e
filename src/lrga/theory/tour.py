"""A tour of the paper's statements, each with a measured number."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrga.errors import DataError, MissingDependencyError, optional_module


@dataclass(frozen=True)
class Series:
    """Curves for one plot.

    Attributes:
        x_label, y_label: Axis labels.
        x: Positions.
        curves: Name → values at these positions; NaN if missing.
        logarithmic: The logarithmic axes: "x", "y", both or none.
        reference: Exponent of a reference line through the first point of the first curve.
    """

    x_label: str
    y_label: str
    x: Sequence[float]
    curves: Mapping[str, Sequence[float]]
    logarithmic: str = "xy"
    reference: float | None = None


@dataclass(frozen=True)
class Measurement:
    """The measurement of a statement.

    Attributes:
        figure: The measured numbers as one line of text.
        holds: Whether they are within the stated tolerance.
        values: The numbers, for programs.
        series: Data of a plot, or ``None``.
    """

    figure: str
    holds: bool
    values: Mapping[str, float]
    series: Series | None = None


@dataclass(frozen=True)
class Statement:
    """One statement of the paper.

    Attributes:
        key: Short name, also the name of its plot.
        place: Place in the paper.
        claim: The statement in one line, with the tolerance of the check.
        measure: Function that measures it.
    """

    key: str
    place: str
    claim: str
    measure: Callable[[], Measurement]


@dataclass(frozen=True)
class Stop:
    """A statement, its measurement and the time of the measurement in seconds."""

    statement: Statement
    measurement: Measurement
    seconds: float = field(compare=False)


def run_tour(statements: Sequence[Statement], *, on_start: Callable[[Statement], None] | None = None) -> list[Stop]:
    """Measures the statements in order; ``on_start`` is called before each."""
    stops = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the matrices are small: more threads are slower
    try:
        for statement in statements:
            if on_start is not None:
                on_start(statement)
            began = time.perf_counter()
            measurement = statement.measure()
            stops.append(Stop(statement, measurement, time.perf_counter() - began))
    finally:
        torch.set_num_threads(threads)
    return stops


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Exponent p of the best fit y ≈ c x^p.

    Example:
        >>> round(slope([1, 10, 100], [2, 0.2, 0.02]), 6)
        -1.0
    """
    return float(np.polyfit(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)), 1)[0])


def write_tour(stops: Sequence[Stop], folder: Path) -> dict[str, Any]:
    """Writes ``tour.json`` and the plots of the statements, and returns the content of the file.

    Returns:
        ``statements``: one row each; ``plots_skipped``: why there are no plots, or ``None``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"a folder to write to at {folder}", str(error), "name another with --output") from error
    rows, skipped = [], None
    for stop in stops:
        try:
            plot = draw(stop, folder)
        except MissingDependencyError as error:
            plot, skipped = None, str(error)
        rows.append(
            {
                **{key: getattr(stop.statement, key) for key in ("key", "place", "claim")},
                "figure": stop.measurement.figure,
                "holds": bool(stop.measurement.holds),
                "values": dict(stop.measurement.values),
                "seconds": round(stop.seconds, 2),
                "plot": None if plot is None else str(plot),
            }
        )
    report = {"statements": rows, "holds": all(row["holds"] for row in rows), "plots_skipped": skipped}
    (folder / "tour.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


def draw(stop: Stop, folder: Path) -> Path | None:
    """Writes the statement's plot to ``folder/KEY.png``; ``None`` if it has none."""
    series = stop.measurement.series
    if series is None:
        return None
    figure = optional_module("matplotlib.figure", "for plots", "plot").Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, values in series.curves.items():
        axes.plot(series.x, values, marker="o", label=name)
    if series.reference is not None:
        first = next(iter(series.curves.values()))[0]
        line = [first * (x / series.x[0]) ** series.reference for x in series.x]
        axes.plot(series.x, line, linestyle="--", color="grey", label=f"slope {series.reference:g}")
    axes.set_xscale("log" if "x" in series.logarithmic else "linear")
    axes.set_yscale("log" if "y" in series.logarithmic else "linear")
    axes.set(xlabel=series.x_label, ylabel=series.y_label, title=f"{stop.statement.place}: {stop.statement.key}")
    axes.legend()
    path = folder / f"{stop.statement.key}.png"
    figure.savefig(path, dpi=150)
    return path
