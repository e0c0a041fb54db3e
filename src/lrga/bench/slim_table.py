"""A table that loses nothing on a narrow terminal: columns that do not fit become lines above their rows."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column, Table
from rich.text import Text

GAP = 2  # columns of the terminal between two columns of the table


class SlimTable(Table):
    """A table without lines but the one below its headings; names and numbers are never cut nor broken.

    Where the columns together are wider than the terminal, the one whose entries change least often from row to row
    is taken out and said above the rows that share it, and so on until the others fit. Results go last: columns
    whose headings are in ``results`` stay beside their row as long as any other can go.

    Example:
        >>> table = SlimTable("data set", "model", title="Results")
        >>> table.add_row("CLUSTER", "GCN")
        >>> table.add_row("CLUSTER", "LRGA + GCN")
        >>> Console(width=18, color_system=None).print(table)
        Results
        model
        ──────────
        data set CLUSTER
        GCN
        LRGA + GCN
    """

    results: frozenset[str] = frozenset()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        entries = [[str(cell) for cell in column.cells] for column in self.columns]
        headings = [str(column.header) for column in self.columns]
        widths = [max(map(cell_len, (heading, *cells))) for heading, cells in zip(headings, entries, strict=True)]
        late = [number for number, heading in enumerate(headings) if heading in self.results]
        above = columns_above(widths, entries, options.max_width, late=late)
        kept = [number for number in range(len(widths)) if number not in above]
        if self.title:
            yield Text(str(self.title), style="bold")
        yield self._part(kept, widths, options.max_width, header=True)
        shared = [[(headings[number], entries[number][row]) for number in above] for row in range(self.row_count)]
        for said, rows in groupby(range(self.row_count), key=lambda row: shared[row]):
            if said:
                yield Text(", ".join(f"{heading} {entry or '–'}" for heading, entry in said), style="italic")
            yield self._part(kept, widths, options.max_width, rows=list(rows))

    def _part(
        self, kept: Sequence[int], widths: Sequence[int], room: int, *, rows: Iterable[int] = (), header: bool = False
    ) -> Table:
        """The headings, or some rows; all parts have columns of the same widths."""
        chosen = [self.columns[number] for number in kept]
        part = Table(
            *(
                Column(
                    Text(str(column.header)), justify=column.justify, width=min(widths[number], room), overflow="fold"
                )
                for number, column in zip(kept, chosen, strict=True)
            ),
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0), show_header=header,
        )  # fmt: skip
        cells = [list(column.cells) for column in chosen]
        for row in rows:
            part.add_row(*(Text(str(column[row])) for column in cells), style=self.rows[row].style)
        return part


def columns_above(
    widths: Sequence[int], entries: Sequence[Sequence[str]], room: int, *, late: Sequence[int] = ()
) -> list[int]:
    """Which columns to take out so that the others fit ``room``, in their order; those of ``late`` last, one stays.

    Example:
        >>> columns_above([8, 5], [["CLUSTER", "CLUSTER"], ["GCN", "GAT"]], 80)
        []
        >>> columns_above([8, 5], [["CLUSTER", "CLUSTER"], ["GCN", "GAT"]], 12)
        [0]
    """
    above: list[int] = []
    kept = list(range(len(widths)))

    def cost(number: int) -> tuple[bool, int]:
        taken = [entries[column] for column in (*above, number)]
        return number in late, sum(1 for _ in groupby(zip(*taken, strict=True)))

    while len(kept) > 1 and sum(widths[number] + GAP for number in kept) - GAP > room:
        least = min(kept, key=cost)
        kept.remove(least)
        above.append(least)
    return sorted(above)
