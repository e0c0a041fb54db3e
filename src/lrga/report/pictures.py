"""Figures for a paper: learning curves, the rank curve, the table of results, time and memory over size."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrga.errors import DataError, OptionError
from lrga.experiments.loading import budget_label, grouped_rows, rank_series
from lrga.experiments.table import Row
from lrga.explain.style import COLOURS, MARKERS, PAPER, WIDTH, colour, plain, save_figure
from lrga.paper.reference import THE_PAPER
from lrga.report.figures import Chart, rank_chart, speed_charts
from lrga.report.sources import Gathered
from lrga.report.speed import TITLES

_SPLITS = {"train": "dotted", "val": "solid", "test": "dashed"}
_WORDS = {"train": "training", "val": "validation", "test": "test"}
_NAMED = 12  # series that a legend names
QUANTITIES = ("metric", "loss")


MOST_POINTS = 80  # of a learning curve, about


def plot_curves(
    found: Gathered, path: str | Path, *, quantity: str = "metric", splits: Sequence[str] = ("train", "val"),
    log_x: bool = False, log_y: bool = False, width: float = WIDTH, title: str = "",
) -> Path:  # fmt: skip
    """Learning curves, one panel for each data set (and budget, if colours run out), one colour for each network."""
    if quantity not in QUANTITIES:
        raise OptionError(f"one of {', '.join(QUANTITIES)}", repr(quantity), "choose one of these")
    if wrong := [split for split in splits if split not in _SPLITS]:
        raise OptionError(f"splits among {', '.join(_SPLITS)}", repr(wrong[0]), "choose among these")
    cells = [cell for cell in grouped_rows(found.runs, THE_PAPER) if any(_curves(cell))]
    panels = _with_colours_enough(_by_dataset(cells, "learning curves"))

    def draw(figure: Any) -> None:
        grid = figure.subplots(len(panels), 1, squeeze=False)
        for axes, (name, group) in zip(grid[:, 0], panels.items(), strict=True):
            for number, cell in enumerate(group):
                _curve_lines(axes, cell, number, quantity, splits)
            axes.set(
                xlabel="epoch", ylabel=group[0].metric.name if quantity == "metric" else "loss", title=_short(name)
            )
            axes.set_xscale("log" if log_x else "linear")
            axes.set_yscale("log" if log_y else "linear")
            _legend(axes, "; ".join(f"{_SPLITS[split]} {_WORDS[split]}" for split in splits))
        _title(figure, title)

    return save_figure(path, draw, width=width, height=3.2 * len(panels) + 0.3)


def _curves(row: Row) -> list[dict[str, list[float]]]:
    """The curves of all finished seeds, of the others where none is."""
    records = row.finished or [outcome.record for outcome in row.outcomes if outcome.record is not None]
    return [record.curve for record in records if record.curve]


def _curve_lines(axes: Any, row: Row, number: int, quantity: str, splits: Sequence[str]) -> None:
    """All seeds in one colour; the first has markers and name."""
    label, marked = row.cell.labels["model"], False
    name = label if row.finished else f"{label}, unfinished"
    for curve in _curves(row):
        curves = [(split, values) for split in splits if (values := curve.get(f"{split}_{quantity}"))]
        for place, (split, values) in enumerate(curves):
            label = None if marked or place else _short(name)
            marker = None if marked else MARKERS[number % len(MARKERS)]
            epochs, values = ([*line[:: 1 + len(line) // MOST_POINTS], line[-1]] for line in (curve["epoch"], values))
            axes.plot(epochs, values, color=colour(number), linestyle=_SPLITS[split], label=label,
                      marker=marker, markevery=max(1, len(values) // 3), markersize=3.5)  # fmt: skip
        marked = marked or bool(curves)


def plot_rank(found: Gathered, path: str | Path, *, width: float = WIDTH, title: str = "") -> Path:
    """The test result over the rank κ, with its deviation over the seeds."""
    chart = rank_chart(rank_series(grouped_rows(found.runs, THE_PAPER)))
    if chart is None:
        remedy = "run some: lrga sweep CLUSTER --grid rank=0,10,30, or lrga reproduce run rank"
        raise DataError("finished runs of one network at several ranks", "none", remedy)

    def draw(figure: Any) -> None:
        _draw(figure.subplots(), chart)
        _title(figure, title)

    return save_figure(path, draw, width=width, height=3.6)


def plot_table(found: Gathered, path: str | Path, *, width: float = WIDTH, title: str = "") -> Path:
    """Results beside the published ones as a table: mean ± deviation over the seeds."""
    cells = [cell for cell in grouped_rows(found.runs, THE_PAPER) if cell.spread() is not None]
    _by_dataset(cells, "results")
    head = ("data set", "network", "metric", "ours", "n", "published", "difference")
    rows = [_table_row(cell) for cell in cells]
    heights = [1.3, *(0.35 + 0.85 * max(cell.count("\n") + 1 for cell in row) for row in rows)]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.set_axis_off()
        share = (0.13, 0.27, 0.19, 0.15, 0.04, 0.15, 0.12)
        table = axes.table(
            cellText=[head, *rows], colWidths=[s / sum(share) for s in share], loc="center", bbox=(0, 0, 1, 1)
        )
        table.auto_set_font_size(False)
        table.set_fontsize(7.5)
        for (row, column), box in table.get_celld().items():
            box.visible_edges = "TB" if row == 0 else "B"
            box.set_edgecolor("black" if row == 0 else "#bbbbbb")
            box.set_linewidth(0.8)
            box.set_height(heights[row] / sum(heights))
            box.get_text().set_horizontalalignment("left" if column < 3 else "right")
            box.PAD = 0.03
            if row == 0:
                box.get_text().set_weight("bold")
        _title(figure, title)

    return save_figure(path, draw, width=width, height=0.25 + 0.2 * sum(heights))


def _table_row(row: Row) -> list[str]:
    ours, metric, printed = row.spread(), row.metric, row.cell.published
    assert ours is not None
    decimals = metric.decimals
    return [
        "\n".join(textwrap.wrap(plain(row.cell.labels["dataset"]), 12)),
        "\n".join(
            textwrap.wrap(plain(row.cell.labels["model"]) + (" *" if printed and row.cell.deviations() else ""), 26)
        ),
        "\n".join(textwrap.wrap(metric.name, 18)),
        ours.text(decimals),
        str(ours.n),
        "" if printed is None else printed.text(decimals),
        "" if row.difference is None else f"{row.difference:+.{decimals}f}",
    ]


def plot_scale(found: Gathered, path: str | Path, *, width: float = WIDTH, title: str = "", log: bool = True) -> Path:
    """Time, memory and throughput from benchmark records: over the size where they have one, else as bars."""
    panels = [
        (record.name, chart)
        for record in found.speed
        for chart in speed_charts(record)
        if chart.title != TITLES["ratio"] or len(record.panels) == 1
    ]
    if not panels:
        remedy = "name records that the scripts under benchmarks/ wrote, such as reproduction/results/speed"
        raise DataError("benchmark records", "none", remedy)
    heights = [0.9 + 0.1 * len(_names(chart)) * (1 + len(chart.series)) if chart.bars else 2.8 for _, chart in panels]

    def draw(figure: Any) -> None:
        grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
        for axes, (name, chart) in zip(grid[:, 0], panels, strict=True):
            _draw(axes, replace(chart, log=log))
            axes.set_title(f"{_short(name)}: {chart.title.lower()}")
        _title(figure, title)

    return save_figure(path, draw, width=width, height=sum(heights) + 0.3)


def _draw(axes: Any, chart: Chart) -> None:
    """A chart as matplotlib draws it."""
    scale, names = "log" if chart.log else "linear", _names(chart)
    thick = 0.8 / len(chart.series)
    for number, series in enumerate(chart.series):
        label = _short(series.name)
        if chart.bars:
            shift = thick * (number - (len(chart.series) - 1) / 2)
            axes.barh([names.index(name) + shift for name in series.x], series.y, thick, color=colour(number),
                      label=label)  # fmt: skip
        elif series.published:
            axes.errorbar(series.x, series.y, yerr=series.error, color=PAPER, marker="D", markerfacecolor="none",
                          linestyle="none", label=label)  # fmt: skip
        else:
            axes.errorbar(series.x, series.y, yerr=series.error, color=colour(number),
                          marker=MARKERS[number % len(MARKERS)], label=label)  # fmt: skip
    axes.set(xlabel=plain(chart.x_label), ylabel=plain(chart.y_label), xscale=scale)
    if chart.bars:
        axes.set_yticks(range(len(names)), [_short(name, 40) for name in names])
        axes.invert_yaxis()
    else:
        axes.set_yscale(scale)
    if len(chart.series) > 1 or not chart.bars:
        _legend(axes)


def _names(chart: Chart) -> list[Any]:
    """What the bars of a chart stand for, from above."""
    return list(dict.fromkeys(name for series in chart.series for name in series.x))


def _by_dataset(cells: Sequence[Row], what: str) -> dict[str, list[Row]]:
    if not cells:
        raise DataError(f"runs with {what}", "none among these", "name folders of runs that trained an epoch or more")
    groups: dict[str, list[Row]] = {}
    for cell in cells:
        groups.setdefault(cell.cell.labels["dataset"], []).append(cell)
    return groups


def _with_colours_enough(groups: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The networks of a data set budget by budget where they are more than there are colours."""
    panels: dict[str, list[Row]] = {}
    for dataset, group in groups.items():
        for cell in group:
            budget = budget_label(cell.cell.config) if len(group) > len(COLOURS) else ""
            panels.setdefault(f"{dataset}, {budget}" if budget else dataset, []).append(cell)
    return panels


def _short(text: str, width: int = 60) -> str:
    return plain(text if len(text) <= width else f"{text[: width - 2]} …")


def _legend(axes: Any, title: str = "") -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        more = f"the first {_NAMED} of {len(handles)}" if len(handles) > _NAMED else ""  # all would cover the picture
        words = "\n".join(filter(None, (title, more)))
        axes.legend(handles[:_NAMED], labels[:_NAMED], title=words or None, title_fontsize=7.5)


def _title(figure: Any, text: str) -> None:
    if text:
        figure.suptitle(plain(text), fontsize=10)
