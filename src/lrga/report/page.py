"""``lrga report``: a self-contained page of runs."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lrga.experiments.cell import budget_label, model_label
from lrga.experiments.loading import Collection, Run, grouped_rows, rank_series
from lrga.experiments.notes import change_text
from lrga.experiments.published import Reference
from lrga.experiments.records import DIGITS, spread_evenly
from lrga.experiments.sheet import value_text
from lrga.experiments.table import Row
from lrga.explain.html import render, write_page
from lrga.io.documents import is_number
from lrga.paper.reference import THE_PAPER
from lrga.report.figures import rank_figure, result_figures
from lrga.report.sources import gather
from lrga.report.summary import summary_of

POINTS = 100  # most points of a curve; fewer if there are many runs, to keep the page small
_ALL_POINTS = 12_000
_CURVE = ("epoch", "train_metric", "val_metric", "test_metric", "train_loss", "val_loss", "test_loss", "lr")
_UNSHOWN = ("seconds", "elapsed")
_MAX_PROBLEMS = 200


def write_report(
    paths: Iterable[str | Path],
    output: str | Path,
    *,
    title: str = "Runs of lrga",
    reference: Reference = THE_PAPER,
    say: Callable[[str], None] | None = None,
) -> Collection:
    """Writes a page of all runs and records of benchmarks at or below ``paths``.

    Args:
        paths: Run folders, records, or folders of them.
        output: The file to write: one self-contained HTML page.
        title: Heading of the page.
        reference: Published numbers to show, by default the paper's.
        say: Called with progress messages.

    Returns:
        The runs and records that were read, and problems.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "broken.json").write_text("{")
        >>> found = write_report([folder], folder / "page.html")
        >>> len(found.runs), len(found.problems), (folder / "page.html").stat().st_size < 7_000_000
        (0, 1, True)
    """
    found = gather(paths, say=say)
    write_page(output, page_of(found, title=title, reference=reference))
    return found


def page_of(found: Collection, *, title: str = "Runs of lrga", reference: Reference = THE_PAPER) -> str:
    """The page itself."""
    cells = grouped_rows(found.runs, reference)
    charts: dict[str, Any] = {}
    results = [
        {"name": name, "chart": _chart(charts, f"result-{number}", figure)}
        for number, (name, figure) in enumerate(result_figures(cells))
    ]
    ranks = rank_series(cells)
    logged = {name for run in found.runs for name in _sound_curve(run.record.curve)} - {*_CURVE, *_UNSHOWN}
    points = max(10, min(POINTS, _ALL_POINTS // max(len(found.runs), 1)))
    cell_of = {outcome.name: number for number, row in enumerate(cells) for outcome in row.outcomes}
    return render(
        "report.html",
        scripts=("common.js", "table.js", "report.js"),
        data={
            "charts": charts,
            "runs": [_curve_json(run, cell_of[run.name], points) for run in found.runs],
            "cells": [", ".join(row.cell.labels.values()) for row in cells],
            "points": points,
        },
        title=title,
        made=time.strftime("%Y-%m-%d %H:%M"),
        found=found,
        summary=summary_of(found, cells),
        results=results,
        cells=[_cell_row(cell) for cell in cells],
        rows=[_run_row(run) for run in found.runs],
        details=[_details(run) for run in found.runs],
        rank_chart=_chart(charts, "rank-chart", rank_figure(ranks)) if ranks else None,
        benchmarks=[_benchmark(path, values) for path, values in found.others],
        problems=found.problems[:_MAX_PROBLEMS],
        logged=sorted(logged),
        more_problems=max(len(found.problems) - _MAX_PROBLEMS, 0),
        choices={
            "dataset": sorted({run.config.data.name for run in found.runs}),
            "model": sorted({model_label(run.config) for run in found.runs}),
            "seed": [str(seed) for seed in sorted({run.record.seed for run in found.runs})],
            "status": sorted({run.record.status for run in found.runs}),
        },
    )


def _chart(charts: dict[str, Any], name: str, figure: dict[str, Any]) -> dict[str, Any]:
    charts[name] = figure
    return {"id": name, "height": figure["layout"]["height"]}


def _benchmark(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The table of a benchmark record, and the conditions of the measurement."""
    rows, load = values["rows"], (values["load"] or {}).get("average")
    facts = {key: values[key] for key in ("device", "precision", "commit", "date")} | {"load average": load}
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return {
        "name": path.stem,
        "facts": ", ".join(f"{key} {value}" for key, value in {**facts, **values["settings"]}.items() if value),
        "columns": columns,
        "rows": [[value_text(row.get(key, "")) for key in columns] for row in rows],
    }


