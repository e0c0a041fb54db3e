"""How the commands print."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def stdout() -> "Console":
    """The console of results: as wide as the terminal, elsewhere ``COLUMNS`` or 100; numbers in no colours."""
    from rich.console import Console

    given = os.environ.get("COLUMNS", "")
    asked = given.isdigit() and int(given) > 0  # rich itself reads it then
    console = Console(highlight=False)
    return console if console.is_terminal or asked else Console(highlight=False, width=100)


def facts_table(rows: Mapping[str, str]) -> "Table":
    """Two columns: what, and its value."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(escape(name), escape(value))
    return table
