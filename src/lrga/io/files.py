"""Files that can be believed: written whole or not at all, and checked by size and checksum before use."""

import glob
import hashlib
import json
import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError

BLOCK = 1 << 20
_HOST = re.sub(r"[^A-Za-z0-9]", "_", socket.gethostname())[:40]


@dataclass(frozen=True)
class FileFacts:
    """Size in bytes and sha256 of a file; ``None`` where it is not known beforehand."""

    size: int | None = None
    sha256: str | None = None


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turns the operating system's refusal to write below ``path`` into an error that says what to do."""
    try:
        yield
    except LRGAError:  # some are an OSError as well
        raise
    except OSError as error:
        if error.errno is None:  # not the system's: what reads archives calls a damaged one an OSError too
            raise
        raise DataError(
            f"to write {path}",
            f"{error.strerror or error}",
            "free some space or the permission, or choose another folder with --data-root or LRGA_DATA",
        ) from error


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``; it becomes ``path`` only when the block ends without an error.

    A reader therefore sees the old file, the new file or none, never a part of one, whenever the writer is killed.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with atomic_path(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("whole")
        >>> (folder / "a.txt").read_text()
        'whole'
    """
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(path) as temporary:
            yield temporary
            _settle(temporary, path)


@contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """A name beside ``path`` that no other writer has; the file is deleted afterwards if it is still there.

    So are temporary files for ``path`` of processes of this machine that were killed.
    """
    name = path.name.encode(errors="ignore")[:100].decode(errors="ignore")  # file systems take 255 bytes
    if os.name == "posix":
        for left in path.parent.glob(f".{glob.escape(name)}.{_HOST}-*.tmp"):
            if (owner := _OWNER.search(left.name)) is not None and not _is_alive(int(owner[1])):
                left.unlink(missing_ok=True)
    temporary = path.with_name(f".{name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


_OWNER = re.compile(r"-(\d{1,9})-[0-9a-f]{8}\.tmp$")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _settle(temporary: Path, path: Path) -> None:
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    if os.name == "posix":  # the rename itself must survive a power cut
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_bytes(path: Path, content: bytes) -> None:
    """Writes ``content`` to ``path`` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as JSON to ``path`` atomically."""
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace"))


def sha256_of(path: Path) -> str:
    """Checksum of a file in hexadecimal, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def facts_of(path: Path) -> FileFacts:
    """Size and checksum of an existing file."""
    return FileFacts(path.stat().st_size, sha256_of(path))


def verify_file(path: Path, facts: FileFacts, *, remedy: str) -> None:
    """Raises an error that names ``path`` unless it is there with the size and checksum of ``facts``."""
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", remedy)
    size = path.stat().st_size
    if facts.size is not None and size != facts.size:
        what = "truncated" if size < facts.size else "too long"
        raise ChecksumError(f"{path} of {facts.size:,} bytes", f"{size:,} bytes ({what})", remedy)
    if facts.sha256 is not None and (found := sha256_of(path)) != facts.sha256:
        raise ChecksumError(f"{path} with sha256 {facts.sha256}", f"sha256 {found} (corrupted)", remedy)
