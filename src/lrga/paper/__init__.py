"""The paper as data and as campaigns: its published numbers, its networks, its protocols.

import lrga
print(lrga.paper.reproduce("table1", dataset="ZINC", model="gatedgcn").to_text())
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrga.paper.counts import sizes
    from lrga.paper.link_protocols import table2
    from lrga.paper.printed import PrintedCell, published
    from lrga.paper.protocols import cells_of, paper_config, rank_ablation, table1, table3
    from lrga.paper.reference import THE_PAPER
    from lrga.paper.reproduction import reproduce

# Loaded on first use: `lrga params` needs no training.
_HOME = {
    "PrintedCell": "printed",
    "THE_PAPER": "reference",
    "cells_of": "protocols",
    "paper_config": "protocols",
    "published": "printed",
    "rank_ablation": "protocols",
    "reproduce": "reproduction",
    "sizes": "counts",
    "table1": "protocols",
    "table2": "link_protocols",
    "table3": "protocols",
}
__all__ = [
    "THE_PAPER",
    "PrintedCell",
    "cells_of",
    "paper_config",
    "published",
    "rank_ablation",
    "reproduce",
    "sizes",
    "table1",
    "table2",
    "table3",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"lrga.paper.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrga.paper' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
