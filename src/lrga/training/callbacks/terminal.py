"""Live progress on stderr: one line that moves on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from lrga.errors import visible
from lrga.tasks.task import number_format
from lrga.training.callbacks.base import Callback, EpochRecord, RunFacts

LINE_SECONDS = 2.0  # between two plain lines of epochs
BATCH_LINE_SECONDS = 30.0  # between two plain lines within an epoch


def progress_display(label: str = "") -> Callback:
    """A display of one run that fits where stderr goes; ``label`` is put before every line."""
    return progress_displays([label])[0]


def progress_displays(labels: Sequence[str]) -> list[Callback]:
    """A display for each of several runs, by their labels; on a terminal they share it."""
    if not sys.stderr.isatty():
        return [PlainProgress(label) for label in labels]
    board = Board()
    return [LiveProgress(label, board) for label in labels]


def time_left(done: int, total: int, seconds: float) -> str:
    """What is left of ``total`` epochs at most, given the ``seconds`` that ``done`` took; the schedule may end sooner.

    Example:
        >>> time_left(10, 1000, 20.0)
        'at most 0:33:00 left'
    """
    if done == 0:
        return ""
    return f"at most {timedelta(seconds=round(seconds / done * (total - done)))} left"


def epoch_line(record: EpochRecord, facts: RunFacts) -> str:
    """One epoch in words, with the time left."""
    left = time_left(record.epoch, facts.config.optimizer.max_epochs, record.elapsed)
    metric = facts.task.metric_facts
    kind, loss = number_format(record.val_metric, metric.decimals), number_format(record.train_loss, 4)
    return (
        f"epoch {record.epoch}/{facts.config.optimizer.max_epochs}  loss {record.train_loss:{loss}}, "
        f"val {record.val_loss:{loss}}  {metric.name}: val {record.val_metric:{kind}}, test {record.test_metric:{kind}}"
        f"  lr {record.lr:.1e}  {record.seconds:.1f} s  {left}"
    )


class PlainProgress(Callback):
    """A line for an epoch, at most every two seconds; for the first and the last always."""

    def __init__(self, label: str = "") -> None:
        self._label = f"{label}: " if label else ""
        self._facts: RunFacts | None = None
        self._last_line, self._last_batch_line = 0.0, time.monotonic()
        self._unprinted: EpochRecord | None = None

    def on_start(self, facts: RunFacts) -> None:
        self._facts = facts
        graphs = "/".join(f"{count:,}" for count in facts.graphs.values())
        begin = f"continues after epoch {facts.epoch}, " if facts.epoch or facts.batch else ""
        self._print(
            f"{begin}{facts.parameters:,} parameters, {graphs} {facts.unit}, on {facts.device}, in {facts.folder}"
        )
        for note in facts.notes:
            self._print(f"data: {note}")

    def on_log(self, text: str) -> None:
        self._print(text)

    def on_batch_end(self, epoch: int, batch: int, batches: int) -> None:
        now = time.monotonic()
        if now - self._last_batch_line >= BATCH_LINE_SECONDS and batch < batches:
            self._last_batch_line = now
            self._print(f"{f'epoch {epoch}' if epoch else 'preparing'}: batch {batch} of {batches}")

    def on_epoch_end(self, record: EpochRecord) -> None:
        self._last_batch_line = now = time.monotonic()
        self._unprinted = record
        if now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._print_epoch()

    def on_end(self, reason: str) -> None:
        self._print_epoch()

    def _print_epoch(self) -> None:
        record, facts = self._unprinted, self._facts
        if record is not None and facts is not None:
            self._print(epoch_line(record, facts))
            self._unprinted = None

    def _print(self, text: str) -> None:
        print(visible(self._label + text), file=sys.stderr, flush=True)


class Board:
    """Bars of several runs with the numbers of their last epochs below; shown while any of them runs."""

    def __init__(self) -> None:
        self._bars: Any = None  # rich's, while a run is shown

    def open(self, title: str, total: int, done: int) -> int:
        """A new bar; returns its number."""
        if self._bars is None:
            self._bars = _bars()
            self._bars.start()
        return int(self._bars.add_task(title, total=total, completed=done, line=""))

    def update(self, number: int, **values: Any) -> None:
        """Changes a bar: ``completed``, ``total``, ``description``, and the ``line`` of numbers below the bars."""
        if self._bars is not None and number in self._bars.task_ids:
            self._bars.update(number, **values, refresh="line" in values)

    def print(self, text: str) -> None:
        """A line above the bars."""
        if self._bars is None:
            print(visible(text), file=sys.stderr, flush=True)
        else:
            self._bars.console.print(visible(text), markup=False, highlight=False)

    def close(self, number: int) -> None:
        """The run of a bar is over; with the last one the bars go."""
        if self._bars is not None and number in self._bars.task_ids:
            self._bars.remove_task(number)
            if not self._bars.task_ids:
                self._bars.stop()
                self._bars = None


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Bars(Progress):
        def get_renderables(self) -> Iterator[Any]:
            yield self.make_tasks_table(self.tasks)
            yield from (Text(task.fields["line"], style="dim") for task in self.tasks if task.fields["line"])

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
    return Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)


class LiveProgress(Callback):
    """A bar over the batches of the epoch, and below it the numbers of the last epoch and the time left."""

    def __init__(self, label: str = "", board: Board | None = None) -> None:
        self._label, self._board = f"{label}: " if label else "", board or Board()
        self._facts: RunFacts | None = None
        self._number = -1

    def on_start(self, facts: RunFacts) -> None:
        self._facts = facts
        self._number = self._board.open(self._title(facts.epoch + 1), facts.batches, facts.batch)
        for note in facts.notes:
            self.on_log(f"data: {note}")

    def on_log(self, text: str) -> None:
        self._board.print(self._label + text)

    def on_batch_end(self, epoch: int, batch: int, batches: int) -> None:
        self._board.update(self._number, completed=batch, total=batches, description=self._title(epoch))

    def on_evaluation_start(self, epoch: int) -> None:
        self._board.update(self._number, description=f"{self._title(epoch)}, evaluating")

    def on_epoch_end(self, record: EpochRecord) -> None:
        if self._facts is not None:
            self._board.update(self._number, line=self._label + epoch_line(record, self._facts))

    def on_close(self) -> None:
        self._board.close(self._number)

    def _title(self, epoch: int) -> str:
        total = 0 if self._facts is None else self._facts.config.optimizer.max_epochs
        return f"{self._label}epoch {epoch}/{total}" if epoch else f"{self._label}preparing"
