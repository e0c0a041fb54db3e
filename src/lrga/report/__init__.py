"""A report page of runs, and figures for a paper.

import lrga
lrga.report.write_report(["runs", "reproduction/results"], "page.html")
"""

from lrga.experiments.loading import Collection
from lrga.report.page import write_report
from lrga.report.sources import gather

__all__ = ["Collection", "gather", "write_report"]
