"""JSON documents: written atomically, with a checksum, and checked field by field on reading."""

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from lrga.errors import CheckpointError, LRGAError, OptionError
from lrga.io import limits
from lrga.io.files import write_bytes

_SEAL = "sha256"
T = TypeVar("T")


def to_json_bytes(value: Any) -> bytes:
    """Indented JSON in UTF-8; NaN and infinity are errors, because other readers reject them."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode(errors="backslashreplace")  # lone surrogates, as in a path that is not UTF-8: \\udcff


def write_json(path: Path, value: Any, *, error: type[LRGAError] = CheckpointError) -> None:
    """Writes :func:`to_json_bytes` atomically."""
    write_bytes(path, to_json_bytes(value), error=error)


def read_json(path: Path) -> Any:
    """Reads a document of a run, written by :func:`write_json`."""
    if not path.exists():
        raise CheckpointError(f"the file {path}", "no such file", "pass the folder of a run of lrga train")
    with limits.reading(path, "JSON in", remedy="restore the file, or train again", damage=CheckpointError):
        return limits.parse_json(limits.read_bytes(path, error=CheckpointError), finite=True)


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with their checksum, which :func:`unsealed` verifies.

    Example:
        >>> unsealed(sealed({"epoch": 3}), Path("state.json"))
        {'epoch': 3}
    """
    return {**values, _SEAL: _checksum(values)}


def unsealed(values: Any, path: Path) -> dict[str, Any]:
    """The values passed to :func:`sealed`; changed values are an error. Files of older versions have no checksum."""
    remedy = "restore the file, or train again"
    if not isinstance(values, dict):
        raise CheckpointError(f"a JSON object in {path}", repr(values)[:80], remedy)
    found = {key: value for key, value in values.items() if key != _SEAL}
    if _SEAL in values and values[_SEAL] != _checksum(found):
        raise CheckpointError(f"{path} as it was written", "content that does not match its checksum", remedy)
    return found


def _checksum(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, allow_nan=False).encode()).hexdigest()


def is_number(value: Any) -> bool:
    """Whether ``value`` is a finite number within the range of float (integers in JSON are unbounded).

    Example:
        >>> is_number(1.5), is_number(float("nan")), is_number(10**400), is_number(True)
        (True, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


_hints = functools.cache(get_type_hints)  # cached, because every record needs them


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Raises an error if values of a dataclass's fields have the wrong type, are not finite, or exceed 64 bits.

    Only fields of plain types (numbers, text, bool), possibly optional, are checked.
    """
    hints = _hints(kind)
    for name, value in values.items():
        allowed = set(get_args(hints[name])) if isinstance(hints[name], UnionType) else {hints[name]}
        if allowed <= _PLAIN.keys() and not any(_PLAIN[one][1](value) for one in allowed):
            words = " or ".join(word for one, (word, _) in _PLAIN.items() if one in allowed)
            raise OptionError(f"{name} to be {words}", repr(value)[:80], f"pass another {name}")


def check_keys(kind: type, values: Any, what: str) -> None:
    """Raises an error if JSON values have unknown keys, or lack a field of a dataclass without default."""
    needed = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(kind)}
    if not isinstance(values, Mapping):
        raise OptionError(f"{what} as an object with {', '.join(needed)}", repr(values)[:80], "write a JSON object")
    if unknown := [key for key in values if key not in needed]:
        got = f"the key {unknown[0]!r}"
        raise OptionError(f"{what} with keys from {', '.join(needed)}", got, "correct or remove it")
    if missing := [name for name in needed if needed[name] and name not in values]:
        raise OptionError(f"{what} with the key {missing[0]!r}", f"keys {', '.join(values) or '(none)'}", "add it")


def read_fields(kind: type[T], values: Any, what: str) -> T:
    """Creates a dataclass object from JSON values; errors name unknown, missing and mistyped keys."""
    check_keys(kind, values, what)
    check_fields(kind, values)
    return kind(**values)


def _is_integer(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**63


_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("an integer", _is_integer),
    list[str]: ("a list of text", lambda value: isinstance(value, list) and all(isinstance(v, str) for v in value)),
    list[int]: ("a list of integers", lambda value: isinstance(value, list) and all(map(_is_integer, value))),
    float: ("a number", is_number),
    dict[str, float]: ("numbers by name", lambda own: isinstance(own, dict) and all(map(is_number, own.values()))),
    str: ("text", lambda value: isinstance(value, str)),
    type(None): ("null", lambda value: value is None),
}
