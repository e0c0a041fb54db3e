"""Writing into a run folder: whole or not at all, and an answer in words where the system refuses."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lrga import limits
from lrga.errors import CheckpointError

_FULL = {errno.ENOSPC, errno.EFBIG} | ({errno.EDQUOT} if hasattr(errno, "EDQUOT") else set())
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write ``path`` into an error that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            remedy = "free some space, then continue from the last checkpoint, which is whole: lrga train --resume RUN"
        elif error.errno in _READ_ONLY:
            remedy = "choose a folder that may be written to (--output), or allow writing"
        else:
            remedy = "see that the folder can be written to, or choose another one (--output)"
        raise CheckpointError(f"to write {path}", reason, remedy) from error


def write_file(path: Path, content: bytes) -> None:
    """Writes and waits until the disk has it. Not atomic: for files inside a folder that is moved into place."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Writes ``path`` atomically: whenever the writer is killed, a reader sees the old file or the new one."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            write_file(temporary, content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def replace_json(path: Path, value: Any) -> None:
    """Writes JSON atomically; NaN and infinity are refused, as other readers would refuse them."""
    replace_file(path, to_json_bytes(value))


def to_json_bytes(value: Any) -> bytes:
    """JSON, indented, in UTF-8."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Reads what :func:`replace_json` wrote."""
    try:
        return limits.read_json(path, error=CheckpointError)
    except FileNotFoundError as error:
        raise CheckpointError(f"the file {path}", "no such file", "name the folder of a run of lrga train") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"JSON in {path}", str(error), "restore the file, or train anew") from error


def check_plain(path: Path) -> None:
    """Refuses a link, a pipe or a device among the files that a run writes to: the folder may be somebody else's."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        got = "a link to another file" if path.is_symlink() else "a pipe, a device or a folder"
        raise CheckpointError(f"a plain file at {path}", got, "delete it")


def place_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Makes the folder ``target`` with these files, atomically: it is there whole or not at all."""
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=target.parent))
        try:
            os.chmod(temporary, 0o777 & ~_umask())
            for name, content in files.items():
                write_file(temporary / name, content)
            sync_folder(temporary)
            if target.exists():  # a damaged one: a folder cannot replace another in one step
                shutil.rmtree(target)
            os.rename(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # gone already where all went well
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames inside ``folder`` survive a power cut, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
