"""The charts of runs and benchmarks: what is in each, and each as Plotly draws it on the page.

:mod:`lrga.report.pictures` draws the same charts with matplotlib. A figure of Plotly is
``{"data": [traces], "layout": {…}}``; the page adds its colours.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lrga.experiments.table import Row
from lrga.explain.html import chart_text
from lrga.explain.style import COLOURS, PAPER, colour
from lrga.io.documents import is_number
from lrga.report.speed import SpeedRecord, unit_name

Figure = dict[str, Any]
_FEW = 12  # series that a legend names; beyond, the pointer does
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True)
class Series:
    """A line of a chart, or its bars of one colour.

    Attributes:
        name: For the legend.
        x, y: Positions and values; of bars, names and values.
        error: Deviation of each value, where it is known.
        texts: What is told of each value beside its name.
        published: Whether it is not ours.
    """

    name: str
    x: list[Any]
    y: list[float]
    error: list[float] | None = None
    texts: list[str] | None = None
    published: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines over ``x_label``, or with ``bars`` one group of horizontal bars for each name."""

    title: str
    x_label: str
    y_label: str
    series: list[Series]
    log: bool = False
    bars: bool = False


def rank_chart(networks: Sequence[tuple[str, list[tuple[int, Row]]]]) -> Chart | None:
    """The test result over the rank, one line for each network, beside published numbers; ``None`` of none."""
    if not networks:
        return None
    series, metrics = [], []
    for label, line in networks:
        points = [(rank, spread) for rank, row in line if (spread := row.spread()) is not None]
        metrics += [row.metric.name for _, row in line]
        series.append(
            Series(
                label,
                [rank for rank, _ in points],
                [spread.mean for _, spread in points],
                [spread.std or 0.0 for _, spread in points],
                [f"{spread.text(4)}, {_seeds(spread.n)}" for _, spread in points],
            )
        )
    for _, line in networks:
        for rank, row in line:
            if (cell := row.cell.published) is not None:
                said = [f"{cell.text(4)}, {cell.source}"]
                series.append(Series(f"published, κ {rank}", [rank], [cell.mean], [cell.std or 0.0], said, True))
    return Chart("", "rank κ", f"test {', '.join(dict.fromkeys(metrics))}", series)


def speed_charts(record: SpeedRecord) -> list[Chart]:
    """Time, memory, throughput and ratios of a benchmark: lines over its size where it has one, else bars."""
    return [_speed_chart(record, title, columns) for title, columns in record.panels]


def _speed_chart(record: SpeedRecord, title: str, columns: Sequence[str]) -> Chart:
    words = {column: column.replace("_", " ") for column in columns}
    unit = words[columns[0]] if len(columns) == 1 else unit_name(columns[0])
    points: dict[str, list[tuple[Any, float]]] = {}
    for column in columns:
        for row in record.rows:
            at = record.label(row) if record.size is None else row.get(record.size)
            if is_number(row.get(column)) and (record.size is None or is_number(at)):
                label = [] if record.size is None else [record.label(row)]
                name = ", ".join([*label, *([words[column]] if record.size is None or len(columns) > 1 else [])])
                points.setdefault(name, []).append((at, row[column]))
    found = {name: line if record.size is None else sorted(line) for name, line in points.items()}
    series = [Series(name, [at for at, _ in line], [value for _, value in line]) for name, line in found.items()]
    if record.size is None:
        return Chart(title, unit, "", series, log=True, bars=True)
    return Chart(title, record.size.replace("_", " "), unit, series, log=True)


def plotly_figure(chart: Chart) -> Figure:
    """The chart for the page."""
    axis = "log" if chart.log else "linear"
    layout: Figure = {
        "xaxis": {"title": {"text": chart_text(chart.x_label)}, "type": axis},
        "yaxis": {"title": {"text": chart_text(chart.y_label)}, "type": axis},
        "height": 420,
        "showlegend": len(chart.series) <= _FEW,
    }
    if not chart.log:
        layout["xaxis"]["rangemode"] = "tozero"
    if chart.bars:
        rows = max((len(series.y) for series in chart.series), default=0)
        layout["yaxis"] = {"type": "category", "automargin": True, "autorange": "reversed"}
        layout |= {
            "barmode": "group",
            "height": 140 + rows * (14 + 12 * len(chart.series)),
            "showlegend": len(chart.series) > 1,
        }
    return {"data": [_trace(chart, number, series) for number, series in enumerate(chart.series)], "layout": layout}


