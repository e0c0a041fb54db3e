"""Official files: found on disk or downloaded, resumed after an interruption, verified before they get their name."""

import io
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from lrga.errors import ChecksumError, DataMissingError, LRGAError
from lrga.io import limits
from lrga.io.archive import is_whole
from lrga.io.building_lock import folder_lock
from lrga.io.files import BLOCK, FileFacts, facts_of, verify_file, writable, write_json
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


def obtain(
    remote: RemoteFile, folder: Path, *, progress: Progress = silent, download: bool = True, wait: float = 1.0
) -> Path:
    """Path of ``remote`` in ``folder``, downloaded if it is not there or damaged, and checked in any case.

    Where the publisher states no checksum, an archive must be whole, and the checksum of the first sight is recorded
    beside the file and holds from then on. A download that breaks off is retried and resumed; the bytes so far stay in
    a ``.part`` file that nobody reads as data. One process downloads at a time, the others wait for it.

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
    if path.exists() and record.is_file() and _problem(remote, path, record, remedy) is None:
        return path
    with folder_lock(folder):  # which other variants of the set share
        problem = _problem(remote, path, record, remedy) if path.exists() else None
        if not path.exists():
            if not download:
                raise _missing([remote], folder, "no such file, and downloading is off")
            _download(remote, path, progress=progress, wait=wait)
        elif problem is not None:
            if not download:
                raise problem
            recorded_damaged = remote.facts.sha256 is None and not is_whole(path)
            try:
                _download(remote, path, progress=progress, wait=wait)
            except DataMissingError as error:
                raise problem from error
            if recorded_damaged:
                record.unlink(missing_ok=True)
        if (problem := _problem(remote, path, record, remedy)) is not None:
            raise problem
        if not record.is_file():
            write_json(record, asdict(facts_of(path)) | {"url": remote.url})
    return path


def _problem(remote: RemoteFile, path: Path, record: Path, remedy: str) -> ChecksumError | None:
    """What is wrong with a file that is there, by what the publisher states, else by itself and its record."""
    try:
        verify_file(path, remote.facts, remedy=remedy)
        if remote.facts.sha256 is None and not is_whole(path):
            raise ChecksumError(f"a whole archive {path}", "a damaged or truncated one", remedy)
        if record.is_file():
            verify_file(path, _read_record(record, remedy=remedy), remedy=remedy)
    except ChecksumError as error:
        return error
    return None


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


def _read_record(record: Path, *, remedy: str) -> FileFacts:
    try:
        value = limits.read_json(record)
        return FileFacts(int(value["size"]), str(value["sha256"]))
    except (ValueError, KeyError, TypeError, OverflowError, OSError) as error:
        raise ChecksumError(f"size and sha256 in {record}", f"a damaged file ({error})", remedy) from error


def _download(remote: RemoteFile, path: Path, *, progress: Progress, wait: float) -> None:
    part = path.with_name(path.name + ".part")
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(ATTEMPTS):
        try:
            _fetch(remote, part, progress=progress)
            break
        except LRGAError:  # the disk's fault and not the network's
            raise
        except (OSError, HTTPException) as error:  # all that sockets, TLS and urllib raise is an OSError
            permanent = isinstance(error, urllib.error.HTTPError) and 400 <= error.code < 500 and error.code != 416
            if permanent or attempt == ATTEMPTS - 1:
                raise _missing([remote], path.parent, f"no such file, and downloading it failed ({error})") from error
            time.sleep(wait * 2**attempt)
    try:
        verify_file(part, remote.facts, remedy=f"try again; if it happens again, {remote.url} has changed")
    except ChecksumError:
        _forget(part)
        raise
    with writable(path):
        part.replace(path)
        _forget(part)


def _fetch(remote: RemoteFile, part: Path, *, progress: Progress) -> None:
    """Appends to ``part`` what it lacks, or starts afresh where the server's file is not the one begun with."""
    validator_file = part.with_name(part.name + ".validator")
    headers = {"User-Agent": f"lrga/{__version__}", "Accept-Encoding": "identity"}
    have = part.stat().st_size if part.is_file() else 0
    if have and validator_file.is_file():
        # If-Range: the server sends the rest only if the file is still the one of this validator.
        headers |= {"Range": f"bytes={have}-", "If-Range": validator_file.read_text()}
    try:
        response: HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(remote.url, headers=headers), timeout=TIMEOUT_SECONDS
        )
    except urllib.error.HTTPError as error:
        error.close()  # it is the server's answer, too, with the connection
        if error.code == 416:  # the part is no prefix of the file
            _forget(part)
        raise
    with response:
        resumed = response.status == 206
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        etag = response.headers.get("ETag")
        # A weak ETag ("W/…") does not promise equal bytes, so it cannot validate a range.
        validator = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
        with writable(part):
            if validator and not resumed:
                validator_file.write_text(validator)
            file = open(part, "ab" if resumed else "wb", buffering=0)  # noqa: SIM115 — closed just below
        with file:
            while block := response.read(BLOCK):  # outside of writable: a lost connection is no refusal to write
                _append(file, block, part)
                have += len(block)
                progress(f"downloading {remote.name}", have, total)
    if total is not None and have != total:
        raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")


def _append(file: io.FileIO, block: bytes, part: Path) -> None:
    rest = memoryview(block)
    with writable(part):
        while rest:  # a file without buffer may take a part only, as when the disk is nearly full
            rest = rest[file.write(rest) :]


def _forget(part: Path) -> None:
    for path in (part, part.with_name(part.name + ".validator")):
        path.unlink(missing_ok=True)


def _missing(remotes: Sequence[RemoteFile], folder: Path, got: str) -> DataMissingError:
    several = len(remotes) > 1
    return DataMissingError(
        f"the file{'s' if several else ''} {', '.join(str(folder / remote.name) for remote in remotes)}",
        got,
        "on a machine with a network, download "
        + ", ".join(f"{remote.url} and put it at {folder / remote.name}" for remote in remotes)
        + "; or build from files you have with --source FOLDER",
    )
