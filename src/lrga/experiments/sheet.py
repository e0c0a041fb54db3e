"""A table of strings, printed on a terminal or written as Markdown, LaTeX or CSV."""

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
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from lrga.errors import MissingDependencyError

WIDTH = 100
GAP = 2  # columns of the terminal between two columns of the table
HEADINGS = {"dataset": "data set", "name": "data set", "rank": "κ", "rank/117": "κ/117"}
_LATEX: dict[int, str] = str.maketrans({  # at the start of a row, [ and * would be arguments of the \\\\ before it
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "*": "{*}", "κ": r"$\kappa$", "±": r"$\pm$",
    "–": "--", "−": "$-$", "≤": r"$\le$", "†": r"\dag{}", "\n": " ", **{c: "\\" + c for c in "&%$#_{}"},
})  # fmt: skip


class Tabular(ABC):
    """Base class of everything that can be shown as a table, in all formats."""

    @abstractmethod
    def sheet(self) -> "Sheet":
        """The table as strings, with its notes."""

    @abstractmethod
    def to_json(self) -> Any:
        """The table as JSON values."""

    def flat(self) -> list[dict[str, Any]]:
        """One flat dictionary of plain values per row; by default the entries by heading."""
        sheet = self.sheet()
        return [dict(zip((heading for heading, _ in sheet.columns), row, strict=True)) for row in sheet.rows]

    def to_text(self) -> str:
        """The table as plain text, at most 100 columns wide."""
        file = StringIO()
        Console(file=file, width=WIDTH, highlight=False, color_system=None).print(self.sheet())
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"

    def to_markdown(self) -> str:
        """Markdown: the table, then its notes as a list; only the title if there are no columns."""
        sheet = self.sheet()
        if not sheet.columns:
            return f"{sheet.title}\n"
        lines = ["| " + " | ".join(_markdown(heading) for heading, _ in sheet.columns) + " |"]
        lines.append("|" + "".join("---:|" if right else "---|" for _, right in sheet.columns))
        lines += ["| " + " | ".join(_markdown(entry) for entry in row) + " |" for row in sheet.rows]
        notes = ["", *(f"- {_markdown(note)}" for note in sheet.notes)] if sheet.notes else []
        return "\n".join([*lines, *notes]) + "\n"

    def to_latex(self) -> str:
        """LaTeX: a ``tabular`` of booktabs; the notes are comments.

        Example:
            >>> sheet = Sheet(title="", columns=(("κ", True),), rows=(("30 ± 1",),))
            >>> sheet.to_latex().splitlines()[4]
            '30 $\\\\pm$ 1 \\\\\\\\'
        """
        sheet = self.sheet()
        kinds = "".join("r" if right else "l" for _, right in sheet.columns)
        rows = [[heading for heading, _ in sheet.columns], *sheet.rows]
        first, *rest = (" & ".join(entry.translate(_LATEX) for entry in row) + r" \\" for row in rows)
        lines = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", first, r"\midrule", *rest, r"\bottomrule"]
        return "\n".join([*("% " + " ".join(note.split()) for note in sheet.notes), *lines, r"\end{tabular}", ""])

    def to_csv(self) -> str:
        """The table as CSV: unrounded values with a header."""
        rows, file = self.flat(), StringIO()
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return file.getvalue()

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` of the unrounded values."""
        try:
            import pandas
        except ImportError as error:
            remedy = "pip install pandas, or use to_csv or to_json"
            raise MissingDependencyError("the package pandas, for a data frame", str(error), remedy) from error
        return pandas.DataFrame(self.flat()).fillna(float("nan")).infer_objects()  # numeric even if all are missing


@dataclass(frozen=True, kw_only=True)
class Sheet(Tabular):
    """A table of strings, with a line below its headings only; rich prints it, and cuts or wraps no name or number.

    If the columns together are wider than the terminal, columns are removed until the others fit: first those wider
    than two thirds of the terminal, then the one whose entries change least often from row to row; columns whose
    headings are in ``results`` last. A removed column is printed above the rows that share its value; a wide one with
    several values, and those right of it, below each row.

    Attributes:
        title: Title above the table.
        columns: Headings, each with whether the column holds numbers (aligned right).
        rows: The entries of each row.
        results: Headings of columns that are removed last.
        notes: Lines below the table.
        bold: Index of the row in bold, if any.
        values: The rows as JSON values, if the strings are not enough.

    Example:
        >>> rows = (("CLUSTER", "GCN"), ("CLUSTER", "LRGA + GCN"))
        >>> sheet = Sheet(title="Results", columns=(("data set", False), ("model", False)), rows=rows)
        >>> Console(width=18, color_system=None).print(sheet)
        Results
        model
        ──────────
        data set: CLUSTER
        GCN
        LRGA + GCN
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
        """The values, or else the entries by heading."""
        return list(self.values) or self.flat()

    @classmethod
    def of(
        cls, title: str, labels: Sequence[Mapping[str, Any]], headings: Sequence[str], entries: Sequence[Sequence[str]],
        **options: Any,
    ) -> "Sheet":  # fmt: skip
        """One row for each of ``labels``: a column for every label, then number columns named ``headings``."""
        keys = list(dict.fromkeys(key for row in labels for key in row))
        numeric = [all(isinstance(row.get(key), int | float) for row in labels) for key in keys]
        columns = [*zip((HEADINGS.get(key, key) for key in keys), numeric, strict=True), *((h, True) for h in headings)]
        first = [["" if key not in row else value_text(row[key]) for key in keys] for row in labels]
        rows = tuple((*a, *b) for a, b in zip(first, entries, strict=True))
        return cls(title=title, columns=tuple(columns), rows=rows, **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        entries = [[row[number] for row in self.rows] for number in range(len(self.columns))]
        headings = [heading for heading, _ in self.columns]
        widths = [max(map(cell_len, (heading, *cells))) for heading, cells in zip(headings, entries, strict=True)]
        late = [number for number, heading in enumerate(headings) if heading in self.results]
        above = columns_above(widths, entries, options.max_width, late=late)
        kept = [number for number in range(len(widths)) if number not in above]
        texts = (n for n in above if _is_wide(widths[n], options.max_width) and len(set(entries[n])) > 1)
        wide = min(texts, default=len(widths))
        above, below = [n for n in above if n < wide], [n for n in above if n >= wide]
        widths = [min(width, options.max_width) for width in widths]
        if self.title:
            yield Text(self.title, style="bold")
        yield self._part(kept, widths, header=True)

        def words(numbers: Sequence[int], row: int) -> str:
            return ", ".join(f"{headings[number]}: {entries[number][row] or '–'}" for number in numbers)

        for said, rows in groupby(range(len(self.rows)), key=lambda row: words(above, row)):
            if said:
                yield Text(said, style="italic")
            for part in [[row] for row in rows] if below else [list(rows)]:
                yield self._part(kept, widths, rows=part)
                for number in below:
                    yield Padding(Text(words([number], part[0]), style="italic"), (0, 0, 0, GAP))
        yield from map(Text, self.notes)

    def _part(
        self, kept: Sequence[int], widths: Sequence[int], *, rows: Iterable[int] = (), header: bool = False
    ) -> RichTable:
        """Formats the headings or some rows; all parts have the same column widths."""
        part = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0),
                         show_header=header)  # fmt: skip
        for number in kept:
            heading, right = self.columns[number]
            justify: Any = "right" if right else "left"
            part.add_column(Text(heading), justify=justify, width=widths[number], overflow="fold")
        for row in rows:
            part.add_row(*(Text(self.rows[row][number]) for number in kept), style="bold" * (row == self.bold))
        return part


def value_text(value: Any) -> str:
    """The value of an option as typed on the command line.

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
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _is_wide(width: int, room: int) -> bool:
    """Whether a column is text rather than a name or number."""
    return width > max(40, room * 2 / 3)


def columns_above(
    widths: Sequence[int], entries: Sequence[Sequence[str]], room: int, *, late: Sequence[int] = ()
) -> list[int]:
    """Indices of the columns to remove so that the others fit ``room``; those of ``late`` last, one stays.

    Example:
        >>> columns_above([8, 5], [["CLUSTER", "CLUSTER"], ["GCN", "GAT"]], 80)
        []
        >>> columns_above([8, 5], [["CLUSTER", "CLUSTER"], ["GCN", "GAT"]], 12)
        [0]
    """
    above: list[int] = []
    kept = list(range(len(widths)))

    def cost(number: int) -> tuple[bool, bool, int]:
        taken = [entries[column] for column in (*above, number)]
        return number in late, not _is_wide(widths[number], room), sum(1 for _ in groupby(zip(*taken, strict=True)))

    while len(kept) > 1 and sum(widths[number] + GAP for number in kept) - GAP > room:
        least = min(kept, key=cost)
        kept.remove(least)
        above.append(least)
    return sorted(above)
