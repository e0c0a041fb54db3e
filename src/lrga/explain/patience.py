"""A word now and then from work that takes long."""

import sys
import time
from collections.abc import Callable

Say = Callable[[str], None]


def to_stderr(text: str) -> None:
    """Where progress goes."""
    print(text, file=sys.stderr, flush=True)


class Patience:
    """Passes on what it is told at most once in ``seconds``, and nothing of work that is done sooner.

    Example:
        >>> told = []
        >>> patience = Patience(told.append, seconds=0.0)
        >>> patience("half of it")
        >>> told
        ['half of it']
    """

    def __init__(self, say: Say | None, *, seconds: float = 2.0) -> None:
        self._say, self._seconds, self._last = say, seconds, time.monotonic()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if self._say is not None and now - self._last >= self._seconds:
            self._last = now
            self._say(text)
