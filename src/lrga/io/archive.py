"""Unpacking archives that come from elsewhere: only plain files, only inside the folder."""

import errno
import gzip
import lzma
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

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
        if not _begin(archive).strip(b"\0"):  # zero bytes are skipped by the readers, however many there are
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


def _begin(archive: Path) -> bytes:
    with open(archive, "rb") as file:
        return file.read(512)


class _Opener:
    """Opens a member of an archive when its turn comes."""

    def __init__(self, archive: zipfile.ZipFile | tarfile.TarFile, member: zipfile.ZipInfo | tarfile.TarInfo) -> None:
        self._archive, self._member = archive, member

    @property
    def size(self) -> int:
        """Bytes of the member, as the archive says."""
        return self._member.file_size if isinstance(self._member, zipfile.ZipInfo) else self._member.size

    def __call__(self) -> IO[bytes]:
        if isinstance(self._archive, zipfile.ZipFile):
            return self._archive.open(self._member)  # type: ignore[arg-type]
        stream = self._archive.extractfile(self._member)  # type: ignore[arg-type]
        if stream is None:
            raise tarfile.TarError(f"{self._member} is no file")
        return stream


def _zip_members(archive: Path, zipped: zipfile.ZipFile) -> Iterator[tuple[str, _Opener]]:
    for info in zipped.infolist():
        if info.flag_bits & 0x1:
            raise _refusal(archive, info.filename, "an encrypted member")
        if (info.external_attr >> 16) & 0o170000 == 0o120000:
            raise _refusal(archive, info.filename, "a link")
        if not info.is_dir():
            yield info.filename, _Opener(zipped, info)


def _tar_members(archive: Path, tarred: tarfile.TarFile) -> Iterator[tuple[str, _Opener]]:
    for info in tarred:
        if not (info.isfile() or info.isdir()):
            raise _refusal(archive, info.name, "a link or device")
        if info.isfile():
            yield info.name, _Opener(tarred, info)


def _write(
    archive: Path, folder: Path, members: Collection[str] | None, found: Iterator[tuple[str, _Opener]]
) -> list[Path]:
    targets = {name: (_inside(archive, folder, name), opener) for name, opener in found}
    if members is not None:
        if missing := sorted(set(members) - set(targets)):
            raise DataError(
                f"the files {', '.join(sorted(members))} in {archive}",
                f"an archive without {', '.join(missing)}",
                "obtain the official archive again",
            )
        targets = {name: target for name, target in targets.items() if name in set(members)}
    _check_room(archive, folder, sum(opener.size for _, opener in targets.values()))
    for path, opener in targets.values():
        with opener() as stream, atomic_path(path, error=DataError) as temporary, open(temporary, "wb") as file:
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
