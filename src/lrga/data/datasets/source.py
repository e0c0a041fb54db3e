"""What a builder of a data set is given: its folders, its options, and files that are checked before they are read."""

import os
import stat
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrga.data.datasets.spec import SPLITS
from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError, OptionError
from lrga.io.archive import ARCHIVE_DAMAGE, extract
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
        progress: Is told of the progress: ``progress(label, done, total)``.
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
        """Where the files of a set lie: in :attr:`source` where the user named one, else as they are downloaded.

        Args:
            files: The official files; archives among them are unpacked.
            layouts: Names of all files of a set, one list for each form in which it may come; the last is that of the
                official files. The first that is there is taken.
            below: Subfolders in which they may lie.

        Returns:
            Their paths, and the number of the layout.
        """
        roots, forms = [self.source or self.work], list(enumerate(layouts))
        if self.source is None:
            forms = forms[-1:]
            for path in obtain_all(files, self.raw, progress=self.progress, download=self.download):
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
        remedy = f"put them there, from {urls}, or leave the source out to download them"
        raise DataMissingError(f"{expected} in {roots[0]}", f"no {', '.join(fewest)}", remedy)


def data_root(root: str | Path | None = None) -> Path:
    """Folder that holds every data set: the argument, else ``$LRGA_DATA``, else ``lrga`` in the cache folder.

    The folder need not exist; it is created by the first build.

    Example:
        >>> data_root("some/folder") == Path("some/folder").absolute()
        True
    """
    if root is not None and str(root) == "":
        raise OptionError("a folder for the data", "an empty path", "name a folder, or leave the data root out")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "lrga"
    given = root if root is not None else os.environ.get(ENVIRONMENT_VARIABLE) or cache
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


def demand(fits: Any, where: object, expected: str, got: object) -> None:
    """Refuses files, found at ``where``, that do not hold what is ``expected``."""
    if not fits:
        raise DataError(f"{expected} in {where}", str(got), "get it again from its official source")


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


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays called ``names`` of an ``.npz`` file; Python objects in it are refused."""
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "name the folder that holds it")
    remedy = f"delete {path} and get it again"
    if not zipfile.is_zipfile(path):
        raise ChecksumError(f"a sound .npz file {path}", "a truncated one, or no such file at all", remedy)
    try:
        # Opened here and not by numpy, which leaves a damaged file open.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            check_memory(sum(member.file_size for member in archive.zip.infolist()), f"the arrays of {path}")
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
