"""Atomic writing of files, and checks of size and checksum before use.

Every file that others read is written through :func:`atomic_path`: to a temporary file in the same folder, synced to
disk, then renamed. If the writer is killed, a reader sees the old file, the new file or no file, never a partial one.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lrga.errors import CheckpointError, ChecksumError, DataError, DataMissingError, LRGAError

BLOCK = 1 << 20


@dataclass(frozen=True)
class FileFacts:
    """Size in bytes and sha256 of a file; ``None`` if unknown."""

    size: int | None = None
    sha256: str | None = None


@contextmanager
def writing(path: Path, *, error: type[LRGAError] = CheckpointError) -> Iterator[None]:
    """Converts the system's errors on writing ``path`` to an ``error`` with a remedy.

    The remedy of ``CheckpointError`` is about the run folder, that of ``DataError`` about the data root.
    """
    try:
        yield
    except LRGAError:  # some are also OSErrors
        raise
    except OSError as refusal:
        if refusal.errno is None:  # not from the system: readers of archives raise OSError for damage too
            raise
        where = "--data-root or LRGA_DATA" if error is DataError else "--output (a run continues with --resume)"
        remedy = f"free disk space, correct the permissions, or choose another folder with {where}"
        raise error(f"to write {path}", refusal.strerror or str(refusal), remedy) from refusal


def check_plain(path: Path) -> None:
    """Raises an error for a link, a pipe, a device or a folder in place of a file: a run folder may be untrusted."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        got = "a link to another file" if path.is_symlink() else "a pipe, a device or a folder"
        raise CheckpointError(f"a regular file at {path}", got, "delete it")


@contextmanager
def atomic_path(path: Path, *, error: type[LRGAError] = CheckpointError) -> Iterator[Path]:
    """A temporary path next to ``path``; it is renamed to ``path`` only if the block ends without an error.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with atomic_path(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("whole")
        >>> (folder / "a.txt").read_text()
        'whole'
    """
    with writing(path, error=error):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_beside(path) as temporary:
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
        _sync(path.parent)


def write_bytes(path: Path, content: bytes, *, error: type[LRGAError] = CheckpointError) -> None:
    """Writes ``content`` to ``path`` atomically."""
    with atomic_path(path, error=error) as temporary:
        temporary.write_bytes(content)


def write_new(path: Path, content: bytes) -> bool:
    """Writes ``content`` to ``path`` atomically unless ``path`` exists; returns whether it was written."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_beside(path) as temporary:
            temporary.write_bytes(content)
            _sync(temporary)
            try:
                os.link(temporary, path)  # unlike a rename, this fails if the name exists
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                if path.exists():
                    return False
                os.replace(temporary, path)
        _sync(path.parent)
    return True


def append_bytes(path: Path, content: bytes) -> None:
    """Appends ``content`` to the regular file ``path`` and syncs it to disk."""
    check_plain(path)
    with writing(path), open(path, "ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Creates the folder ``target`` with these files atomically; an existing folder is replaced."""
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".writing-{secrets.token_hex(4)}")
        temporary.mkdir()
        try:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
                _sync(temporary / name)
            _sync(temporary)
            if target.exists():  # a damaged folder; a folder cannot replace another in one step
                shutil.rmtree(target)
            os.rename(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # already renamed on success
        _sync(target.parent)


@contextmanager
def _temporary_beside(path: Path) -> Iterator[Path]:
    """A unique name next to ``path``; the file is deleted afterwards if it still exists."""
    name = path.name.encode(errors="ignore")[:100].decode(errors="ignore")  # file systems allow 255 bytes
    temporary = path.with_name(f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Syncs a file, or the names in a folder, to disk, so that they survive a power failure."""
    if path.is_dir() and os.name != "posix":
        return  # only POSIX systems can open folders
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Checksum of a file in hexadecimal; the file is read in blocks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def facts_of(path: Path) -> FileFacts:
    """Size and checksum of an existing file."""
    return FileFacts(path.stat().st_size, sha256_of(path))


def verify_file(path: Path, facts: FileFacts, *, remedy: str) -> None:
    """Raises an error that names ``path`` unless the file has the size and checksum of ``facts``."""
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", remedy)
    size = path.stat().st_size
    if facts.size is not None and size != facts.size:
        what = "truncated" if size < facts.size else "too long"
        raise ChecksumError(f"{path} of {facts.size:,} bytes", f"{size:,} bytes ({what})", remedy)
    if facts.sha256 is not None and (found := sha256_of(path)) != facts.sha256:
        raise ChecksumError(f"{path} with sha256 {facts.sha256}", f"sha256 {found} (corrupted)", remedy)
