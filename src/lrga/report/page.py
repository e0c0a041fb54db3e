"""``lrga report``: runs as one page that opens from disk."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lrga.bench.display import value_text
from lrga.bench.learning_curve import DIGITS
from lrga.report.cells import ResultCell, budget_of, rank_series, result_cells
from lrga.report.figures import rank_figure, result_figures, speed_figures
from lrga.report.html import render, write_page
from lrga.report.patience import Say
from lrga.report.runs import Run
from lrga.report.sources import Collection, gather
from lrga.report.speed import SpeedRecord

POINTS = 100  # of a curve; fewer where there are many runs, so that the page stays small
_ALL_POINTS = 12_000
_CURVE = ("train_metric", "val_metric", "test_metric", "train_loss", "val_loss", "lr")
_MOST_PROBLEMS = 200


def write_report(
    paths: Iterable[str | Path], output: str | Path, *, title: str = "Runs of lrga", say: Say | None = None
) -> Collection:
    """Writes a page of all runs and benchmark records at or below ``paths``.

    Args:
        paths: Run folders, records, or folders of them.
        output: The file to write, with everything in it: it opens from disk, with no network.
        title: Its heading.
        say: Is told how far it is, where it takes long.

    Returns:
        What was found.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from lrga.io.documents import write_json
        >>> folder = Path(tempfile.mkdtemp())
        >>> rows = [{"method": "lrga", "ms": 1.0}, {"method": "other", "ms": 3.0}]
        >>> write_json(folder / "speed.json", {"rows": rows})
        >>> found = write_report([folder], folder / "page.html")
        >>> len(found.speed), (folder / "page.html").stat().st_size < 7_000_000
        (1, True)
    """
    found = gather(paths, say=say)
    write_page(output, page_of(found, title=title))
    return found


def page_of(found: Collection, *, title: str = "Runs of lrga") -> str:
    """The page itself."""
    cells = result_cells(found.runs)
    series = rank_series(cells)
    charts: dict[str, Any] = {}
    results = [
        {"name": name, "chart": _chart(charts, f"result-{number}", figure)}
        for number, (name, figure) in enumerate(result_figures(cells))
    ]
    speed = [_speed(charts, number, record) for number, record in enumerate(found.speed)]
    rank = rank_figure(series)
    points = max(10, min(POINTS, _ALL_POINTS // max(len(found.runs), 1)))
    cell_of = {id(run): number for number, cell in enumerate(cells) for run in cell.runs}
    return render(
        "report.html",
        scripts=("common.js", "table.js", "report.js"),
        data={
            "charts": charts,
            "runs": [_curve_json(run, cell_of[id(run)], points) for run in found.runs],
            "cells": [f"{cell.first.dataset}, {cell.label}" for cell in cells],
            "points": points,
        },
        title=title,
        made=time.strftime("%Y-%m-%d %H:%M"),
        found=found,
        results=results,
        cells=[_cell_row(cell) for cell in cells],
        rows=[_run_row(run) for run in found.runs],
        details=[_details(run) for run in found.runs],
        rank_chart=None if rank is None else _chart(charts, "rank-chart", rank),
        speed=speed,
        problems=found.problems[:_MOST_PROBLEMS],
        more_problems=max(len(found.problems) - _MOST_PROBLEMS, 0),
        choices={
            "dataset": _distinct(run.dataset for run in found.runs),
            "model": _distinct(run.model for run in found.runs),
            "seed": [str(seed) for seed in sorted({run.seed for run in found.runs})],
            "status": _distinct(run.status for run in found.runs),
        },
    )


def _chart(charts: dict[str, Any], name: str, figure: dict[str, Any]) -> dict[str, Any]:
    charts[name] = figure
    return {"id": name, "height": figure["layout"]["height"]}


def _speed(charts: dict[str, Any], number: int, record: SpeedRecord) -> dict[str, Any]:
    figures = speed_figures(record)
    return {
        "name": record.name,
        "place": record.place,
        "facts": {key: value for key, value in record.facts.items() if not isinstance(value, list)},
        "skipped": record.skipped,
        "charts": [
            {"title": title, **_chart(charts, f"speed-{number}-{i}", figure)}
            for i, (title, figure) in enumerate(figures)
        ],
    }


def _curve_json(run: Run, cell: int, points: int) -> dict[str, Any]:
    length = len(run.curve.get("epoch", ()))
    count = min(length, points)
    places = [round(i * (length - 1) / max(count - 1, 1)) for i in range(count)]
    curve: dict[str, list[float]] = {}
    for name in ("epoch", *_CURVE):
        if name in run.curve:
            digits = 12 if name == "epoch" else DIGITS
            curve[name] = [_short(run.curve[name][place], digits) for place in places]
    return {
        "name": run.name,
        "dataset": run.dataset,
        "model": run.model,
        "seed": run.seed,
        "status": run.status,
        "metric": "" if run.metric is None else run.metric.name,
        "cell": cell,
        "curve": curve,
    }


def _short(value: float, digits: int) -> float:
    number = float(f"{value:.{digits}g}")
    return int(number) if number.is_integer() and abs(number) < 1e9 else number


def _cell_row(cell: ResultCell) -> dict[str, Any]:
    """Texts to show, with the numbers to sort by."""
    ours, best, metric = cell.spread(), cell.spread(of="best"), cell.metric
    decimals = 3 if metric is None else metric.decimals
    printed = cell.published
    return {
        "dataset": cell.first.dataset,
        "model": cell.label,
        "metric": "" if metric is None else metric.name,
        "ours": ("–", None) if ours is None else (ours.text(decimals), ours.mean),
        "n": len(cell.finished),
        "runs": len(cell.runs),
        "paper": ("", None) if printed is None else (printed.text(decimals), printed.mean),
        "difference": ("", None) if cell.difference is None else (f"{cell.difference:+.{decimals}f}", cell.difference),
        "best": ("", None) if best is None else (best.text(decimals), best.mean),
        "parameters": next((run.parameters for run in cell.runs if run.parameters is not None), None),
        "changes": "; ".join(cell.changes),
    }


def _run_row(run: Run) -> dict[str, Any]:
    decimals = 3 if run.metric is None else run.metric.decimals

    def shown(epoch: dict[str, float] | None, key: str) -> tuple[str, float | None]:
        return ("", None) if epoch is None else (f"{epoch[key]:.{decimals}f}", epoch[key])

    model = run.config.model
    return {
        "name": run.name,
        "dataset": run.dataset,
        "model": run.model,
        "budget": budget_of(run),
        "rank": model.rank if model.lrga else None,
        "seed": run.seed,
        "status": run.status,
        "metric": "" if run.metric is None else run.metric.name,
        "test": shown(getattr(run, run.reported), "test_metric"),
        "val": shown(run.last, "val_metric"),
        "best": shown(run.best, "test_metric"),
        "parameters": run.parameters,
        "epochs": run.epochs,
        "seconds": run.seconds,
    }


def _details(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "place": run.place,
        "status": run.status,
        "reason": run.reason,
        "config": {
            section: {key: value_text(value) for key, value in values.items()}
            for section, values in run.config.to_json().items()
        },
        "data": {key: value_text(value) for key, value in run.data.items() if value is not None},
        "environment": _environments(run.environment),
    }


def _environments(starts: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Every start; those alike but for the time as one."""
    told: list[tuple[dict[str, str], list[str]]] = []
    for start in starts[:200]:
        facts = {str(key): value_text(value) for key, value in start.items() if key != "started" and value is not None}
        when = str(start.get("started", ""))
        if told and told[-1][0] == facts:
            told[-1][1].append(when)
        else:
            told.append((facts, [when]))
    return [
        {"started": times[0] + (f" and {len(times) - 1} more, last {times[-1]}" if len(times) > 1 else ""), **facts}
        for facts, times in told
    ]


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted(set(values))
