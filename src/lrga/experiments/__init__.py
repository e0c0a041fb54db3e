"""Many runs of anything: with and without LRGA, a grid over options, a campaign of your own, and their tables.

import lrga
print(lrga.experiments.compare("CLUSTER", "gcn", budget="100K").to_text())
print(lrga.experiments.sweep("ZINC", {"rank": [0, 10, 30]}, model="gatedgcn").to_text())
"""

from lrga.experiments.cell import Cell
from lrga.experiments.comparison import compare
from lrga.experiments.published import Published, PublishedTable, Reference
from lrga.experiments.records import RunRecord, read_record, read_records
from lrga.experiments.study import CampaignInterrupted, Study
from lrga.experiments.sweeps import sweep
from lrga.experiments.table import Table

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
