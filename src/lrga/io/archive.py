"""Unpacking archives that come from elsewhere: only plain files, only inside the folder."""

import errno
import gzip
import lzma
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError, UnsupportedError
from lrga.io.files import BLOCK, atomic_path
from lrga.io.limits import show_bytes

ARCHIVE_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error,
    NotImplementedError, RuntimeError, UnicodeError,
)  # fmt: skip
"""What a damaged archive raises; an unknown compression raises NotImplementedError, encryption RuntimeError."""


def extract(archive: Path, folder: Path, *, members: Collection[str] | None = None) -> list[Path]:
    """Unpacks a ``.zip`` or ``.tar`` (also compressed) into ``folder``; every file appears whole or not at all.

    A member that would land outside ``folder``, a link or a device is refused before anything is written.

    Args:
        archive: The file.
        folder: Where its files go, below their path in the archive.
        members: Only these paths, all of which must be there; ``None`` takes all.
    """
    if not archive.is_file():
        raise DataMissingError(f"a .zip or .tar archive at {archive}", "no plain file there", "name the archive")
    try:
        with open(archive, "rb") as file:
            begin = file.read(512)
        if not begin.strip(b"\0"):  # zero bytes are skipped by the readers, however many there are
            raise UnsupportedError("a .zip or .tar archive", f"zero bytes in {archive}", "obtain the file again")
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                return _write(archive, folder, members, _zip_members(archive, zipped))
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tarred:
                return _write(archive, folder, members, _tar_members(archive, tarred))
    except LRGAError:
        raise
    except ARCHIVE_DAMAGE as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # the system does not let it be read
            raise
        raise ChecksumError(f"a sound archive {archive}", f"{error}", "delete it and obtain it again") from error
    raise UnsupportedError("a .zip or .tar archive", f"{archive}", "obtain the file again; it may be truncated")


def is_whole(path: Path, suffix: str | None = None) -> bool:
    """Whether every byte of an archive (``.zip``, ``.gz``) can be unpacked; of other files ``True``."""
    suffix = suffix or path.suffix
    try:
        if suffix == ".zip":
            with zipfile.ZipFile(path) as zipped:
                return zipped.testzip() is None
        if suffix == ".gz":
            with gzip.open(path, "rb") as file:
                while file.read(BLOCK):
                    continue
    except ARCHIVE_DAMAGE:
        return False
    return True


class _Member(NamedTuple):
    name: str
    size: int  # as the archive says
    open: Callable[[], IO[bytes] | None]


def _zip_members(archive: Path, zipped: zipfile.ZipFile) -> Iterator[_Member]:
    for info in zipped.infolist():
        if info.flag_bits & 0x1:
            raise _refusal(archive, info.filename, "an encrypted member")
        if (info.external_attr >> 16) & 0o170000 == 0o120000:
            raise _refusal(archive, info.filename, "a link")
        if not info.is_dir():
            yield _Member(info.filename, info.file_size, partial(zipped.open, info))


def _tar_members(archive: Path, tarred: tarfile.TarFile) -> Iterator[_Member]:
    for info in tarred:
        if not (info.isfile() or info.isdir()):
            raise _refusal(archive, info.name, "a link or device")
        if info.isfile():
            yield _Member(info.name, info.size, partial(tarred.extractfile, info))


def _write(archive: Path, folder: Path, wanted: Collection[str] | None, members: Iterator[_Member]) -> list[Path]:
    targets = {member.name: (_inside(archive, folder, member.name), member) for member in members}
    if wanted is not None:
        if missing := sorted(set(wanted) - set(targets)):
            raise DataError(
                f"the files {', '.join(sorted(wanted))} in {archive}",
                f"an archive without {', '.join(missing)}",
                "obtain the official archive again",
            )
        targets = {name: target for name, target in targets.items() if name in set(wanted)}
    _check_room(archive, folder, sum(member.size for _, member in targets.values()))
    for path, member in targets.values():
        stream = member.open()
        if stream is None:
            raise tarfile.TarError(f"{member.name} is no file")
        with stream, atomic_path(path, error=DataError) as temporary, open(temporary, "wb") as file:
            shutil.copyfileobj(stream, file)
    return [path for path, _ in targets.values()]


def _check_room(archive: Path, folder: Path, need: int) -> None:
    """Refuses, before anything is written, an archive whose files do not fit on the disk."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if need > (free := shutil.disk_usage(there).free):
        got = f"{show_bytes(need)} of files in {archive}"
        raise DataError(f"an archive that fits on the disk ({show_bytes(free)} are free)", got, "free some space")


def _inside(archive: Path, folder: Path, name: str) -> Path:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or (parts.parts and ":" in parts.parts[0]):
        raise _refusal(archive, name, "a path outside the folder")
    return folder.joinpath(*parts.parts)


def _refusal(archive: Path, name: str, what: str) -> DataError:
    return DataError(
        f"plain files inside {archive}", f"{name!r}, {what}", "do not use this archive; obtain the official one"
    )
