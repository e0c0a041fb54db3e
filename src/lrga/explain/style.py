"""One style for pages and figures: colour-blind safe colours and sizes that are readable in print."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrga.errors import CheckpointError, OptionError, optional_module
from lrga.io.files import write_bytes

# Okabe and Ito's colour-blind safe palette, without yellow, which is too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SEQUENTIAL = "cividis"  # differs in brightness, so it is colour-blind safe
PAPER = "#555555"
FORMATS = ("png", "svg", "pdf")
WIDTH = 6.4  # inches: the width of a text column
TALLEST_PNG = 200  # inches; matplotlib's limit is 2^16 pixels
_SETTINGS: Any = {  # recent versions of matplotlib type its keys individually
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 7.5,
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "path.simplify_threshold": 0.3,  # points closer than this to a straight line, in pixels, are omitted
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "errorbar.capsize": 2.5,
    "image.cmap": SEQUENTIAL,
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # embeds fonts as text, which publishers require
    "svg.fonttype": "none",
    "svg.hashsalt": "lrga",  # equal runs give equal files
    "mathtext.default": "regular",
}


def colour(number: int) -> str:
    """The colour of the ``number``-th series; colours repeat after the last one.

    Example:
        >>> colour(0) == colour(len(COLOURS))
        True
    """
    return COLOURS[number % len(COLOURS)]


def plain(text: str) -> str:
    """Escapes a name for matplotlib, which reads text between dollar signs as formulas.

    Control characters, which are invalid in SVG, become spaces.

    Example:
        >>> plain("$x$")
        '\\\\$x\\\\$'
    """
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", " ", text).replace("$", r"\$")


def save_figure(path: str | Path, draw: Callable[[Any], None], *, width: float, height: float) -> Path:
    """Calls ``draw`` on a figure of this size in inches and writes it atomically, in the format of the extension."""
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise OptionError("a file name ending in .png, .svg or .pdf", repr(path.name), f"write {path.stem}.png")
    if not 1.0 <= width <= 40.0:
        raise OptionError("a width of 1 to 40 inches", f"{width:g}", "pass for example 6.4")
    if kind == "png" and height > TALLEST_PNG:
        got = f"{height:.0f} inches"
        raise OptionError(f"a PNG of at most {TALLEST_PNG} inches in height", got, f"write {path.stem}.pdf")
    figure_class = optional_module("matplotlib.figure", "to draw pictures", "plot").Figure  # needs no display
    import matplotlib as mpl

    content = io.BytesIO()
    dates: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context(_SETTINGS):
        figure = figure_class(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.savefig(content, format=kind, metadata=dates[kind])  # equal runs give equal files
    drawn = content.getvalue()
    if kind == "svg":  # one decimal is enough and halves the size
        number = re.compile(rb"\d+\.\d{2,}")
        drawn = re.sub(
            rb' (?:d|x|y)="[^"]*"', lambda found: number.sub(lambda one: b"%.1f" % float(one[0]), found[0]), drawn
        )
    try:
        write_bytes(path, drawn)
    except CheckpointError as error:
        raise CheckpointError(f"to write {path}", error.got, "choose another file: -o figure.pdf") from error
    return path
