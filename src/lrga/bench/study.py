"""What one asks of a campaign: the cells of one table, to be listed, run, and printed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lrga.bench.cell import Cell
from lrga.bench.planning import CampaignPlan, plan_cells
from lrga.bench.runner import Campaign, say_on_stderr
from lrga.bench.tables import CampaignTable, Row, table_of
from lrga.bench.workers import run_side_by_side
from lrga.errors import OptionError
from lrga.training.callbacks.events import Listener
from lrga.training.callbacks.terminal import progress_display
from lrga.training.callbacks.terminal_many import progress_displays
from lrga.training.problems.graph_data import Given
from lrga.training.runs.signals import Interrupted

OUTPUT = "runs"


class CampaignInterrupted(Interrupted):
    """A campaign was asked to stop, and did, after writing a checkpoint; ``table`` is what it has so far."""

    def __init__(self, message: str, table: CampaignTable, exit_code: int) -> None:
        super().__init__(message)
        self.table, self.exit_code = table, exit_code


def _no_remarks(rows: Sequence[Row]) -> list[str]:
    del rows
    return []


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table to be made.

    Attributes:
        title: What it shows.
        cells: Its rows.
        paper: Whether the paper's numbers have columns.
        data: The graphs themselves, in place of those that the configurations name.
        remark: Says in lines below the table what its rows show together.
    """

    title: str
    cells: tuple[Cell, ...]
    paper: bool = True
    data: Given = field(default=None, repr=False)
    remark: Callable[[Sequence[Row]], list[str]] = field(default=_no_remarks, repr=False)

    def plan(self, output: str | Path = OUTPUT) -> CampaignPlan:
        """What would run, with parameters and batch sizes; nothing is trained."""
        outcomes = Campaign(self.cells, output, data=self.data).outcomes()
        return plan_cells(self.title, self.cells, outcomes, data=self.data)

    def table(self, output: str | Path = OUTPUT) -> CampaignTable:
        """The table of what is done so far; nothing is trained."""
        return self._table(Campaign(self.cells, output, data=self.data))

    def run(
        self,
        output: str | Path = OUTPUT,
        *,
        time_limit: float | None = None,
        retry: bool = False,
        progress: bool = True,
        parallel: int = 1,
    ) -> CampaignTable:
        """Trains what is missing and returns the table.

        Args:
            output: Folder of run folders and records; called again with the same one, what is done is not done again.
            time_limit: Minutes for all runs together; the same call continues.
            retry: Whether runs that diverged are made again.
            progress: Whether to show progress on stderr.
            parallel: Processes that train side by side.
        """
        if parallel != 1:
            return self._side_by_side(output, parallel, time_limit=time_limit, retry=retry, progress=progress)

        def listeners(title: str) -> Sequence[Listener]:
            return (progress_display(title),) if progress else ()

        def listeners_at_once(titles: Sequence[str]) -> Sequence[Sequence[Listener]]:
            return [(display,) for display in progress_displays(titles)] if progress else [() for _ in titles]

        campaign = Campaign(
            self.cells,
            output,
            data=self.data,
            time_limit=time_limit,
            retry=retry,
            listeners=listeners,
            listeners_at_once=listeners_at_once,
            say=say_on_stderr if progress else None,
        )
        try:
            campaign.run()
        except Interrupted as error:
            message = "Stopped after a checkpoint; the same command continues."
            raise CampaignInterrupted(message, self._table(campaign), error.exit_code) from error
        return self._table(campaign)

    def _side_by_side(self, output: str | Path, processes: int, **options: Any) -> CampaignTable:
        if self.data is not None:
            got = "graphs passed in"
            raise OptionError("data by name where several processes train", got, "name the data, or leave parallel out")
        try:
            run_side_by_side(self.cells, output, processes=processes, **options)
        except Interrupted as error:
            raise CampaignInterrupted(str(error), self.table(output), error.exit_code) from error
        return self.table(output)

    def _table(self, campaign: Campaign) -> CampaignTable:
        table = table_of(self.title, self.cells, campaign.outcomes(), paper=self.paper)
        return replace(table, remarks=tuple(self.remark(table.rows)))
