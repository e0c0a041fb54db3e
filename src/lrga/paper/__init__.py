"""The paper as data and as campaigns: its published numbers, its networks, its protocols.

import lrga
print(lrga.paper.reproduce("table1", dataset="ZINC", model="gatedgcn").to_text())
"""

from lrga.paper.counts import sizes
from lrga.paper.link_protocols import table2
from lrga.paper.printed import PrintedCell, published
from lrga.paper.protocols import cells_of, paper_config, rank_ablation, table1, table3
from lrga.paper.reference import THE_PAPER
from lrga.paper.reproduction import reproduce

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
