"""Progress on stderr: one line per epoch and, on a terminal, a line that updates with the batches."""

import sys
import time
from datetime import timedelta

from lrga.errors import visible
from lrga.tasks.task import number_format
from lrga.training.callbacks.base import Callback, EpochRecord, RunFacts

LINE_SECONDS = 2.0  # seconds between two epoch lines
BATCH_LINE_SECONDS = 30.0  # seconds between two lines within an epoch
MOVING_LINE_SECONDS = 0.1  # seconds between two updates of the line on a terminal
_ERASE = "\r\x1b[K"


def time_left(done: int, total: int, seconds: float) -> str:
    """The time left for at most ``total`` epochs, if ``done`` took ``seconds``; the schedule may end earlier.

    Example:
        >>> time_left(10, 1000, 20.0)
        'at most 0:33:00 left'
    """
    if done == 0:
        return ""
    return f"at most {timedelta(seconds=round(seconds / done * (total - done)))} left"


class ProgressDisplay(Callback):
    """Prints a line per epoch, at most every two seconds, always for the first and last. Lines begin with ``label``."""

    def __init__(self, label: str = "") -> None:
        self._label = f"{label}: " if label else ""
        self._facts: RunFacts | None = None
        self._moves = sys.stderr.isatty()
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
        wait = MOVING_LINE_SECONDS if self._moves else BATCH_LINE_SECONDS
        if now - self._last_batch_line >= wait and batch < batches:
            self._last_batch_line = now
            self._print(f"{f'epoch {epoch}' if epoch else 'preparing'}: batch {batch} of {batches}", stays=False)

    def on_epoch_end(self, record: EpochRecord) -> None:
        self._last_batch_line = now = time.monotonic()
        self._unprinted = record
        if now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._print_epoch()

    def on_end(self, reason: str) -> None:
        self._print_epoch()

    def on_close(self) -> None:
        if self._moves:
            print(_ERASE, end="", file=sys.stderr, flush=True)

    def _print_epoch(self) -> None:
        record, facts = self._unprinted, self._facts
        if record is None or facts is None:
            return
        self._unprinted, epochs, metric = None, facts.config.optimizer.max_epochs, facts.task.metric_facts
        kind, loss = number_format(record.val_metric, metric.decimals), number_format(record.train_loss, 4)
        self._print(
            f"epoch {record.epoch}/{epochs}  loss {record.train_loss:{loss}}, val {record.val_loss:{loss}}  "
            f"{metric.name}: val {record.val_metric:{kind}}, test {record.test_metric:{kind}}  lr {record.lr:.1e}  "
            f"{record.seconds:.1f} s  {time_left(record.epoch, epochs, record.elapsed)}"
        )

    def _print(self, text: str, *, stays: bool = True) -> None:
        begin, end = (_ERASE, "\n" if stays else "") if self._moves else ("", "\n")
        print(begin + visible(self._label + text), end=end, file=sys.stderr, flush=True)
