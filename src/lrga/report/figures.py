"""The charts of a page as Plotly reads them: ``{"data": [traces], "layout": {…}}``; colours of the page come later."""

import textwrap
from collections.abc import Sequence
from typing import Any

from lrga.experiments.table import Row
from lrga.explain.html import chart_text
from lrga.explain.style import COLOURS, colour
from lrga.report.speed import SpeedRecord, unit_name

Figure = dict[str, Any]
_FEW = 12  # series that a legend names; beyond, the pointer does
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")


def result_figures(rows: Sequence[Row]) -> list[tuple[str, Figure]]:
    """For each data set and metric: ours with its deviation over the seeds, beside the published one with its own."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.spread() is not None:
            groups.setdefault((row.cell.labels["dataset"], row.metric.name), []).append(row)
    return [(dataset, _results(metric, group)) for (dataset, metric), group in groups.items()]


def _results(metric: str, rows: Sequence[Row]) -> Figure:
    names, places = [chart_text(row.cell.labels["model"]) for row in rows], list(range(len(rows)))
    spreads = [spread for row in rows if (spread := row.spread()) is not None]
    decimals = rows[0].metric.decimals + 1
    ours = {
        "type": "scatter",
        "mode": "markers",
        "name": "ours",
        "x": [spread.mean for spread in spreads],
        "y": places,
        "error_x": {"type": "data", "array": [spread.std or 0.0 for spread in spreads], "thickness": 2, "width": 5},
        "marker": {"color": COLOURS[0], "size": 11},
        "customdata": [
            [name, f"{spread.text(decimals)}, {_seeds(spread.n)}"] for name, spread in zip(names, spreads, strict=True)
        ],
        "hovertemplate": "%{customdata[0]}<br>ours %{customdata[1]}<extra></extra>",
    }
    printed = [(place, row.cell.published) for place, row in enumerate(rows) if row.cell.published is not None]
    paper = {
        "type": "scatter",
        "mode": "markers",
        "name": "published",
        "x": [cell.mean for _, cell in printed],
        "y": [place for place, _ in printed],
        "error_x": {"type": "data", "array": [cell.std or 0.0 for _, cell in printed], "thickness": 2, "width": 5},
        "marker": {"color": COLOURS[1], "size": 11, "symbol": "diamond-open", "line": {"width": 2}},
        "customdata": [[names[i], f"{c.text(decimals)}, {chart_text(c.source)}"] for i, c in printed],
        "hovertemplate": "%{customdata[0]}<br>published %{customdata[1]}<extra></extra>",
    }
    few = len(rows) <= _FEW
    layout = {
        "xaxis": {"title": {"text": f"test {metric}"}, "tickangle": 0, "nticks": 6},
        "yaxis": {
            "tickvals": places,
            "ticktext": [_wrapped(row.cell.labels["model"], lines=3 if few else 1) for row in rows],
            "range": [len(rows) - 0.5, -0.5],
            "zeroline": False,
        },
        "height": 130 + (48 if few else 20) * len(names),
        "showlegend": True,
    }
    return {"data": [ours, *([paper] if printed else [])], "layout": layout}


def rank_figure(series: Sequence[tuple[str, list[tuple[int, Row]]]]) -> Figure | None:
    """The test result over the rank, one line for each network; ``None`` of none."""
    if not series:
        return None
    traces, metrics = [], []
    for number, (label, line) in enumerate(series):
        points = [(rank, row, spread) for rank, row in line if (spread := row.spread()) is not None]
        metrics += [row.metric.name for _, row, _ in points]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": chart_text(label),
                "x": [rank for rank, _, _ in points],
                "y": [spread.mean for _, _, spread in points],
                "error_y": {"type": "data", "array": [spread.std or 0.0 for _, _, spread in points]},
                "marker": {"color": colour(number), "symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 8},
                "line": {"color": colour(number)},
                "customdata": [f"{spread.text(4)}, {_seeds(spread.n)}" for _, _, spread in points],
                "hovertemplate": "κ = %{x}<br>%{customdata}<extra>%{fullData.name}</extra>",
            }
        )
    layout = {
        "xaxis": {"title": {"text": "rank κ"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": f"test {', '.join(dict.fromkeys(metrics))}"}},
        "showlegend": len(series) <= _FEW,
        "height": 420,
    }
    return {"data": traces, "layout": layout}


def speed_figures(record: SpeedRecord) -> list[tuple[str, Figure]]:
    """Time, memory, throughput and ratios of a benchmark: lines over its size where it has one, else bars."""
    return [
        (title, _lines(record, columns) if record.size else _bars(record, columns)) for title, columns in record.panels
    ]


def _bars(record: SpeedRecord, columns: Sequence[str]) -> Figure:
    traces = []
    for number, column in enumerate(columns):
        rows = [row for row in record.rows if row.get(column) is not None and not isinstance(row[column], str | bool)]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": chart_text(column.replace("_", " ")),
                "y": [_wrapped(record.label(row)) for row in rows],
                "x": [row[column] for row in rows],
                "marker": {"color": colour(number)},
                "hovertemplate": "%{y}<br>%{x:.4~g} %{fullData.name}<extra></extra>",
            }
        )
    bars = max((len(trace["x"]) for trace in traces), default=0)
    layout = {
        "barmode": "group",
        "xaxis": {"title": {"text": _unit(columns)}, "type": "log"},
        "yaxis": {"type": "category", "automargin": True, "autorange": "reversed"},
        "height": 140 + bars * (14 + 12 * len(columns)),
        "showlegend": len(columns) > 1,
    }
    return {"data": traces, "layout": layout}


def _lines(record: SpeedRecord, columns: Sequence[str]) -> Figure:
    traces, size = [], str(record.size)
    series: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in record.rows:
        for column in columns:
            if all(isinstance(row.get(key), int | float) for key in (size, column)):
                series.setdefault((record.label(row), column), []).append((row[size], row[column]))
    for number, ((label, column), points) in enumerate(series.items()):
        name = label if len(columns) == 1 else f"{label}, {column.replace('_', ' ')}"
        points.sort()
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": chart_text(name),
                "x": [x for x, _ in points],
                "y": [y for _, y in points],
                "marker": {"color": colour(number), "symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 7},
                "hovertemplate": f"{chart_text(size)} %{{x}}<br>%{{y:.4~g}}<extra>%{{fullData.name}}</extra>",
            }
        )
    layout = {
        "xaxis": {"title": {"text": chart_text(size.replace("_", " "))}, "type": "log"},
        "yaxis": {"title": {"text": _unit(columns)}, "type": "log"},
        "height": 420,
        "showlegend": len(series) <= _FEW,
    }
    return {"data": traces, "layout": layout}


def _wrapped(text: str, width: int = 24, lines: int = 3) -> str:
    """In short lines for the side of a chart; what is too long for it ends in an ellipsis."""
    parts = textwrap.wrap(text, width, max_lines=lines, placeholder=" …", break_on_hyphens=False)
    return "<br>".join(chart_text(part) for part in parts)


def _unit(columns: Sequence[str]) -> str:
    return chart_text(columns[0].replace("_", " ") if len(columns) == 1 else unit_name(columns[0]))


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n != 1)}"