def _trace(chart: Chart, number: int, series: Series) -> dict[str, Any]:
    shade = PAPER if series.published else colour(number)
    if chart.bars:
        return {
            "type": "bar",
            "orientation": "h",
            "name": chart_text(series.name),
            "y": [_wrapped(name) for name in series.x],
            "x": series.y,
            "marker": {"color": shade},
            "hovertemplate": "%{y}<br>%{x:.4~g} %{fullData.name}<extra></extra>",
        }
    value = "%{y:.4~g}" if series.texts is None else "%{customdata}"
    symbol = "diamond-open" if series.published else _SYMBOLS[number % len(_SYMBOLS)]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers" if series.published else "lines+markers",
        "name": chart_text(series.name),
        "x": series.x,
        "y": series.y,
        "marker": {"color": shade, "symbol": symbol, "size": 8},
        "line": {"color": shade},
        "hovertemplate": f"{chart_text(chart.x_label)} %{{x}}<br>{value}<extra>%{{fullData.name}}</extra>",
    }
    if series.texts is not None:
        trace["customdata"] = [chart_text(text) for text in series.texts]
    if series.error is not None:
        trace["error_y"] = {"type": "data", "array": series.error}
    return trace


def result_figures(rows: Sequence[Row]) -> list[tuple[str, Figure]]:
    """For each data set and metric: ours with its deviation over the seeds, beside the published one with its own."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.spread() is not None:
            groups.setdefault((row.cell.labels["dataset"], row.metric.name), []).append(row)
    return [(dataset, _results(metric, group)) for (dataset, metric), group in groups.items()]


def _results(metric: str, rows: Sequence[Row]) -> Figure:
    decimals = rows[0].metric.decimals + 1
    ours: list[tuple[int, Any, str]]
    ours = [(place, spread, _seeds(spread.n)) for place, row in enumerate(rows) if (spread := row.spread()) is not None]
    paper: list[tuple[int, Any, str]]
    paper = [(place, cell, cell.source) for place, row in enumerate(rows) if (cell := row.cell.published) is not None]
    shapes: dict[str, Figure] = {
        "ours": {"color": COLOURS[0], "size": 11},
        "published": {"color": COLOURS[1], "size": 11, "symbol": "diamond-open", "line": {"width": 2}},
    }
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [value.mean for _, value, _ in points],
            "y": [place for place, _, _ in points],
            "error_x": {"type": "data", "array": [v.std or 0.0 for _, v, _ in points], "thickness": 2, "width": 5},
            "marker": shapes[name],
            "customdata": [
                [chart_text(rows[place].cell.labels["model"]), f"{value.text(decimals)}, {chart_text(said)}"]
                for place, value, said in points
            ],
            "hovertemplate": f"%{{customdata[0]}}<br>{name} %{{customdata[1]}}<extra></extra>",
        }
        for name, points in (("ours", ours), ("published", paper))
        if points
    ]
    few = len(rows) <= _FEW
    layout = {
        "xaxis": {"title": {"text": f"test {metric}"}, "tickangle": 0, "nticks": 6},
        "yaxis": {
            "tickvals": list(range(len(rows))),
            "ticktext": [_wrapped(row.cell.labels["model"], lines=3 if few else 1) for row in rows],
            "range": [len(rows) - 0.5, -0.5],
            "zeroline": False,
        },
        "height": 130 + (48 if few else 20) * len(rows),
        "showlegend": True,
    }
    return {"data": traces, "layout": layout}


def _wrapped(text: str, width: int = 24, lines: int = 3) -> str:
    """In short lines for the side of a chart; what is too long for it ends in an ellipsis."""
    parts = textwrap.wrap(text, width, max_lines=lines, placeholder=" …", break_on_hyphens=False)
    return "<br>".join(chart_text(part) for part in parts)


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n != 1)}"
