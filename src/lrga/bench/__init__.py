"""The paper as data and as campaigns: its published numbers, its networks, its protocols.

import lrga
print(lrga.bench.compare("CLUSTER", "gcn", budget="100K").to_text())
print(lrga.bench.sweep("ZINC", {"rank": [0, 10, 30]}, model="gatedgcn").to_text())
print(lrga.bench.reproduce("table1", dataset="ZINC", model="gatedgcn").to_text())
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrga.bench.backends import explain_choices
    from lrga.bench.comparison import compare
    from lrga.bench.link_protocols import table2
    from lrga.bench.paper import Published, published
    from lrga.bench.params import sizes
    from lrga.bench.protocols import cells_of, paper_config, rank_ablation, table1, table3
    from lrga.bench.records import RunRecord, read_record, read_records
    from lrga.bench.reproduction import reproduce
    from lrga.bench.speed import measure_speed
    from lrga.bench.study import CampaignInterrupted, Study
    from lrga.bench.sweeps import sweep
    from lrga.bench.tables import CampaignTable

# Loaded on first use: `lrga params` needs no training.
_HOME = {
    "CampaignInterrupted": "study",
    "CampaignTable": "tables",
    "Published": "paper",
    "RunRecord": "records",
    "Study": "study",
    "cells_of": "protocols",
    "compare": "comparison",
    "explain_choices": "backends",
    "measure_speed": "speed",
    "paper_config": "protocols",
    "published": "paper",
    "rank_ablation": "protocols",
    "read_record": "records",
    "read_records": "records",
    "reproduce": "reproduction",
    "sizes": "params",
    "sweep": "sweeps",
    "table1": "protocols",
    "table2": "link_protocols",
    "table3": "protocols",
}
__all__ = [
    "CampaignInterrupted",
    "CampaignTable",
    "Published",
    "RunRecord",
    "Study",
    "cells_of",
    "compare",
    "explain_choices",
    "measure_speed",
    "paper_config",
    "published",
    "rank_ablation",
    "read_record",
    "read_records",
    "reproduce",
    "sizes",
    "sweep",
    "table1",
    "table2",
    "table3",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"lrga.bench.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrga.bench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
