"""Ctrl-C and the system's request to end, answered between two batches."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


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
    """While the block runs, the first Ctrl-C (or SIGTERM, or SIGHUP unless it is ignored) only sets :attr:`received`; a
    second one stops at once.

    Of no effect outside the main thread, where Python delivers no signals.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._previous: dict[int, Any] = {}
        self._terminals = [number for number in (1, 2) if os.isatty(number)]

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for name in _SIGNALS:
                number = getattr(signal, name, None)  # Windows has no SIGHUP
                # nohup lets SIGHUP be ignored: the run is to go on when the terminal closes
                if number is not None and not (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
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
        for terminal in self._terminals:
            if not os.isatty(terminal):  # it was closed, and printing must not fail before the checkpoint is written
                os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)
