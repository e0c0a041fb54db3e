"""Official files: found on disk or downloaded, and verified before they get their name."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path

from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError
from lrga.io import limits
from lrga.io.archive import is_whole
from lrga.io.documents import write_json
from lrga.io.files import BLOCK, FileFacts, atomic_path, facts_of, verify_file
from lrga.io.lock import FolderLock
from lrga.io.progress import Progress, silent
from lrga.version import __version__

ATTEMPTS = 4
TIMEOUT_SECONDS = 30.0
UNKNOWN = FileFacts()
RECORD_SUFFIX = ".facts.json"  # size and checksum as first seen, where the publisher states none


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

    Where the publisher states no checksum, an archive must be whole, and the checksum of the first sight is recorded
    beside the file and holds from then on. A download that breaks off or is damaged is tried again. One process
    downloads at a time, the others wait for it.

    Args:
        remote: The file.
        folder: Where it lies or shall lie.
        progress: Is told of the bytes.
        download: ``False`` never touches the network.
        wait: Seconds before the first retry; doubled for each further one.
    """
    path = folder / remote.name
    record = path.with_name(path.name + RECORD_SUFFIX)
    remedy = f"delete {path} (and {record.name} beside it) and start again, or put a sound copy of {remote.url} there"
    if record.is_file() and _problem(remote, path, record, remedy) is None:
        return path
    with FolderLock(folder, wait=progress):
        problem = _problem(remote, path, record, remedy)
        if problem is not None:
            if not download:
                raise problem
            there = path.exists()
            recorded_damaged = there and remote.facts.sha256 is None and not is_whole(path)
            try:
                _download(remote, path, progress=progress, wait=wait)
            except DataMissingError as error:
                if not there:
                    raise
                raise problem from error
            if recorded_damaged:
                record.unlink(missing_ok=True)
            if (problem := _problem(remote, path, record, remedy)) is not None:
                raise problem
        if not record.is_file():
            write_json(record, asdict(facts_of(path)) | {"url": remote.url}, error=DataError)
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


def check_recorded(folder: Path) -> list[tuple[Path, str | None]]:
    """Each file of ``folder`` whose size and checksum are recorded, and what is wrong with it, if anything."""
    result: list[tuple[Path, str | None]] = []
    for record in sorted(folder.glob(f"*{RECORD_SUFFIX}")):
        path = record.with_name(record.name.removesuffix(RECORD_SUFFIX))
        remedy = f"delete {path} and {record} and obtain the file again"
        try:
            verify_file(path, _read_record(record, remedy=remedy), remedy=remedy)
            result.append((path, None))
        except LRGAError as error:
            result.append((path, str(error)))
    return result


def _problem(remote: RemoteFile, path: Path, record: Path, remedy: str) -> LRGAError | None:
    """What is wrong with a file by what the publisher states, else by itself and its record."""
    if not path.exists():
        return _missing([remote], path.parent, "no such file, and downloading is off")
    try:
        _check(remote, path, remedy=remedy)
        if record.is_file():
            verify_file(path, _read_record(record, remedy=remedy), remedy=remedy)
    except ChecksumError as error:
        return error
    return None


def _check(remote: RemoteFile, path: Path, *, remedy: str) -> None:
    verify_file(path, remote.facts, remedy=remedy)
    if remote.facts.sha256 is None and not is_whole(path, Path(remote.name).suffix):
        raise ChecksumError(f"a whole archive {remote.name}", f"a damaged or truncated one in {path}", remedy)


def _read_record(record: Path, *, remedy: str) -> FileFacts:
    try:
        value = limits.read_json(record)
        return FileFacts(int(value["size"]), str(value["sha256"]))
    except (ValueError, KeyError, TypeError, OverflowError, OSError) as error:
        raise ChecksumError(f"size and sha256 in {record}", f"a damaged file ({error})", remedy) from error


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
