"""Figures for a paper: learning curves and the rank curve."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lrga.errors import DataError, OptionError
from lrga.experiments.cell import budget_label
from lrga.experiments.loading import Collection, grouped_rows, rank_series
from lrga.experiments.table import Row
from lrga.explain.style import COLOURS, MARKERS, PAPER, WIDTH, colour, plain, save_figure
from lrga.paper.reference import THE_PAPER
from lrga.report.figures import rank_curve

_SPLITS = {"train": "dotted", "val": "solid", "test": "dashed"}
_WORDS = {"train": "training", "val": "validation", "test": "test"}
_NAMED = 12  # most series in a legend
_MAX_CHARACTERS = 60  # most characters of a name
QUANTITIES = ("metric", "loss")


MAX_POINTS = 40  # of a learning curve, approximately


def plot_curves(
    found: Collection, path: str | Path, *, quantity: str = "metric", splits: Sequence[str] = ("train", "val"),
    log_x: bool = False, log_y: bool = False, width: float = WIDTH, title: str = "",
) -> Path:  # fmt: skip
    """Learning curves, one panel for each data set (and budget, if colours run out), one colour for each network."""
    if quantity not in QUANTITIES:
        raise OptionError(f"one of {', '.join(QUANTITIES)}", repr(quantity), "choose one of these")
    if wrong := [split for split in splits if split not in _SPLITS]:
        raise OptionError(f"splits among {', '.join(_SPLITS)}", repr(wrong[0]), "choose from these")
    cells = [cell for cell in grouped_rows(found.runs, THE_PAPER) if any(_curves(cell))]
    panels = _panels(cells)

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
    """The curves of all finished seeds; if there are none, of all seeds."""
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
            epochs, values = ([*line[:: 1 + len(line) // MAX_POINTS], line[-1]] for line in (curve["epoch"], values))
            axes.plot(epochs, values, color=colour(number), linestyle=_SPLITS[split], label=label,
                      marker=marker, markevery=max(1, len(values) // 2), markersize=3.5)  # fmt: skip
        marked = marked or bool(curves)


def plot_rank(found: Collection, path: str | Path, *, width: float = WIDTH, title: str = "") -> Path:
    """The test result over the rank κ, with standard deviations over the seeds."""
    networks = rank_series(grouped_rows(found.runs, THE_PAPER))
    if not networks:
        remedy = "train some: lrga sweep CLUSTER --grid rank=0,10,30, or lrga reproduce run rank"
        raise DataError("finished runs of one network at several ranks", "none", remedy)
    label, series = rank_curve(networks)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, line in enumerate(series):
            style = {"color": colour(number), "marker": MARKERS[number % len(MARKERS)]}
            if line.published:
                style = {"color": PAPER, "marker": "D", "markerfacecolor": "none", "linestyle": "none"}
            axes.errorbar(line.ranks, line.means, yerr=line.errors, label=_short(line.name), **style)
        axes.set(xlabel="rank κ", ylabel=plain(label))
        _legend(axes)
        _title(figure, title)

    return save_figure(path, draw, width=width, height=3.6)


def _panels(cells: Sequence[Row]) -> dict[str, list[Row]]:
    """The networks by data set, and by budget if there are more networks than colours."""
    if not cells:
        remedy = "pass folders of runs that trained at least one epoch"
        raise DataError("runs with learning curves", "none", remedy)
    of_set = Counter(cell.cell.labels["dataset"] for cell in cells)
    panels: dict[str, list[Row]] = {}
    for cell in cells:
        dataset = cell.cell.labels["dataset"]
        budget = budget_label(cell.cell.config) if of_set[dataset] > len(COLOURS) else ""
        panels.setdefault(f"{dataset}, {budget}" if budget else dataset, []).append(cell)
    return panels


def _short(text: str) -> str:
    return plain(text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 2]} …")


def _legend(axes: Any, title: str = "") -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        more = f"the first {_NAMED} of {len(handles)}" if len(handles) > _NAMED else ""  # more would cover the figure
        words = "\n".join(filter(None, (title, more)))
        axes.legend(handles[:_NAMED], labels[:_NAMED], title=words or None, title_fontsize=7.5)


def _title(figure: Any, text: str) -> None:
    if text:
        figure.suptitle(plain(text), fontsize=10)
