"""Input of the builders of data sets: folders, options, and files that are checked before they are read."""

import gzip
import os
import stat
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError, OptionError
from lrga.io.download import RemoteFile, extract, obtain
from lrga.io.files import FileFacts, verify_file
from lrga.io.limits import check_memory, reading
from lrga.io.progress import Progress, silent

ENVIRONMENT_VARIABLE = "LRGA_DATA"
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class BuildContext:
    """Where and how one data set is built.

    Attributes:
        raw: Folder for downloaded files; they are kept (use :func:`lrga.io.download.obtain`).
        work: Folder for unpacked archives of this set with these options; deleted when the set is built.
        source: The user's folder of raw or prepared files, or ``None``.
        progress: Called with the progress: ``progress(label, done, total)``.
        download: Whether the network may be used.
    """

    raw: Path
    work: Path
    source: Path | None = None
    progress: Progress = silent
    download: bool = True

    def locate(
        self, files: Sequence[RemoteFile], *layouts: Sequence[str], below: Iterable[str] = ()
    ) -> tuple[list[Path], int]:
        """Finds the files of a set: in :attr:`source` if the user passed one, else among the downloads.

        Args:
            files: The official files; archives are unpacked.
            layouts: Names of all files of a set, one list for each supported form; the last one is the official form.
                The first complete form is used.
            below: Subfolders to search.

        Returns:
            The paths and the index of the layout.
        """
        roots, forms = [self.source or self.work], list(enumerate(layouts))
        if self.source is None:
            forms = forms[-1:]
            for path in obtain(files, self.raw, progress=self.progress, download=self.download):
                if path.suffix == ".zip":
                    extract(path, self.work, layouts[-1])
            roots.append(self.raw)
        folders = [root / name for root in roots for name in (".", *below)]
        absent: list[list[str]] = []
        for number, names in forms:
            found = {name: next((f / name for f in folders if (f / name).is_file()), None) for name in names}
            paths = [path for path in found.values() if path is not None]
            if len(paths) == len(names):
                for path in paths:
                    check_sums(path)
                return paths, number
            absent.append([name for name, path in found.items() if path is None])
        fewest: list[str] = min(absent, key=len)
        expected = " or ".join(", ".join(names) for _, names in forms)
        urls = ", ".join(dict.fromkeys(file.url for file in files))
        remedy = f"put the files there, from {urls}, or omit the source to download them"
        raise DataMissingError(f"{expected} in {roots[0]}", f"no {', '.join(fewest)}", remedy)


def data_root(root: str | Path | None = None) -> Path:
    """Folder of all data sets: the argument, else ``$LRGA_DATA``, else ``lrga`` in the cache folder.

    The folder does not need to exist; the first build creates it.

    Example:
        >>> data_root("some/folder") == Path("some/folder").absolute()
        True
    """
    if root is not None and str(root) == "":
        raise OptionError("a folder for the data", "an empty path", "pass a folder, or omit the data root")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "lrga"
    given = root if root is not None else os.environ.get(ENVIRONMENT_VARIABLE) or cache
    remedy = f"pass a folder with --data-root, root= or {ENVIRONMENT_VARIABLE}"
    try:
        path = Path(given).expanduser().absolute()
        if not stat.S_ISDIR(path.stat().st_mode):
            raise OptionError("a folder for the data", f"the file {path}", remedy)
    except (FileNotFoundError, NotADirectoryError):  # the first build creates it, or reports why it cannot
        return path
    except (OSError, RuntimeError, ValueError) as error:  # an overlong name, a loop of links, an unknown ~user, …
        if isinstance(error, LRGAError):
            raise
        raise OptionError("a usable folder for the data", f"{str(given)!r} ({error})", remedy) from error
    return path


def demand(fits: Any, where: object, expected: str, got: object) -> None:
    """Raises an error unless ``fits``: the files at ``where`` do not contain what is ``expected``."""
    if not fits:
        raise DataError(f"{expected} in {where}", str(got), "download it again from its official source")


def check_sums(path: Path) -> None:
    """Compares ``path`` with the nearest ``SHA256SUMS`` in a parent folder that lists it, if there is one."""
    absolute = path.absolute()
    for folder in list(absolute.parents)[:4]:
        sums = folder / SUMS
        if not sums.is_file():
            continue
        for line in sums.read_text(encoding="utf-8", errors="replace").splitlines():
            digest, _, name = line.partition(" ")
            if name.strip().lstrip("*").removeprefix("./") == absolute.relative_to(folder).as_posix():
                remedy = f"copy {path.name} again from its source, or correct {sums}"
                verify_file(path, FileFacts(None, digest.lower()), remedy=remedy)
                return


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Reads the numeric arrays ``names`` of an ``.npz`` file; Python objects in it are an error."""
    remedy = f"delete {path} and download it again"
    with (
        reading(path, "a valid .npz file of numeric arrays", remedy=remedy, damage=ChecksumError),
        open(path, "rb") as file,  # opened here, because numpy leaves a damaged file open
        np.load(file, allow_pickle=False) as archive,
    ):
        check_memory(sum(member.file_size for member in archive.zip.infolist()), f"the arrays of {path}")
        missing = [name for name in names if name not in archive.files]
        demand(not missing, path, f"the arrays {', '.join(names)}", f"no {', '.join(missing)}")
        arrays = {name: archive[name] for name in names}
        if any(array.ndim == 0 or array.dtype.kind not in "biuf" for array in arrays.values()):
            raise ValueError("a member that is not a numeric array")
        return arrays


def read_numbers(
    path: Path, *, dtype: type = np.int64, columns: int | None = None, rows: int | None = None
) -> np.ndarray:
    """Reads a ``.csv.gz`` file (or an uncompressed one) of numbers, ``[rows, columns]``, int64 or float32.

    The file must have this number of ``columns`` (by default that of the first line) and ``rows`` (if given).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "edge.csv.gz"
        >>> _ = path.write_bytes(gzip.compress(b"4039,2424\\n4039,225\\n"))
        >>> read_numbers(path).tolist()
        [[4039, 2424], [4039, 225]]
    """
    with (
        reading(path, "a complete gzip file", remedy=f"delete {path} and download it again", damage=ChecksumError),
        gzip.open(path, "rt", encoding="ascii") if path.suffix == ".gz" else open(path, encoding="ascii") as file,
        warnings.catch_warnings(),
    ):
        if path.stat().st_size == 0:
            raise ChecksumError(f"numbers in {path}", "an empty file", f"delete {path} and download it again")
        warnings.simplefilter("ignore", UserWarning)  # raised for a file without data
        warnings.simplefilter("error", DeprecationWarning)  # raised for 1.5 in place of an integer
        try:
            found: np.ndarray = np.loadtxt(file, dtype, None, ",", ndmin=2)
        except (ValueError, DeprecationWarning) as error:
            expected = f"the same number of {'numbers' if dtype is np.float32 else 'integers'} on each line"
            remedy = "download the file again from its official source"
            raise DataError(expected, f"other values in {path} ({error})", remedy) from error
    found = found if len(found) else np.empty((0, columns or 0), dtype)
    columns = columns or found.shape[1]
    if found.shape[1] != columns or not np.isfinite(found).all():
        got = f"{found.shape[1]} numbers, or some that are not finite, in {path}"
        raise DataError(f"{columns} finite number{'s' * (columns > 1)} on each line", got, "download it again")
    if rows is not None and len(found) != rows:
        remedy = "download all files again from one source: they do not fit together"
        raise DataError(f"{rows:,} rows in {path}", f"{len(found):,}", remedy)
    return found
