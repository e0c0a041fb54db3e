"""Many runs of anything: with and without LRGA, a grid over options, a campaign of your own, and the tables of them.

import lrga
print(lrga.experiments.compare("CLUSTER", "gcn", budget="100K").to_text())
print(lrga.experiments.sweep("ZINC", {"rank": [0, 10, 30]}, model="gatedgcn").to_text())
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrga.experiments.cell import Cell
    from lrga.experiments.comparison import compare
    from lrga.experiments.published import Published, PublishedTable, Reference
    from lrga.experiments.records import RunRecord, read_record, read_records
    from lrga.experiments.study import CampaignInterrupted, Study
    from lrga.experiments.sweeps import sweep
    from lrga.experiments.table import Table

# Loaded on first use: a table needs no training.
_HOME = {
    "CampaignInterrupted": "study",
    "Cell": "cell",
    "Published": "published",
    "PublishedTable": "published",
    "Reference": "published",
    "RunRecord": "records",
    "Study": "study",
    "Table": "table",
    "compare": "comparison",
    "read_record": "records",
    "read_records": "records",
    "sweep": "sweeps",
}
__all__ = [
    "CampaignInterrupted",
    "Cell",
    "Published",
    "PublishedTable",
    "Reference",
    "RunRecord",
    "Study",
    "Table",
    "compare",
    "read_record",
    "read_records",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"lrga.experiments.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrga.experiments' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
