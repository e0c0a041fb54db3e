"""Live progress of several runs at once: a line for each on a terminal, labelled plain lines elsewhere."""

import sys
from collections.abc import Sequence
from typing import Any

from lrga.tasks.task import number_format
from lrga.training.callbacks.events import EpochRecord, Listener, RunFacts
from lrga.training.callbacks.terminal import PlainProgress, progress_display


def progress_displays(labels: Sequence[str]) -> list[Listener]:
    """A display for each of several runs, by their labels."""
    if len(labels) == 1:
        return [progress_display(labels[0])]
    if not sys.stderr.isatty():
        return [PlainProgress(label) for label in labels]
    board = Board()
    return [BoardLine(board, label) for label in labels]


class Board:
    """The bars of several runs in one place; shown while any of them runs."""

    def __init__(self) -> None:
        self._bars: Any = None
        self._open: set[int] = set()

    def add(self, text: str, total: int, done: int) -> int:
        """A new bar; returns its number."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        if self._bars is None:
            columns = (TextColumn("{task.description}"), BarColumn(16), MofNCompleteColumn(), TimeElapsedColumn())
            self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bars.start()
        number = int(self._bars.add_task(text, total=total, completed=done))
        self._open.add(number)
        return number

    def update(self, number: int, **values: Any) -> None:
        """Changes a bar: ``completed``, ``description``."""
        if number in self._open:
            self._bars.update(number, **values)

    def say(self, text: str) -> None:
        """A line above the bars."""
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)

    def close(self, number: int) -> None:
        """The run of a bar is over; with the last one the bars go."""
        self._open.discard(number)
        if not self._open and self._bars is not None:
            self._bars.stop()
            self._bars = None


class BoardLine(Listener):
    """A run on a :class:`Board`."""

    def __init__(self, board: Board, label: str) -> None:
        self._board, self._label = board, label
        self._facts: RunFacts | None = None
        self._number: int | None = None
        self._numbers = ""

    def started(self, facts: RunFacts) -> None:
        self._facts = facts
        self._number = self._board.add(self._title(facts.epoch + 1), facts.batches, facts.batch)
        for note in facts.notes:
            self._board.say(f"{self._label}: data: {note}")

    def noted(self, text: str) -> None:
        self._board.say(f"{self._label}: {text}")

    def batch_done(self, epoch: int, batch: int, batches: int) -> None:
        if self._number is not None:
            self._board.update(self._number, completed=batch, total=batches, description=self._title(epoch))

    def epoch_done(self, record: EpochRecord) -> None:
        if self._facts is not None:
            decimals = self._facts.task.metric_facts.decimals
            loss, test = record.train_loss, record.test_metric
            self._numbers = f" loss {loss:{number_format(loss, 4)}} test {test:{number_format(test, decimals)}}"

    def closed(self) -> None:
        if self._number is not None:
            self._board.close(self._number)
            self._number = None

    def _title(self, epoch: int) -> str:
        total = 0 if self._facts is None else self._facts.config.optimizer.max_epochs
        return f"{self._label} epoch {epoch}/{total}{self._numbers}" if epoch else f"{self._label} preparing"
