"""A lock of a folder for one process; the system releases it when the process ends, even after a crash."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from lrga.errors import CheckpointError, DataError, FolderInUseError
from lrga.io.files import check_plain, writing
from lrga.io.progress import Progress

NAME = ".lock"
_PATIENCE = 0.6  # seconds: a process that only checks whether a folder is in use holds the lock for a moment


class FolderLock:
    """Holds ``folder/.lock`` while the block runs.

    Args:
        folder: The folder. With ``wait`` it is created; otherwise it must exist.
        wait: Wait until the folder is free and report to this callback (for builders of data). Without it, a folder in
            use raises :class:`~lrga.errors.FolderInUseError`, which names the process that holds the lock.

    Example:
        >>> import tempfile
        >>> with FolderLock(Path(tempfile.mkdtemp())):
        ...     print("alone")
        alone
    """

    def __init__(self, folder: Path, *, wait: Progress | None = None) -> None:
        self.folder = folder
        self._path = folder / NAME
        self._wait = wait
        self._since: float | None = None
        # A soft lock, the fallback on file systems without locks, would remain after a crash.
        self._lock = FileLock(self._path, thread_local=False, fallback_to_soft=False, on_acquired=_write_holder)

    def __enter__(self) -> "FolderLock":
        check_plain(self._path)
        with writing(self._path, error=CheckpointError if self._wait is None else DataError):
            try:
                if self._wait is None:
                    os.stat(self.folder)  # filelock would create it
                    self._lock.acquire(timeout=_PATIENCE)
                else:
                    self._lock.acquire(cancel_check=self._tell)
            except (Timeout, RuntimeError) as error:  # RuntimeError: this thread holds it already
                remedy = "wait for it or stop it, or use another folder"
                got = f"a folder in use by process {self._holder()}"
                raise FolderInUseError(f"{self.folder} to be free", got, remedy) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None and self._wait is None and os.name == "posix":
            with suppress(OSError):  # another process was faster
                if os.listdir(self.folder) == [NAME]:
                    # A run that could not start leaves no folder. Waiting processes notice that the lock file is gone.
                    self._path.unlink()
                    self.folder.rmdir()
        self._lock.release()

    def _tell(self) -> bool:
        """Reports that it waits; returns ``False`` to continue waiting."""
        self._since = self._since or time.monotonic()
        if self._wait is not None:
            seconds = int(time.monotonic() - self._since)
            self._wait(f"waiting for process {self._holder()}, which is using {self.folder}", seconds, None)
        return False

    def _holder(self) -> str:
        with suppress(OSError, UnicodeDecodeError), open(self._path, encoding="utf-8") as file:
            return file.read(100).strip() or "unknown"
        return "unknown"  # on Windows a locked file cannot be read


def _write_holder(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode())
