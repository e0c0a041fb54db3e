"""A study: the cells of one table, to be listed, run and printed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lrga.errors import OptionError
from lrga.experiments.campaign import Campaign, say_on_stderr
from lrga.experiments.cell import Cell, run_name
from lrga.experiments.planning import CampaignPlan, plan_cells
from lrga.experiments.table import ALONE, BESIDE, Row, Table, gains, table_of
from lrga.experiments.workers import run_side_by_side
from lrga.training.callbacks.terminal import ProgressDisplay
from lrga.training.problems.data import Given
from lrga.training.runs.run import Interrupted

OUTPUT = "runs"


class CampaignInterrupted(Interrupted):
    """A campaign was stopped after writing a checkpoint; ``table`` holds the results so far."""

    def __init__(self, message: str, table: Table, exit_code: int) -> None:
        super().__init__(message)
        self.table, self.exit_code = table, exit_code


def parse_shard(text: str) -> tuple[int, int]:
    """Parses ``i/n``: the number of a part and the number of parts.

    Example:
        >>> parse_shard("2/8")
        (2, 8)
    """
    number, slash, count = text.partition("/")
    if not slash or not number.isdecimal() or not count.isdecimal() or not 1 <= int(number) <= int(count):
        raise OptionError("a part i/n with 1 ≤ i ≤ n", repr(text), "write for example --shard 2/8")
    return int(number), int(count)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A campaign of runs and the table of their results.

    Attributes:
        title: Title of the table.
        cells: The rows of the table.
        columns: Columns of the table; by default with published numbers if any cell has one.
        data: Graphs to use instead of the data sets of the configurations.
        remark: Returns lines to print below the table; by default the effect of LRGA.
    """

    title: str
    cells: tuple[Cell, ...]
    columns: tuple[str, ...] | None = None
    data: Given = field(default=None, repr=False)
    remark: Callable[[Sequence[Row]], list[str]] = field(default=gains, repr=False)

    def shard(self, number: int, count: int) -> "Study":
        """Part ``number`` of ``count`` of the runs; depends only on their order. Parts are disjoint and complete.

        Example:
            >>> from lrga.experiments.comparison import comparison
            >>> study = comparison("ZINC", seeds=[1, 2, 3])
            >>> [[cell.seeds for cell in study.shard(part, 4).cells] for part in (1, 2, 3, 4)]
            [[(1,), (2,)], [(2,), (3,)], [(3,)], [(1,)]]
        """
        order: dict[str, int] = {}  # two cells may share a run
        for cell in self.cells:
            for config in cell.runs():
                order.setdefault(run_name(config), len(order))
        cells = []
        for cell in self.cells:
            own = tuple(c.run.seed for c in cell.runs() if order[run_name(c)] % count == number - 1)
            cells += [replace(cell, seeds=own)] if own else []
        return replace(self, title=f"{self.title}, part {number} of {count}", cells=tuple(cells), remark=lambda _: [])

    def plan(self, output: str | Path = OUTPUT) -> CampaignPlan:
        """What would run, with parameters and batch sizes; nothing is trained."""
        outcomes = Campaign(self.cells, output, data=self.data).outcomes()
        return plan_cells(self.title, self.cells, outcomes, data=self.data)

    def table(self, output: str | Path = OUTPUT) -> Table:
        """The table of the results so far; nothing is trained."""
        return self._table(Campaign(self.cells, output, data=self.data))

    def run(
        self,
        output: str | Path = OUTPUT,
        *,
        time_limit: float | None = None,
        retry: bool = False,
        progress: bool = True,
        parallel: int = 1,
    ) -> Table:
        """Trains the missing runs and returns the table.

        Args:
            output: Folder of run folders and records; finished runs in it are skipped.
            time_limit: Minutes for all runs together; repeat the call to resume.
            retry: Whether to repeat runs that diverged.
            progress: Whether to show progress on stderr.
            parallel: Number of runs to train at the same time.
        """
        if parallel != 1:
            if self.data is not None:
                got, remedy = "graphs passed in", "pass a name, or leave parallel out"
                raise OptionError("data by name when several processes train", got, remedy)
            options: dict[str, Any] = {"time_limit": time_limit, "retry": retry, "progress": progress}
            try:
                run_side_by_side(self.cells, output, processes=parallel, **options)
            except Interrupted as error:
                raise CampaignInterrupted(str(error), self.table(output), error.exit_code) from error
            return self.table(output)
        campaign = Campaign(
            self.cells,
            output,
            data=self.data,
            time_limit=time_limit,
            retry=retry,
            callbacks=(lambda titles: [(ProgressDisplay(title),) for title in titles]) if progress else None,
            say=say_on_stderr if progress else None,
        )
        try:
            campaign.run()
        except Interrupted as error:
            message = "Stopped after a checkpoint. Run the same command to resume."
            raise CampaignInterrupted(message, self._table(campaign), error.exit_code) from error
        return self._table(campaign)

    def _table(self, campaign: Campaign) -> Table:
        beside = BESIDE if any(cell.published is not None for cell in self.cells) else ALONE
        table = table_of(self.title, self.cells, campaign.outcomes(), columns=self.columns or beside)
        return replace(table, remarks=tuple(self.remark(table.rows)))
