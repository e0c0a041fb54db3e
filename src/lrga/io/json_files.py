"""Writing into a run folder: whole or not at all, and an answer in words where the system refuses."""

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args, get_type_hints

from lrga.errors import CheckpointError, OptionError
from lrga.io import limits
from lrga.io.files import temporary_beside

_FULL = {errno.ENOSPC, errno.EFBIG} | ({errno.EDQUOT} if hasattr(errno, "EDQUOT") else set())
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write ``path`` into an error that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            remedy = "free some space, then continue from the last checkpoint, which is whole: lrga train --resume RUN"
        elif error.errno in _READ_ONLY:
            remedy = "choose a folder that may be written to (--output), or allow writing"
        else:
            remedy = "see that the folder can be written to, or choose another one (--output)"
        raise CheckpointError(f"to write {path}", reason, remedy) from error


def write_file(path: Path, content: bytes) -> None:
    """Writes and waits until the disk has it. Not atomic: for files inside a folder that is moved into place."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Writes ``path`` atomically: whenever the writer is killed, a reader sees the old file or the new one."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(path) as temporary:
            write_file(temporary, content)
            os.replace(temporary, path)
        sync_folder(path.parent)


def replace_json(path: Path, value: Any) -> None:
    """Writes JSON atomically; NaN and infinity are refused, as other readers would refuse them."""
    replace_file(path, to_json_bytes(value))


def to_json_bytes(value: Any) -> bytes:
    """JSON, indented, in UTF-8."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Reads what :func:`replace_json` wrote."""
    try:
        return parse_json(limits.read_bytes(path, error=CheckpointError))
    except FileNotFoundError as error:
        raise CheckpointError(f"the file {path}", "no such file", "name the folder of a run of lrga train") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"JSON in {path}", str(error), "restore the file, or train anew") from error


def check_plain(path: Path) -> None:
    """Refuses a link, a pipe or a device among the files that a run writes to: the folder may be somebody else's."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        got = "a link to another file" if path.is_symlink() else "a pipe, a device or a folder"
        raise CheckpointError(f"a plain file at {path}", got, "delete it")


def parse_json(text: str | bytes) -> Any:
    """JSON without NaN and infinity, which Python alone would accept."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name}, which is no number of JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise ValueError("brackets nested too deeply") from error


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with a checksum of them, which :func:`unsealed` compares.

    Example:
        >>> unsealed(sealed({"epoch": 3}), Path("state.json"))
        {'epoch': 3}
    """
    return {**values, _SEAL: _checksum(values)}


def unsealed(values: Any, path: Path) -> dict[str, Any]:
    """What was :func:`sealed`; refused where it was changed. Files of older versions have no checksum."""
    remedy = "restore the file, or train anew"
    if not isinstance(values, dict):
        raise CheckpointError(f"a JSON object in {path}", repr(values)[:80], remedy)
    found = {key: value for key, value in values.items() if key != _SEAL}
    if _SEAL in values and values[_SEAL] != _checksum(found):
        raise CheckpointError(f"{path} as it was written", "a content that does not match its checksum", remedy)
    return found


def _checksum(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, allow_nan=False).encode()).hexdigest()


def is_number(value: Any) -> bool:
    """Whether it is a finite number, of a size that a float can hold (JSON's integers have no end).

    Example:
        >>> is_number(1.5), is_number(float("nan")), is_number(10**400), is_number(True)
        (True, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Refuses values of a dataclass's fields that are of another type, not finite, or beyond 64 bits.

    Only fields of plain types (numbers, text, truth values) and those that may be ``None`` are looked at.
    """
    hints = get_type_hints(kind)
    for name, value in values.items():
        allowed = set(get_args(hints[name])) or {hints[name]}
        if allowed <= _FITS.keys() and not any(_FITS[one](value) for one in allowed):
            words = " or ".join(_WORDS[one] for one in _WORDS if one in allowed)
            raise OptionError(f"{name} to be {words}", repr(value)[:80], f"write another {name}")


_SEAL = "sha256"
_FITS: dict[Any, Callable[[Any], bool]] = {
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63,
    float: is_number,
    str: lambda value: isinstance(value, str),
    list[int]: lambda value: isinstance(value, list) and all(type(one) is int and abs(one) < 2**63 for one in value),
    type(None): lambda value: value is None,
}
_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    list[int]: "a list of integers",
    float: "a number",
    str: "text",
    type(None): "null",
}


def place_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Makes the folder ``target`` with these files, atomically: it is there whole or not at all."""
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=target.parent))
        try:
            os.chmod(temporary, 0o777 & ~_umask())
            for name, content in files.items():
                write_file(temporary / name, content)
            sync_folder(temporary)
            if target.exists():  # a damaged one: a folder cannot replace another in one step
                shutil.rmtree(target)
            os.rename(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # gone already where all went well
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames inside ``folder`` survive a power cut, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
