"""Official files: found on disk or downloaded, verified before they get their final name, and unpacked safely."""

import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError
from lrga.io.files import BLOCK, FileFacts, atomic_path, verify_file, writing
from lrga.io.limits import reading
from lrga.io.lock import FolderLock
from lrga.io.progress import Progress, silent
from lrga.version import __version__

TIMEOUT_SECONDS = 30.0
UNKNOWN = FileFacts()


@dataclass(frozen=True)
class RemoteFile:
    """A file and its official address; ``facts`` holds the size and checksum that the publisher states."""

    url: str
    name: str
    facts: FileFacts = UNKNOWN


def obtain(
    remotes: Sequence[RemoteFile], folder: Path, *, progress: Progress = silent, download: bool = True
) -> list[Path]:
    """Paths of files in ``folder``, downloaded if they are missing or damaged, and always checked.

    Without a published checksum, an archive must be complete. One process downloads at a time; others wait for it.

    Args:
        remotes: The files. The error for a missing file names all that are missing.
        folder: Folder of the files.
        progress: Called with the number of bytes.
        download: ``False`` never uses the network.
    """
    with FolderLock(folder, wait=progress):
        for remote in remotes:
            path = folder / remote.name
            problem = problem_of(remote, path)
            if problem is None:
                continue
            try:
                if not download:
                    raise problem
                _download(remote, path, progress)
            except DataMissingError as error:
                if path.exists():
                    raise problem from error
                missing = [file for file in remotes if not (folder / file.name).is_file()]
                raise _missing(missing, folder, error.got) from error
    return [folder / remote.name for remote in remotes]


def problem_of(remote: RemoteFile, path: Path) -> LRGAError | None:
    """What is wrong with a file, by the publisher's size and checksum if known; ``None`` if nothing is."""
    if not path.exists():
        return _missing([remote], path.parent, "no such file, and downloading is off")
    try:
        remedy = f"delete {path} and start again, or put an undamaged copy of {remote.url} there"
        _check(remote, path, remedy=remedy)
    except LRGAError as error:
        return error
    return None


def _check(remote: RemoteFile, path: Path, *, remedy: str) -> None:
    verify_file(path, remote.facts, remedy=remedy)
    if remote.facts.sha256 is None and remote.name.endswith(".zip") and not is_whole(path):
        raise ChecksumError(f"a complete archive {remote.name}", f"a damaged or truncated one in {path}", remedy)


def _download(remote: RemoteFile, path: Path, progress: Progress) -> None:
    headers = {"User-Agent": f"lrga/{__version__}", "Accept-Encoding": "identity"}
    request = urllib.request.Request(remote.url, headers=headers)
    with atomic_path(path, error=DataError) as temporary:
        with open(temporary, "wb") as file:
            for block in _blocks(remote, path, request, progress):
                file.write(block)
        _check(remote, temporary, remedy=f"try again; if it happens again, {remote.url} has changed")


def _blocks(remote: RemoteFile, path: Path, request: urllib.request.Request, progress: Progress) -> Iterator[bytes]:
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            length = response.headers.get("Content-Length")
            done, total = 0, int(length) if length is not None else None
            while block := response.read(BLOCK):
                yield block
                done += len(block)
                progress(f"downloading {remote.name}", done, total)
        if total is not None and done != total:
            raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")
    except (OSError, HTTPException) as error:  # sockets, TLS and urllib raise only OSErrors
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        got = f"no such file, and downloading it failed ({error})"
        raise _missing([remote], path.parent, got) from error


def _missing(remotes: Sequence[RemoteFile], folder: Path, got: str) -> DataMissingError:
    several = len(remotes) > 1
    return DataMissingError(
        f"the file{'s' if several else ''} {', '.join(str(folder / remote.name) for remote in remotes)}",
        got,
        "try again or, on a machine with a network, download "
        + ", ".join(f"{remote.url} and put it at {folder / remote.name}" for remote in remotes)
        + "; or build from your own files with --source FOLDER",
    )


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