def _curve_json(run: Run, cell: int, points: int) -> dict[str, Any]:
    known = _sound_curve(run.record.curve)
    places = spread_evenly(len(known.get("epoch", ())), points)
    curve: dict[str, list[Any]] = {}
    for name in [name for name in known if name not in _UNSHOWN]:
        digits = 12 if name == "epoch" else DIGITS
        values = [known[name][place] for place in places]
        curve[name] = [None if value is None else _short(value, digits) for value in values]
    return {
        "name": run.name,
        "dataset": run.config.data.name,
        "model": model_label(run.config),
        "seed": run.record.seed,
        "status": run.record.status,
        "metric": "" if run.metric is None else run.metric.name,
        "cell": cell,
        "curve": curve,
    }


def _sound_curve(curve: dict[str, Any]) -> dict[str, list[Any]]:
    """Columns of finite numbers, or ``None`` in epochs without a logged one, with the length of ``epoch``; others are
    left out."""
    epochs = curve.get("epoch")
    length = len(epochs) if isinstance(epochs, list) else 0
    return {
        key: column
        for key, column in curve.items()
        if len(column) == length and all(is_number(v) or (v is None and key not in _CURVE) for v in column)
    }


def _short(value: float, digits: int) -> float:
    number = float(f"{value:.{digits}g}")
    return int(number) if number.is_integer() and abs(number) < 1e9 else number


def _cell_row(row: Row) -> dict[str, Any]:
    """Texts to show and numbers to sort by."""
    ours, best, decimals, printed = row.spread(), row.spread("best"), row.metric.decimals, row.cell.published
    known = any(outcome.record is not None and outcome.record.metric is not None for outcome in row.outcomes)
    changes = row.cell.deviations() if printed is not None else {}
    return {
        **row.cell.labels,
        "metric": row.metric.name if known else "",
        "ours": ("–", None) if ours is None else (ours.text(decimals), ours.mean),
        "n": len(row.by_seed()),
        "published": ("", None) if printed is None else (printed.text(decimals), printed.mean),
        "difference": ("", None) if row.difference is None else (f"{row.difference:+.{decimals}f}", row.difference),
        "best": ("", None) if best is None else (best.text(decimals), best.mean),
        "parameters": row.parameters,
        "changes": "; ".join(change_text(key, *pair) for key, pair in changes.items()),
    }


def _run_row(run: Run) -> dict[str, Any]:
    decimals, record, model = 3 if run.metric is None else run.metric.decimals, run.record, run.config.model

    def shown(epoch: dict[str, float] | None, key: str) -> tuple[str, float | None]:
        return ("", None) if epoch is None else (f"{epoch[key]:.{decimals}f}", epoch[key])

    return {
        "name": run.name,
        "dataset": run.config.data.name,
        "model": model_label(run.config),
        "budget": budget_label(run.config),
        "rank": model.rank if model.lrga else None,
        "seed": record.seed,
        "status": record.status,
        "metric": "" if run.metric is None else run.metric.name,
        "test": shown(getattr(record, run.config.reported), "test_metric"),
        "val": shown(record.last, "val_metric"),
        "best": shown(record.best, "test_metric"),
        "parameters": record.parameters,
        "epochs": record.epochs,
        "seconds": record.seconds,
    }


def _details(run: Run) -> dict[str, Any]:
    data = {key: value for key, value in run.record.data.items() if key not in ("recipe", "files")}
    return {
        "name": run.name,
        "place": run.place,
        "status": run.record.status,
        "reason": run.record.reason,
        "config": {
            section: {key: value_text(value) for key, value in values.items()}
            for section, values in run.config.to_json().items()
        },
        "data": {key: value_text(value) for key, value in data.items() if value is not None},
        "environment": _environments(run.record.environment),
    }


def _environments(starts: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """The environment of every start; starts that differ only in time are merged."""
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
