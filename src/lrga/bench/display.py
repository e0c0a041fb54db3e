"""Tables of text, at most 100 columns wide."""

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as RichTable

WIDTH = 100
HEADINGS = {"dataset": "data set", "name": "data set", "rank": "κ", "rank/117": "κ/117"}


def slim_table(title: str, *, results: Sequence[str] = ()) -> "RichTable":
    """A table without lines but the one below its headings, whole on any terminal; ``results`` stay in their rows."""
    from lrga.bench.slim_table import SlimTable

    table = SlimTable(title=title)
    table.results = frozenset(results)
    return table


def label_columns(table: "RichTable", labels: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Adds a column for every label and returns the entries of each row."""
    keys = list(dict.fromkeys(key for row in labels for key in row))
    for key in keys:
        numbers = all(isinstance(row.get(key), int | float) for row in labels)
        table.add_column(HEADINGS.get(key, key), justify="right" if numbers else "left", no_wrap=True)
    return [[value_text(row.get(key)) for key in keys] for row in labels]


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


def plain_text(table: "RichTable", notes: Sequence[str]) -> str:
    """The table and its notes, without colours."""
    from rich.console import Console

    file = StringIO()
    console = Console(file=file, width=WIDTH, highlight=False, color_system=None)
    console.print(table)
    for note in notes:
        console.print(note, markup=False)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
