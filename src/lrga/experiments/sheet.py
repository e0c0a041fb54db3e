"""A table of words, printed for a terminal or written as Markdown, LaTeX or CSV."""

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from lrga.errors import MissingDependencyError

WIDTH = 100
GAP = 2  # columns of the terminal between two columns of the table
HEADINGS = {"dataset": "data set", "name": "data set", "rank": "κ", "rank/117": "κ/117"}
_LATEX = {"\\": r"\textbackslash{}", "κ": r"$\kappa$", "±": r"$\pm$", "–": "--", "†": r"\dag{}"} | {
    character: "\\" + character for character in "&%$#_{}"
}


class Tabular(ABC):
    """What can be shown as a table, in every form there is."""

    @abstractmethod
    def sheet(self) -> "Sheet":
        """The table as words, with its notes."""

    @abstractmethod
    def to_json(self) -> Any:
        """As JSON values."""

    def flat(self) -> list[dict[str, Any]]:
        """One flat dictionary of plain values for each row; the entries by heading, where there is nothing better."""
        sheet = self.sheet()
        return [dict(zip((heading for heading, _ in sheet.columns), row, strict=True)) for row in sheet.rows]

    def to_text(self) -> str:
        """At most 100 columns wide, without colours."""
        return self.sheet().to_text()

    def to_markdown(self) -> str:
        """For a page."""
        return self.sheet().to_markdown()

    def to_latex(self) -> str:
        """For a paper, with the package booktabs."""
        return self.sheet().to_latex()

    def to_csv(self) -> str:
        """Values in full, with a header."""
        rows, file = self.flat(), StringIO()
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return file.getvalue()

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` of the values in full."""
        try:
            import pandas
        except ImportError as error:
            remedy = "pip install pandas, or use to_csv or to_json"
            raise MissingDependencyError("the package pandas, for a data frame", str(error), remedy) from error
        return pandas.DataFrame(self.flat()).fillna(float("nan")).infer_objects()  # numbers, also where all are missing


@dataclass(frozen=True, kw_only=True)
class Sheet(Tabular):
    """A table of words.

    Attributes:
        title: Above it.
        columns: Their headings, each with whether it holds numbers, which stand right.
        rows: The entries.
        results: Headings of columns that stay beside their row on a narrow terminal as long as any other can go.
        notes: Lines below it.
        bold: The row that stands out, by its number.
        values: The rows as JSON values, where words do not say it all.
    """

    title: str
    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[str, ...], ...]
    results: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    bold: int | None = None
    values: tuple[dict[str, Any], ...] = ()

    def sheet(self) -> "Sheet":
        """Itself."""
        return self

    def to_json(self) -> list[dict[str, Any]]:
        """The values, or the entries by heading."""
        return list(self.values) or self.flat()

    @classmethod
    def of(
        cls, title: str, labels: Sequence[Mapping[str, Any]], headings: Sequence[str], entries: Sequence[Sequence[str]],
        **options: Any,
    ) -> "Sheet":  # fmt: skip
        """A row for each of ``labels``: a column for every label, then columns of numbers named ``headings``."""
        keys = list(dict.fromkeys(key for row in labels for key in row))
        numeric = [all(isinstance(row.get(key), int | float) for row in labels) for key in keys]
        columns = [*zip((HEADINGS.get(key, key) for key in keys), numeric, strict=True), *((h, True) for h in headings)]
        first = [["" if key not in row else value_text(row[key]) for key in keys] for row in labels]
        rows = tuple((*a, *b) for a, b in zip(first, entries, strict=True))
        return cls(title=title, columns=tuple(columns), rows=rows, **options)

    def to_rich(self) -> "SlimTable":
        """For a terminal."""
        table = SlimTable(title=self.title)
        table.results = self.results
        for heading, right in self.columns:
            table.add_column(heading, justify="right" if right else "left", no_wrap=True)
        for number, row in enumerate(self.rows):
            table.add_row(*row, style="bold" if number == self.bold else "")
        return table

    def to_text(self) -> str:
        """At most 100 columns wide, without colours."""
        file = StringIO()
        console = Console(file=file, width=WIDTH, highlight=False, color_system=None)
        console.print(self.to_rich())
        for note in self.notes:
            console.print(note, markup=False)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"

    def to_markdown(self) -> str:
        """For a page: the table, and its notes as a list; the title alone of a table without columns."""
        if not self.columns:
            return f"{self.title}\n"
        lines = ["| " + " | ".join(heading for heading, _ in self.columns) + " |"]
        lines.append("|" + "".join("---:|" if right else "---|" for _, right in self.columns))
        lines += ["| " + " | ".join(_markdown(entry) for entry in row) + " |" for row in self.rows]
        notes = ["", *(f"- {_markdown(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([*lines, *notes]) + "\n"

    def to_latex(self) -> str:
        """For a paper: a ``tabular`` of booktabs; the notes are comments.

        Example:
            >>> sheet = Sheet(title="", columns=(("κ", True),), rows=(("30 ± 1",),))
            >>> sheet.to_latex().splitlines()[4]
            '30 $\\\\pm$ 1 \\\\\\\\'
        """
        kinds = "".join("r" if right else "l" for _, right in self.columns)
        rows = [[heading for heading, _ in self.columns], *self.rows]
        first, *rest = (" & ".join(map(_latex, row)) + r" \\" for row in rows)
        lines = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", first, r"\midrule", *rest, r"\bottomrule"]
        return "\n".join([*(f"% {note}" for note in self.notes), *lines, r"\end{tabular}"])


def value_text(value: Any) -> str:
    """An option's value as one would type it.

    Example:
        >>> value_text(0.0005), value_text(False), value_text(None)
        ('0.0005', 'false', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return " ".join(f"{key}={value_text(entry)}" for key, entry in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


class SlimTable(RichTable):
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

    @classmethod
    def of(cls, *texts: str, numbers: Sequence[str] = (), title: str = "") -> "SlimTable":
        """A table with columns of texts, then of numbers, by their headings."""
        table = cls(title=title)
        for heading in (*texts, *numbers):
            table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
        return table

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
    ) -> RichTable:
        """The headings, or some rows; all parts have columns of the same widths."""
        chosen = [self.columns[number] for number in kept]
        part = RichTable(
            *(
                RichColumn(
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
