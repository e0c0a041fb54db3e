"""Runs as a page, attention as a page, and figures for a paper.

import lrga
lrga.report.write_report(["runs", "results"], "page.html")
lrga.report.write_explorer("runs/cluster-lrga-gcn-100k-seed41", "attention.html", graph=3)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrga.report.attention import Explanation, explain
    from lrga.report.explorer import write_explorer
    from lrga.report.own_model import explain_model
    from lrga.report.page import write_report
    from lrga.report.sources import Collection, gather

# Loaded on first use: a figure needs no templates, a page no figures.
_HOME = {
    "Collection": "sources",
    "Explanation": "attention",
    "explain": "attention",
    "explain_model": "own_model",
    "gather": "sources",
    "write_explorer": "explorer",
    "write_report": "page",
}
__all__ = ["Collection", "Explanation", "explain", "explain_model", "gather", "write_explorer", "write_report"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"lrga.report.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrga.report' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
