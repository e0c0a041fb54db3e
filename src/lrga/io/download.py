"""Official files: found on disk or downloaded, and verified before they get their name."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError
from lrga.io.archive import is_whole
from lrga.io.files import BLOCK, FileFacts, atomic_path, verify_file
from lrga.io.lock import FolderLock
from lrga.io.progress import Progress, silent
from lrga.version import __version__

ATTEMPTS = 4
TIMEOUT_SECONDS = 30.0
UNKNOWN = FileFacts()


@dataclass(frozen=True)
class RemoteFile:
    """A file and where it officially comes from; ``facts`` holds what the publisher states of size and checksum."""

    url: str
    name: str
    facts: FileFacts = UNKNOWN


class _Interrupted(Exception):
    """The network failed; ``permanent`` where another attempt would fail as well."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.permanent = isinstance(error, urllib.error.HTTPError) and 400 <= error.code < 500


def obtain(
    remote: RemoteFile, folder: Path, *, progress: Progress = silent, download: bool = True, wait: float = 1.0
) -> Path:
    """Path of ``remote`` in ``folder``, downloaded if it is not there or damaged, and checked in any case.

    Where the publisher states no checksum, an archive must be whole. A download that breaks off or is damaged is tried
    again. One process downloads at a time, the others wait for it.

    Args:
        remote: The file.
        folder: Where it lies or shall lie.
        progress: Is told of the bytes.
        download: ``False`` never touches the network.
        wait: Seconds before the first retry; doubled for each further one.
    """
    path = folder / remote.name
    with FolderLock(folder, wait=progress):
        problem = problem_of(remote, path)
        if problem is not None and not download:
            raise problem
        if problem is not None:
            try:
                _download(remote, path, progress=progress, wait=wait)
            except DataMissingError as error:
                if not path.exists():
                    raise
                raise problem from error
    return path


def obtain_all(
    remotes: Sequence[RemoteFile],
    folder: Path,
    *,
    progress: Progress = silent,
    download: bool = True,
    wait: float = 1.0,
) -> list[Path]:
    """Paths of several files, as :func:`obtain` gives each; the error names all that are missing."""
    try:
        return [obtain(remote, folder, progress=progress, download=download, wait=wait) for remote in remotes]
    except DataMissingError as error:
        missing = [remote for remote in remotes if not (folder / remote.name).is_file()]
        if len(missing) < 2:
            raise
        raise _missing(missing, folder, error.got) from error


def problem_of(remote: RemoteFile, path: Path) -> LRGAError | None:
    """What is wrong with a file by what the publisher states, else by itself."""
    if not path.exists():
        return _missing([remote], path.parent, "no such file, and downloading is off")
    try:
        remedy = f"delete {path} and start again, or put a sound copy of {remote.url} there"
        _check(remote, path, remedy=remedy)
    except LRGAError as error:
        return error
    return None


def _check(remote: RemoteFile, path: Path, *, remedy: str) -> None:
    verify_file(path, remote.facts, remedy=remedy)
    if remote.facts.sha256 is None and remote.name.endswith(".zip") and not is_whole(path):
        raise ChecksumError(f"a whole archive {remote.name}", f"a damaged or truncated one in {path}", remedy)


def _download(remote: RemoteFile, path: Path, *, progress: Progress, wait: float) -> None:
    remedy = f"try again; if it happens again, {remote.url} has changed"
    for attempt in range(ATTEMPTS):
        last = attempt == ATTEMPTS - 1
        try:
            with atomic_path(path, error=DataError) as temporary:
                with open(temporary, "wb") as file:
                    for block in _blocks(remote, progress):
                        file.write(block)
                _check(remote, temporary, remedy=remedy)
            return
        except ChecksumError:
            if last:
                raise
        except _Interrupted as error:
            if last or error.permanent:
                raise _missing([remote], path.parent, f"no such file, and downloading it failed ({error})") from error
        time.sleep(wait * 2**attempt)


def _blocks(remote: RemoteFile, progress: Progress) -> Iterator[bytes]:
    headers = {"User-Agent": f"lrga/{__version__}", "Accept-Encoding": "identity"}
    try:
        request = urllib.request.Request(remote.url, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            length = response.headers.get("Content-Length")
            done, total = 0, int(length) if length is not None else None
            while block := response.read(BLOCK):
                yield block
                done += len(block)
                progress(f"downloading {remote.name}", done, total)
        if total is not None and done != total:
            raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")
    except (OSError, HTTPException) as error:  # all that sockets, TLS and urllib raise is an OSError
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is the server's answer, too, with the connection
        raise _Interrupted(error) from error


def _missing(remotes: Sequence[RemoteFile], folder: Path, got: str) -> DataMissingError:
    several = len(remotes) > 1
    return DataMissingError(
        f"the file{'s' if several else ''} {', '.join(str(folder / remote.name) for remote in remotes)}",
        got,
        "on a machine with a network, download "
        + ", ".join(f"{remote.url} and put it at {folder / remote.name}" for remote in remotes)
        + "; or build from files you have with --source FOLDER",
    )
