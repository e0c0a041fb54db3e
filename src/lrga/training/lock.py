"""One process at a time in a run folder."""

import os
import time
from pathlib import Path
from types import TracebackType
from typing import IO

from lrga.errors import FolderInUseError
from lrga.training.files import check_plain, writing

_TRIES, _PAUSE = 6, 0.1  # who only looks whether a folder is in use holds its lock for a moment


class FolderLock:
    """Holds ``folder/.lock`` while the block runs. The system lets go of it when the process dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[str] | None = None

    def __enter__(self) -> "FolderLock":
        path = self.folder / ".lock"
        check_plain(path)
        with writing(path):
            file = open(path, "a+", encoding="utf-8")  # stays open as long as the lock is held
        for left in reversed(range(_TRIES)):
            if _try_lock(file):
                break
            if left:
                time.sleep(_PAUSE)
        else:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            remedy = "wait for it or stop it, or train into another folder"
            raise FolderInUseError(f"the run folder {self.folder} to be free", f"process {holder} using it", remedy)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()  # which unlocks; the file stays, as deleting it could race with another process
            self._file = None


def _try_lock(file: IO[str]) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
