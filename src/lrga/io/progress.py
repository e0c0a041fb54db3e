"""Progress of what takes long: a callback that builders and downloads call, and two ways to show it."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

QUIET_SECONDS = 2.0  # what is over before this shows nothing
PLAIN_LINE_SECONDS = 10.0  # between two lines where there is no terminal


class Progress(Protocol):
    """``progress(label, done, total)``: ``done`` of ``total`` units of the step named ``label`` are finished.

    ``total`` is ``None`` where it is not known. Callable from any thread, as often as one likes.
    """

    def __call__(self, label: str, done: int, total: int | None) -> None: ...


def silent(label: str, done: int, total: int | None) -> None:
    """A progress that shows nothing."""
    del label, done, total


@contextmanager
def show_progress() -> Iterator[Progress]:
    """A progress shown on stderr: live bars on a terminal, a plain line now and then elsewhere.

    Example:
        >>> with show_progress() as progress:
        ...     progress("counting", 1, 2)
    """
    if sys.stderr.isatty():
        with _bars() as progress:
            yield progress
    else:
        yield _PlainLines()


class _PlainLines:
    def __init__(self) -> None:
        self._start: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def __call__(self, label: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        start = self._start.setdefault(label, now)
        last = self._last.setdefault(label, now - PLAIN_LINE_SECONDS + QUIET_SECONDS)
        if now - last >= PLAIN_LINE_SECONDS and done != total:
            self._last[label] = now
            of = f" of {total:,}" if total is not None else ""
            print(f"{label}: {done:,}{of} after {now - start:.0f} s", file=sys.stderr, flush=True)


@contextmanager
def _bars() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, int] = {}

        def progress(label: str, done: int, total: int | None) -> None:
            if label not in tasks:
                tasks[label] = bars.add_task(label, total=total)
            bars.update(tasks[label], completed=done, total=total)  # type: ignore[arg-type]

        yield progress
