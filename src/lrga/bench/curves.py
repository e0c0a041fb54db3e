"""Learning curves as a picture."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrga.bench.records import RunRecord
from lrga.errors import DataError, MissingDependencyError
from lrga.io.files import write_bytes
from lrga.tasks.task import METRICS


def require_matplotlib() -> Any:
    """Matplotlib's figure class, which needs no display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        remedy = "pip install 'lrga[plot]'"
        raise MissingDependencyError("matplotlib, to draw pictures", "no such package", remedy) from error
    return Figure


def draw_curves(
    records: Mapping[str, RunRecord], path: str | Path, *, title: str = "", paper: Mapping[str, float] | None = None
) -> Path:
    """Draws the metric over the epochs, solid in validation and dotted in training, one colour for each run.

    Args:
        records: The runs, by what the legend calls them.
        path: Where to write the picture; its ending decides the format (``.png``, ``.svg``, ``.pdf``).
        title: Above it.
        paper: The paper's numbers by the same names, drawn as dashed lines.
    """
    figure_class, path = require_matplotlib(), Path(path)
    metrics = {METRICS[record.metric].name for record in records.values() if record.metric is not None}
    if len(metrics) != 1 or not all(record.curve for record in records.values()):
        remedy = "draw finished runs of one task"
        raise DataError("runs with curves of one metric", ", ".join(sorted(metrics)) or "none", remedy)
    figure = figure_class(figsize=(7.0, 4.2), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    for number, (name, record) in enumerate(records.items()):
        curve, colour = record.curve, f"C{number}"
        axes.plot(curve["epoch"], curve["train_metric"], color=colour, linestyle=":", linewidth=1.2)
        axes.plot(curve["epoch"], curve["val_metric"], color=colour, marker=".", label=_legend(name, record))
        if paper is not None and name in paper:
            axes.axhline(paper[name], color=colour, linestyle="--", linewidth=0.8, alpha=0.7)
    axes.set_xlabel("epoch")
    axes.set_ylabel(metrics.pop())
    axes.grid(alpha=0.25)
    dashed = ", dashed: the paper's test result, full data" if paper else ""
    axes.legend(title=f"validation (dotted: training{dashed})", fontsize=8, title_fontsize=8)
    if title:
        axes.set_title(title, fontsize=10)
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.lstrip(".") or "png")
    write_bytes(path, content.getvalue())
    return path


def _legend(name: str, record: RunRecord) -> str:
    return name if record.parameters is None else f"{name} ({record.parameters:,} parameters)"
