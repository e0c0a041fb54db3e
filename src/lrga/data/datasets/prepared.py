"""Files that a user brings along: found in the folder they name, checked, read without trusting them."""

import hashlib
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from lrga.data.datasets.place import SPLITS, check_sizes
from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError, OptionError
from lrga.io.archive import ARCHIVE_DAMAGE
from lrga.io.files import FileFacts, verify_file
from lrga.io.limits import check_memory

SUMS = "SHA256SUMS"


def find_files(folder: Path, names: Sequence[str], *, below: Iterable[str] = ()) -> list[Path] | None:
    """Paths of all ``names`` in ``folder`` or, all together, in one of its subfolders ``below``; else ``None``.

    Example:
        >>> find_files(Path("no-such-folder"), ["train.pickle"]) is None
        True
    """
    for place in (folder, *(folder / name for name in below)):
        paths = [place / name for name in names]
        if all(path.is_file() for path in paths):
            return paths
    return None


def missing_files(folder: Path, names: Sequence[str], *, below: Iterable[str] = ()) -> str:
    """Those of ``names`` that are not there, where :func:`find_files` found most of them; to be told."""
    places = [folder, *(folder / name for name in below)]
    absent: list[list[str]] = [[name for name in names if not (place / name).is_file()] for place in places]
    fewest: list[str] = min(absent, key=len)
    return f"no {', '.join(fewest)}"


def limited_sizes(sizes: Sequence[int] | None, available: Mapping[str, int]) -> list[int]:
    """``sizes`` as three numbers of graphs of at most what is ``available``; all where it is ``None``."""
    checked = check_sizes(sizes, available)
    for split, size in zip(SPLITS, checked, strict=True):
        if size > available[split]:
            remedy = "ask for fewer, or leave sizes out to take all"
            raise OptionError(f"at most {available[split]:,} graphs of {split}", f"{size:,}", remedy)
    return checked


def check_sums(path: Path) -> None:
    """Compares ``path`` with the nearest ``SHA256SUMS`` above it that lists it; no list, no check."""
    absolute = path.absolute()
    for folder in list(absolute.parents)[:4]:
        sums = folder / SUMS
        if not sums.is_file():
            continue
        for line in sums.read_text(encoding="utf-8", errors="replace").splitlines():
            digest, _, name = line.partition(" ")
            if name.strip().lstrip("*").removeprefix("./") == absolute.relative_to(folder).as_posix():
                remedy = f"copy {path.name} again from where it came, or correct {sums}"
                verify_file(path, FileFacts(None, digest.lower()), remedy=remedy)
                return


def check_md5(path: Path, content: bytes, expected: str, *, what: str) -> None:
    """Compares the content of a file with the MD5 sum that its publisher states."""
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        remedy = f"delete {path} and get it again from its official source"
        raise ChecksumError(f"{what} with MD5 {expected}", f"MD5 {found} in {path}", remedy)


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays called ``names`` of an ``.npz`` file; Python objects in it are refused."""
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "name the folder that holds it")
    check_sums(path)
    remedy = f"delete {path} and get it again"
    if not zipfile.is_zipfile(path):
        raise ChecksumError(f"a sound .npz file {path}", "a truncated one, or no such file at all", remedy)
    try:
        # Opened here and not by numpy, which leaves a damaged file open.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            _check_headers(archive.zip, path)
            if missing := [name for name in names if name not in archive.files]:
                expected = f"the arrays {', '.join(names)} in {path}"
                raise DataError(expected, f"no {', '.join(missing)}", "name the right file, or get it again")
            arrays = {name: archive[name] for name in names}
            if any(not _is_array(array) for array in arrays.values()):
                raise ValueError("a member that is no array of numbers")
            return arrays
    except LRGAError:
        raise
    except ARCHIVE_DAMAGE as error:
        raise ChecksumError(f"a sound .npz file {path}", f"a damaged one ({error})", remedy) from error
    except Exception as error:  # numpy's refusal of pickled objects; a damaged header can raise nearly anything
        raise DataError(f"an .npz file of plain arrays at {path}", str(error), remedy) from error


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind in "biuf"


def _check_headers(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuses, before memory is taken, arrays that memory does not hold or that are not as large as they say."""
    members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    check_memory(sum(member.file_size for member in members), f"the arrays of {path}")
    for member in members:
        with archive.open(member) as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            said = file.tell() + math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and said != member.file_size:  # objects are refused by numpy, in its words
            got = f"{member.filename} of {member.file_size:,} bytes, of which its header says {said:,}"
            raise ChecksumError(f"whole arrays in {path}", got, f"delete {path} and get it again")
