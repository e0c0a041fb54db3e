"""Plots of a tour, where matplotlib is installed."""

from pathlib import Path

from lrga.errors import MissingDependencyError
from lrga.theory.tour import Stop


def draw(stop: Stop, folder: Path) -> Path | None:
    """Writes the statement's plot as ``folder/KEY.png``; ``None`` where there is nothing to draw."""
    series = stop.measurement.series
    if series is None:
        return None
    try:
        # The object interface needs no display and leaves the caller's pyplot alone.
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib, for plots", "no such package", "pip install 'lrga[plot]'") from error
    figure = Figure(figsize=(6, 4), layout="constrained")
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
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stop.statement.key}.png"
    figure.savefig(path, dpi=150)
    return path
