"""Safe unpacking of untrusted zip archives."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

from lrga.errors import ChecksumError, DataError
from lrga.io.files import writing
from lrga.io.limits import reading


def extract(archive: Path, folder: Path, names: Sequence[str] = ("",)) -> None:
    """Unpacks the members of a ``.zip`` whose paths end in one of ``names``; nothing is written outside ``folder``."""
    with (
        reading(archive, "a valid archive", remedy="delete it and download it again", damage=ChecksumError),
        zipfile.ZipFile(archive) as zipped,
        writing(folder, error=DataError),
    ):
        # zipfile itself removes .. and the root from paths, and writes links as regular files
        zipped.extractall(folder, [member for member in zipped.namelist() if member.endswith(tuple(names))])


def is_whole(archive: Path) -> bool:
    """Whether every byte of a ``.zip`` can be unpacked."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            return zipped.testzip() is None
    except Exception:  # damaged bytes can raise nearly any error
        return False
