"""A table of the paper as the records have it: ours, the paper's, how far apart, and what is missing."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrga.bench.claims import PARTS
from lrga.bench.display import HEADINGS, label_columns, slim_table, value_text
from lrga.bench.gathering import gather_records, rows_of
from lrga.bench.records import DIVERGED, FAILED, FINISHED, TIME_LIMITED
from lrga.bench.study import Study
from lrga.bench.tables import CampaignTable, Row

if TYPE_CHECKING:
    from rich.table import Table as RichTable

PAPER_SEEDS = {1: 4, 2: 10, 3: 4}  # of each of the paper's tables
DRAWN = "†"


def standard_errors(row: Row) -> float | None:
    """How many pooled standard errors ours lies above the paper's; ``None`` without both.

    With n runs of ours and m of the paper's: s² = ((n − 1) s₁² + (m − 1) s₂²) / (n + m − 2), and the difference is
    divided by s √(1/n + 1/m). One run of ours has no deviation; s is then the paper's.
    """
    ours, published = row.spread(), row.cell.published
    if ours is None or published is None:
        return None
    n, m = ours.n, PAPER_SEEDS[published.table]
    squares = (n - 1) * (ours.std or 0.0) ** 2 + (m - 1) * published.std**2
    error = math.sqrt(squares / (n + m - 2)) * math.sqrt(1 / n + 1 / m)
    return None if error == 0 else (ours.mean - published.mean) / error


@dataclass(frozen=True, kw_only=True)
class RecordTable(CampaignTable):
    """What :func:`record_table` returns.

    Attributes:
        detailed: Whether the best epoch in validation and training stand beside the last epoch's test.
        hidden: Cells without finished runs that are not shown.
        brief: Whether the notes say only what nobody should miss.
    """

    detailed: bool = False
    hidden: int = 0
    brief: bool = False

    @property
    def done(self) -> tuple[int, int]:
        """Cells with at least one finished run, and cells."""
        return sum(bool(row.finished) for row in self.rows), len(self.rows) + self.hidden

    @property
    def notes(self) -> list[str]:
        """What one must know to read the numbers."""
        done, cells = self.done
        runs = sum(len(row.finished) for row in self.rows)
        lines = [f"{done} of {cells} cells have finished runs, {runs} runs in all."]
        general, tail = super().notes if self.rows else [], ("continues", "not begun")
        if self.brief:  # a mean over the runs that went well says so
            general = [note for note in general if f" {DIVERGED}: " in note or f" {FAILED}: " in note]
        lines += [note for note in general if not any(word in note for word in tail)]
        if any(_drawn(row) for row in self.rows):
            lines.append(f"{DRAWN} made with generated data: a fresh draw of the published recipe.")
        if self.brief:
            return [*lines, "SE: the difference in pooled standard errors."]
        lines.append(
            "SE: difference in pooled standard errors (the paper's four seeds, ten in Table 2; where we have one seed, "
            "its deviation is taken to be the paper's). Seconds are a run's own, also where several shared the GPU."
        )
        return lines

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_json()
        for entry, row in zip(values["rows"], self.rows, strict=True):
            train = row.spread(key="train_metric")
            entry |= {
                "standard_errors": standard_errors(row),
                "generated_data": _drawn(row),
                "train": None if train is None else train.mean,
                "state": _state(row),
            }
        done, cells = self.done
        return values | {"cells": cells, "cells_done": done}

    def to_rich(self) -> "RichTable":
        """For a terminal."""
        headings = self._headings()
        table = slim_table(self.title, results=headings)
        labels = label_columns(table, [row.cell.labels for row in self.rows])
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for first, row in zip(labels, self.rows, strict=True):
            table.add_row(*first, *self._entries(row))
        return table

    def to_markdown(self) -> str:
        """For a page: the table and its notes."""
        if not self.rows:
            return f"No cell of {self.hidden} has finished runs yet.\n"
        keys = list(dict.fromkeys(key for row in self.rows for key in row.cell.labels))
        headings = [*(HEADINGS.get(key, key) for key in keys), *self._headings()]
        lines = ["| " + " | ".join(headings) + " |"]
        lines.append("|" + "---|" * len(keys) + "---:|" * len(self._headings()))
        for row in self.rows:
            first = ["" if key not in row.cell.labels else value_text(row.cell.labels[key]) for key in keys]
            lines.append("| " + " | ".join([*first, *self._entries(row)]) + " |")
        return "\n".join([*lines, "", *(f"- {_escaped(note)}" for note in self.notes)]) + "\n"

    def _headings(self) -> tuple[str, ...]:
        more = ("best epoch", "train") if self.detailed else ()
        return ("ours", "n", *more, "paper", "diff", "SE", "s/run")

    def _entries(self, row: Row) -> list[str]:
        decimals, ours, published = row.metric.decimals, row.spread(), row.cell.published
        shown = [_state(row) if ours is None else ours.text(decimals) + (f" {DRAWN}" if _drawn(row) else "")]
        shown.append("" if ours is None else str(ours.n))
        if self.detailed:
            for spread in (row.spread("best"), row.spread(key="train_metric")):
                shown.append("" if spread is None else f"{spread.mean:.{decimals}f}")
        shown.append("" if published is None else published.text(decimals))
        shown.append("" if row.difference is None else f"{row.difference:+.{decimals}f}")
        errors, seconds = standard_errors(row), row.mean_of("seconds")
        shown.append("" if errors is None else f"{errors:+.1f}")
        shown.append("" if seconds is None else f"{seconds:,.0f}")
        return shown


def _drawn(row: Row) -> bool:
    """Whether the runs that are averaged were made with graphs that are not the published files."""
    return any(record.data.get("note") for record in row.finished)


def _state(row: Row) -> str:
    """How a cell without a number stands."""
    for status, words in ((FINISHED, "done"), (DIVERGED, "diverged"), (FAILED, "failed"), (TIME_LIMITED, "paused")):
        if any(outcome.status == status for outcome in row.outcomes):
            return words
    return "not yet run"


def _escaped(note: str) -> str:
    return note.replace("|", "\\|").replace("<", "&lt;")


def record_table(
    study: Study,
    folders: Iterable[str | Path],
    *,
    detailed: bool = False,
    done: bool = False,
    seeds: Collection[int] | None = None,
) -> RecordTable:
    """The table of a study from the records below some folders; nothing is trained.

    Args:
        study: Of :func:`lrga.bench.reproduction.reproduction`.
        folders: Searched with all that is below them.
        detailed: Whether the best epoch in validation and training stand beside the last epoch's test.
        done: Whether only cells with finished runs are shown, with few notes.
        seeds: Only records of these; by default of all seeds that were run.

    Example:
        >>> import tempfile
        >>> from lrga.bench.reproduction import reproduction
        >>> table = record_table(reproduction("rank"), [tempfile.mkdtemp()])
        >>> table.done, "not yet run" in table.to_markdown()
        ((0, 10), True)
    """
    landed = [entry for entry in gather_records(folders) if seeds is None or entry.record.seed in seeds]
    rows: Sequence[Row] = rows_of(study.cells, landed)
    shown = tuple(row for row in rows if row.finished or not done)
    return RecordTable(title=study.title, rows=shown, detailed=detailed, hidden=len(rows) - len(shown), brief=done)


def record_tables(
    study: Study, folders: Iterable[str | Path], *, done: bool = False, seeds: Collection[int] | None = None
) -> list[RecordTable]:
    """As :func:`record_table`; a study of several parts has a table for each, with more columns."""
    parts = list(dict.fromkeys(cell.labels.get("part") for cell in study.cells))
    if parts == [None]:
        detailed = any("variant" in cell.labels for cell in study.cells) or study.title == PARTS["epochs"].question
        return [record_table(study, folders, detailed=detailed, done=done, seeds=seeds)]
    tables = []
    for part in parts:
        own = [cell for cell in study.cells if cell.labels.get("part") == part]
        plain = [replace(cell, labels={k: v for k, v in cell.labels.items() if k != "part"}) for cell in own]
        title = PARTS[str(part)].question
        of_part = replace(study, title=title, cells=tuple(plain))
        tables.append(record_table(of_part, folders, detailed=True, done=done, seeds=seeds))
    return tables
