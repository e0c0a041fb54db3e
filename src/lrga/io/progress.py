"""Progress of long operations: a callback for builders and downloads, and its display."""

import sys
import time
from collections.abc import Callable

QUIET_SECONDS = 2.0  # shorter operations print nothing
PLAIN_LINE_SECONDS = 10.0  # seconds between two lines


Progress = Callable[[str, int, int | None], None]
"""``progress(label, done, total)``: ``done`` of ``total`` units of the step named ``label`` are finished.

``total`` is ``None`` if unknown. It may be called from any thread, at any rate.
"""


def silent(label: str, done: int, total: int | None) -> None:
    """A progress callback that shows nothing."""
    del label, done, total


class PrintedProgress:
    """A progress callback that prints a line on stderr every ten seconds.

    Example:
        >>> PrintedProgress()("counting", 1, 2)
    """

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
