"""What a builder of a data set is given: its folders, its options, and files that are checked before they are read."""

import hashlib
import math
import os
import stat
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrga.data.datasets.spec import SPLITS
from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError, OptionError
from lrga.io.archive import ARCHIVE_DAMAGE
from lrga.io.download import RemoteFile, obtain_all
from lrga.io.files import FileFacts, verify_file
from lrga.io.limits import check_memory
from lrga.io.progress import Progress, silent

ENVIRONMENT_VARIABLE = "LRGA_DATA"
SUMS = "SHA256SUMS"
GRAPH_BYTES = 1_000  # that a graph takes at least


@dataclass(frozen=True)
class BuildContext:
    """Where and how one data set is built.

    Attributes:
        raw: Folder for downloaded files; they stay (use :func:`lrga.io.download.obtain`).
        work: Folder for what archives unpack to, of this set and these options alone; deleted when the set is built.
        source: Folder of raw or prepared files that the user named, or ``None``.
        workers: Number of threads to use. The result must not depend on it.
        progress: Is told of the progress: ``progress(label, done, total)``.
        download: Whether the network may be used.
    """

    raw: Path
    work: Path
    source: Path | None = None
    workers: int = 1
    progress: Progress = silent
    download: bool = True

    def obtain(self, files: Sequence[RemoteFile]) -> list[Path]:
        """Official files, downloaded to :attr:`raw` where they are not there."""
        return obtain_all(files, self.raw, progress=self.progress, download=self.download)

    def files(self, files: Sequence[RemoteFile], remedy: str, *, below: Iterable[str] = ()) -> list[Path]:
        """Official files: those in :attr:`source` where the user named one, else downloaded."""
        if self.source is None:
            return self.obtain(files)
        return self.find([file.name for file in files], remedy, below=below)

    def find(self, names: Sequence[str], remedy: str, *, below: Iterable[str] = ()) -> list[Path]:
        """Files of :attr:`source`, as :func:`find_files` gives them; an error where one is missing."""
        assert self.source is not None
        found, folders = find_files(self.source, names, below=below), [self.source, *(self.source / b for b in below)]
        if found is None:
            absent: list[list[str]] = [[name for name in names if not (f / name).is_file()] for f in folders]
            fewest: list[str] = min(absent, key=len)  # where most of them are
            raise DataMissingError(f"{', '.join(names)} in {self.source}", f"no {', '.join(fewest)}", remedy)
        return found


def data_root(root: str | Path | None = None) -> Path:
    """Folder that holds every data set: the argument, else ``$LRGA_DATA``, else the platform's cache folder.

    The folder need not exist; it is created by the first build.

    Example:
        >>> data_root("some/folder") == Path("some/folder").absolute()
        True
    """
    if root is not None and str(root) == "":
        raise OptionError("a folder for the data", "an empty path", "name a folder, or leave the data root out")
    given = root if root is not None else os.environ.get(ENVIRONMENT_VARIABLE) or cache_folder(sys.platform, os.environ)
    remedy = f"name a folder with --data-root, root= or {ENVIRONMENT_VARIABLE}"
    try:
        path = Path(given).expanduser().absolute()
        if not stat.S_ISDIR(path.stat().st_mode):
            raise OptionError("a folder for the data", f"the file {path}", remedy)
    except (FileNotFoundError, NotADirectoryError):  # the first build makes it, or says why it cannot
        return path
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, a loop of links, an unknown ~user, …
        if isinstance(error, LRGAError):
            raise
        raise OptionError("a usable folder for the data", f"{str(given)!r} ({error})", remedy) from error
    return path


def cache_folder(platform: str, environment: Mapping[str, str]) -> Path:
    """The folder where ``platform`` (as in ``sys.platform``) keeps what can be made again.

    Example:
        >>> cache_folder("linux", {"XDG_CACHE_HOME": "/var/cache"}).as_posix()
        '/var/cache/lrga'
    """
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lrga"
    if platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "lrga" / "Cache"
    # The XDG rule: a relative XDG_CACHE_HOME is to be ignored.
    xdg = environment.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if xdg.startswith("/") else Path.home() / ".cache") / "lrga"


def default_workers() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_seed(seed: Any) -> int:
    """``seed`` as a non-negative integer."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise OptionError("seed, an integer of at least 0", repr(seed), "pass for example seed=41")
    return seed


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes as typed on the command line, ``"1500,250,250"``.

    Example:
        >>> parse_sizes("1500, 250, 250")
        (1500, 250, 250)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise OptionError("sizes as train,val,test", repr(text), "write for example 1500,250,250") from error


def check_sizes(sizes: Any, default: Mapping[str, int], *, at_most: bool = False) -> list[int]:
    """``sizes`` as three numbers of graphs (train, val, test), ``default`` where it is ``None``.

    With ``at_most`` there are no more graphs than these.
    """
    if sizes is None:
        return [default[split] for split in SPLITS]
    good = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) == len(SPLITS)
    if not good or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
        expected = "sizes, three numbers of graphs of at least 1: (train, val, test)"
        raise OptionError(expected, repr(sizes), "pass for example sizes=(1500, 250, 250)")
    for split, size in zip(SPLITS, sizes, strict=True):
        if at_most and size > default[split]:
            remedy = "ask for fewer, or leave sizes out to take all"
            raise OptionError(f"at most {default[split]:,} graphs of {split}", f"{size:,}", remedy)
    check_memory(GRAPH_BYTES * sum(sizes), f"{sum(sizes):,} graphs", remedy="ask for fewer graphs", error=OptionError)
    return list(sizes)


def sizes_option(splits: Mapping[str, int]) -> Callable[..., dict[str, Any]]:
    """The options of a set of ``splits`` of which only the first graphs may be asked for."""

    def options(*, sizes: Sequence[int] | None = None) -> dict[str, Any]:
        """``sizes``: only so many graphs of train, val and test, the first of each; ``None`` takes all."""
        return {"sizes": check_sizes(sizes, splits, at_most=True)}

    return options


def find_files(folder: Path, names: Sequence[str], *, below: Iterable[str] = ()) -> list[Path] | None:
    """Paths of all ``names`` in ``folder`` or, all together, in one of its subfolders ``below``; else ``None``.

    Example:
        >>> find_files(Path("no-such-folder"), ["train.pickle"]) is None
        True
    """
    for parent in (folder, *(folder / name for name in below)):
        paths = [parent / name for name in names]
        if all(path.is_file() for path in paths):
            return paths
    return None


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
            whole = (isinstance(array, np.ndarray) and array.ndim > 0 for array in arrays.values())
            if not all(whole) or any(array.dtype.kind not in "biuf" for array in arrays.values()):
                raise ValueError("a member that is no array of numbers")
            return arrays
    except LRGAError:
        raise
    except ARCHIVE_DAMAGE as error:
        raise ChecksumError(f"a sound .npz file {path}", f"a damaged one ({error})", remedy) from error
    except Exception as error:  # numpy's refusal of pickled objects; a damaged header can raise nearly anything
        raise DataError(f"an .npz file of plain arrays at {path}", str(error), remedy) from error


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
