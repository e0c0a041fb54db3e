"""One process at a time in a run folder."""

import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from lrga.errors import FolderInUseError
from lrga.io.json_files import check_plain, writing

_TRIES, _PAUSE = 6, 0.1  # who only looks whether a folder is in use holds its lock for a moment


class FolderLock:
    """Holds ``folder/.lock`` while the block runs. The system lets go of it when the process dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[str] | None = None

    def __enter__(self) -> "FolderLock":
        path = self.folder / ".lock"
        check_plain(path)
        for left in reversed(range(_TRIES)):
            with writing(path):
                file = open(path, "a+", encoding="utf-8")  # stays open as long as the lock is held
            if _try_lock(file) and _is_at(file, path):
                break
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            if left:
                time.sleep(_PAUSE)
        else:
            remedy = "wait for it or stop it, or train into another folder"
            raise FolderInUseError(f"the run folder {self.folder} to be free", f"process {holder} using it", remedy)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is None:
            return
        if error is not None and os.name == "posix":
            with suppress(OSError):  # another process was faster
                if os.listdir(self.folder) == [".lock"]:
                    # A run that was refused leaves no folder. Who waits for the lock sees that its file is gone.
                    (self.folder / ".lock").unlink()
                    self.folder.rmdir()
        self._file.close()  # which unlocks
        self._file = None


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


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
