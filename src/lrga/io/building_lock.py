"""One builder at a time: a lock that the system releases when its holder dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lrga.io.files import writable

if os.name == "posix":
    import fcntl
else:
    import msvcrt


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Waits until no other process (nor thread) holds the lock of ``folder``, then holds it.

    Example:
        >>> import tempfile
        >>> with folder_lock(Path(tempfile.mkdtemp())):
        ...     print("alone")
        alone
    """
    path = folder / ".lock"
    with writable(path):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if os.name == "posix":
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
        yield
    finally:
        os.close(descriptor)  # releases the lock
