"""Unpacking zip archives that come from elsewhere."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError
from lrga.io.files import writing

ARCHIVE_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error, NotImplementedError, RuntimeError,
    UnicodeError,
)  # fmt: skip
"""What a damaged archive raises; an unknown compression raises NotImplementedError, encryption RuntimeError."""


def extract(archive: Path, folder: Path, names: Sequence[str] = ("",)) -> None:
    """Unpacks those members of a ``.zip`` whose paths end in one of ``names``; nothing can land outside ``folder``."""
    if not archive.is_file():
        raise DataMissingError(f"a .zip archive at {archive}", "no plain file there", "name the archive")
    try:
        with writing(folder, error=DataError), zipfile.ZipFile(archive) as zipped:
            # zipfile itself leaves .. and the root out of the paths, and writes links as plain files
            zipped.extractall(folder, [member for member in zipped.namelist() if member.endswith(tuple(names))])
    except LRGAError:
        raise
    except ARCHIVE_DAMAGE as error:
        raise ChecksumError(f"a sound archive {archive}", f"{error}", "delete it and obtain it again") from error


def is_whole(archive: Path) -> bool:
    """Whether every byte of a ``.zip`` can be unpacked."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            return zipped.testzip() is None
    except ARCHIVE_DAMAGE:
        return False
