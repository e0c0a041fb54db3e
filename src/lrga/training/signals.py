"""Ctrl-C and the system's request to end, answered between two batches."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = ("SIGINT", "SIGTERM")


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop, and did, after writing a checkpoint; the message says how to continue.

    Args:
        message: That.
        name: Of the signal.
    """

    def __init__(self, message: str, name: str = "SIGINT") -> None:
        super().__init__(message)
        self.exit_code = 128 + int(signal.Signals[name])  # as shells report a process ended by it


class StopRequest:
    """While the block runs, the first Ctrl-C (or SIGTERM) only sets :attr:`received`; a second one stops at once.

    Of no effect outside the main thread, where Python delivers no signals.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for name in _SIGNALS:
                number = getattr(signal, name)
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name
