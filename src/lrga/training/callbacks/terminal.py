"""Live progress on stderr: one line that moves on a terminal, plain lines elsewhere."""

import sys
import time
from datetime import timedelta
from typing import Any

from lrga.errors import visible
from lrga.tasks.task import number_format
from lrga.training.callbacks.events import EpochRecord, Listener, RunFacts

LINE_SECONDS = 2.0  # between two plain lines of epochs
BATCH_LINE_SECONDS = 30.0  # between two plain lines within an epoch


def progress_display(label: str = "") -> Listener:
    """A display that fits where stderr goes.

    Args:
        label: Put before every line, to tell several runs apart.
    """
    return LiveProgress(label) if sys.stderr.isatty() else PlainProgress(label)


def time_left(done: int, total: int, seconds: float) -> str:
    """What is left of ``total`` epochs at most, given the ``seconds`` that ``done`` took; the schedule may end sooner.

    Example:
        >>> time_left(10, 1000, 20.0)
        'at most 0:33:00 left'
    """
    if done == 0:
        return ""
    return f"at most {timedelta(seconds=round(seconds / done * (total - done)))} left"


def epoch_line(record: EpochRecord, facts: RunFacts, left: str) -> str:
    """One epoch in words."""
    metric = facts.task.metric_facts
    kind, loss = number_format(record.val_metric, metric.decimals), number_format(record.train_loss, 4)
    return (
        f"epoch {record.epoch}/{facts.config.optimizer.max_epochs}  loss {record.train_loss:{loss}}, "
        f"val {record.val_loss:{loss}}  {metric.name}: val {record.val_metric:{kind}}, test {record.test_metric:{kind}}"
        f"  lr {record.lr:.1e}  {record.seconds:.1f} s" + (f"  {left}" if left else "")
    )


class PlainProgress(Listener):
    """A line for an epoch, at most every two seconds; for the first and the last always."""

    def __init__(self, label: str = "") -> None:
        self._label = f"{label}: " if label else ""
        self._facts: RunFacts | None = None
        self._last_line, self._last_batch_line = 0.0, time.monotonic()
        self._unprinted: EpochRecord | None = None

    def started(self, facts: RunFacts) -> None:
        self._facts = facts
        graphs = "/".join(f"{count:,}" for count in facts.graphs.values())
        begin = f"continues after epoch {facts.epoch}, " if facts.epoch or facts.batch else ""
        self._print(
            f"{begin}{facts.parameters:,} parameters, {graphs} {facts.unit}, on {facts.device}, in {facts.folder}"
        )
        for note in facts.notes:
            self._print(f"data: {note}")

    def noted(self, text: str) -> None:
        self._print(text)

    def batch_done(self, epoch: int, batch: int, batches: int) -> None:
        now = time.monotonic()
        if now - self._last_batch_line >= BATCH_LINE_SECONDS and batch < batches:
            self._last_batch_line = now
            self._print(f"{f'epoch {epoch}' if epoch else 'preparing'}: batch {batch} of {batches}")

    def epoch_done(self, record: EpochRecord) -> None:
        self._last_batch_line = now = time.monotonic()
        self._unprinted = record
        if now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._print_epoch()

    def stopped(self, reason: str) -> None:
        self._print_epoch()

    def _print_epoch(self) -> None:
        record, facts = self._unprinted, self._facts
        if record is not None and facts is not None:
            left = time_left(record.epoch, facts.config.optimizer.max_epochs, record.elapsed)
            self._print(epoch_line(record, facts, left))
            self._unprinted = None

    def _print(self, text: str) -> None:
        print(visible(self._label + text), file=sys.stderr, flush=True)


class LiveProgress(Listener):
    """A bar over the batches of the epoch, and below it the numbers of the last epoch and the time left."""

    def __init__(self, label: str = "") -> None:
        self._label = f"{label}: " if label else ""
        self._facts: RunFacts | None = None
        self._live: Any = None
        self._bars: Any = None
        self._task: Any = None

    def started(self, facts: RunFacts) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._facts = facts
        self._bars = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn()
        )
        self._task = self._bars.add_task(self._title(facts.epoch + 1), total=facts.batches, completed=facts.batch)
        console = Console(stderr=True)
        for note in facts.notes:
            console.print(visible(f"{self._label}data: {note}"), markup=False, highlight=False)
        self._live = Live(self._bars, console=console, transient=True)
        self._live.start()

    def noted(self, text: str) -> None:
        if self._live is None:  # before the bars are there
            print(visible(self._label + text), file=sys.stderr, flush=True)
        else:
            self._live.console.print(visible(self._label + text), markup=False, highlight=False)

    def batch_done(self, epoch: int, batch: int, batches: int) -> None:
        if self._live is not None:
            self._bars.update(self._task, completed=batch, total=batches, description=self._title(epoch))

    def evaluating(self, epoch: int) -> None:
        if self._live is not None:
            self._bars.update(self._task, description=f"{self._title(epoch)}, evaluating")

    def epoch_done(self, record: EpochRecord) -> None:
        if self._live is None or self._facts is None:
            return
        from rich.console import Group
        from rich.text import Text

        left = time_left(record.epoch, self._facts.config.optimizer.max_epochs, record.elapsed)
        self._live.update(Group(self._bars, Text(epoch_line(record, self._facts, left), style="dim")), refresh=True)

    def closed(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _title(self, epoch: int) -> str:
        total = 0 if self._facts is None else self._facts.config.optimizer.max_epochs
        return f"{self._label}epoch {epoch}/{total}" if epoch else f"{self._label}preparing"
