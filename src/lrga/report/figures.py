"""The charts of the report page, drawn by Plotly.

:mod:`lrga.report.pictures` draws the rank curve with matplotlib. A Plotly figure is
``{"data": [traces], "layout": {…}}``; the page adds its colours.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lrga.experiments.table import Row
from lrga.explain.html import chart_text
from lrga.explain.style import COLOURS, PAPER, colour

Figure = dict[str, Any]
_MAX_SERIES = 12  # most series in a legend; with more, hovering shows the name
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True)
class Series:
    """One network's line in the rank curve, or a published point.

    Attributes:
        name: For the legend.
        ranks, means, errors: Values of each point; errors are standard deviations over the seeds.
        texts: Hover text of each point.
        published: Whether the point is a published number.
    """

    name: str
    ranks: list[int]
    means: list[float]
    errors: list[float]
    texts: list[str]
    published: bool = False


def rank_curve(networks: Sequence[tuple[str, list[tuple[int, Row]]]]) -> tuple[str, list[Series]]:
    """The name of the test metric, and series of it over the rank: one for each network, and published numbers."""
    series, published, metrics = [], [], []
    for label, line in networks:
        points = [(rank, spread) for rank, row in line if (spread := row.spread()) is not None]
        ranks, means = [rank for rank, _ in points], [spread.mean for _, spread in points]
        texts = [f"{spread.text(4)}, {_seeds(spread.n)}" for _, spread in points]
        series.append(Series(label, ranks, means, [spread.std or 0.0 for _, spread in points], texts))
        metrics += [row.metric.name for _, row in line]
        for rank, row in line:
            if (cell := row.cell.published) is not None:
                said = f"{cell.text(4)}, {cell.source}"
                published.append(Series(f"published, κ {rank}", [rank], [cell.mean], [cell.std or 0.0], [said], True))
    return f"test {', '.join(dict.fromkeys(metrics))}", series + published


def rank_figure(networks: Sequence[tuple[str, list[tuple[int, Row]]]]) -> Figure:
    """The rank curve for the page."""
    label, series = rank_curve(networks)
    layout: Figure = {
        "xaxis": {"title": {"text": "rank κ"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": label}},
        "height": 420,
        "showlegend": len(series) <= _MAX_SERIES,
    }
    return {"data": [_trace(number, line) for number, line in enumerate(series)], "layout": layout}


def _trace(number: int, line: Series) -> dict[str, Any]:
    shade = PAPER if line.published else colour(number)
    symbol = "diamond-open" if line.published else _SYMBOLS[number % len(_SYMBOLS)]
    return {
        "type": "scatter",
        "mode": "markers" if line.published else "lines+markers",
        "name": chart_text(line.name),
        "x": line.ranks,
        "y": line.means,
        "error_y": {"type": "data", "array": line.errors},
        "marker": {"color": shade, "symbol": symbol, "size": 8},
        "line": {"color": shade},
        "customdata": [chart_text(text) for text in line.texts],
        "hovertemplate": "rank κ %{x}<br>%{customdata}<extra>%{fullData.name}</extra>",
    }


def result_figures(rows: Sequence[Row]) -> list[tuple[str, Figure]]:
    """For each data set and metric: our result and the published one, with standard deviations over the seeds."""
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
    few = len(rows) <= _MAX_SERIES
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
    """Wraps a label for the side of a chart; long labels end in an ellipsis."""
    parts = textwrap.wrap(text, width, max_lines=lines, placeholder=" …", break_on_hyphens=False)
    return "<br>".join(chart_text(part) for part in parts)


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n != 1)}"
