"""One process at a time in a folder, by a lock that the system releases when its holder dies, however it dies."""

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
_PATIENCE = 0.6  # seconds: who only looks whether a folder is in use holds its lock for a moment


class FolderLock:
    """Holds ``folder/.lock`` while the block runs.

    Args:
        folder: The folder. Builders' folders are made; a run's folder must be there.
        wait: For builders of data: waits until the folder is free, and tells this of it. Without it, a folder in use
            raises :class:`~lrga.errors.FolderInUseError`, which names the process that holds it.

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
        # A soft lock, the fallback on file systems without locks, would survive the death of its holder.
        self._lock = FileLock(self._path, thread_local=False, fallback_to_soft=False, on_acquired=_write_holder)

    def __enter__(self) -> "FolderLock":
        check_plain(self._path)
        with writing(self._path, error=CheckpointError if self._wait is None else DataError):
            try:
                if self._wait is None:
                    os.stat(self.folder)  # filelock would make it
                    self._lock.acquire(timeout=_PATIENCE)
                else:
                    self._lock.acquire(cancel_check=self._tell)
            except (Timeout, RuntimeError) as error:  # RuntimeError: this thread holds it, and would wait for itself
                remedy = "wait for it or stop it, or use another folder"
                got = f"a folder in use by process {self._holder()}"
                raise FolderInUseError(f"{self.folder} to be free", got, remedy) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None and self._wait is None and os.name == "posix":
            with suppress(OSError):  # another process was faster
                if os.listdir(self.folder) == [NAME]:
                    # A run that was refused leaves no folder. Who waits for the lock sees that its file is gone.
                    self._path.unlink()
                    self.folder.rmdir()
        self._lock.release()

    def _tell(self) -> bool:
        """Says that it waits; ``False``, as it goes on waiting."""
        self._since = self._since or time.monotonic()
        if self._wait is not None:
            seconds = int(time.monotonic() - self._since)
            self._wait(f"waiting for process {self._holder()}, which works in {self.folder}", seconds, None)
        return False

    def _holder(self) -> str:
        with suppress(OSError, UnicodeDecodeError), open(self._path, encoding="utf-8") as file:
            return file.read(100).strip() or "unknown"
        return "unknown"  # Windows lets nobody else read a locked file


def _write_holder(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode())
