"""Options of a training run as typed on a command line: ``rank=30``, ``lr=1e-3,1e-4``."""

import json
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Union, get_args, get_origin, get_type_hints

from lrga.errors import OptionError
from lrga.experiments.cell import check_seeds
from lrga.training.config import SECTION_OF, SECTIONS, check_option
from lrga.training.presets import parse_budget

_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_PARSERS: dict[type, tuple[str, Callable[[str], Any]]] = {
    bool: ("true or false", lambda text: _TRUTH[text.lower()]),
    int: ("an integer", int),
    float: ("a number", float),
}


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Options with one value each.

    Example:
        >>> parse_settings(["lr=5e-4", "residual=false", "clip_gradient=none"])
        {'lr': 0.0005, 'residual': False, 'clip_gradient': None}
    """
    return {key: parse_value(key, text) for key, text in _pairs(texts, "lr=5e-4")}


def parse_grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Options with several values each, separated by commas.

    Example:
        >>> parse_grid(["rank=0,10,30", "lr=1e-3,1e-4"])
        {'rank': [0, 10, 30], 'lr': [0.001, 0.0001]}
    """
    grid = {}
    for key, text in _pairs(texts, "rank=0,10,30"):
        if Mapping in _kinds(key):  # JSON contains commas itself
            values = [parse_value(key, json.dumps(entry)) for entry in _json(key, f"[{text}]")]
        else:
            values = [parse_value(key, part.strip()) for part in text.split(",") if part.strip()]
        if not values:
            raise OptionError(f"values for {key}, separated by commas", repr(text), "write for example rank=0,10,30")
        if len({json.dumps(value) for value in values}) < len(values):
            raise OptionError(f"different values for {key}", text, "give each value once")
        grid[key] = values
    return grid


def merge_settings(named: Mapping[str, Any], texts: Sequence[str], *, elsewhere: Sequence[str] = ()) -> dict[str, Any]:
    """Options with their own flag on the command line, without those left out, together with those of ``--set``.

    Args:
        named: Options with their own flag.
        texts: Values of ``--set``, as typed.
        elsewhere: Options that ``--set`` does not accept, because the command has another way to set them.

    Example:
        >>> merge_settings({"device": "cpu", "preset": None}, ["dropout=0.1"])
        {'device': 'cpu', 'dropout': 0.1}
    """
    given = {key: value for key, value in named.items() if value is not None}
    settings = parse_settings(texts)
    if taken := [key for key in elsewhere if key in settings]:
        raise OptionError(f"{taken[0]} by its own option", f"--set {taken[0]}", "see --help")
    if twice := sorted(set(given) & set(settings)):
        raise OptionError(f"{twice[0]} once", "twice", "remove it from --set")
    return given | settings


def parse_seeds(texts: Sequence[str] | None, more: Sequence[str] = ()) -> tuple[int, ...] | None:
    """Seeds as typed, ``41,95`` or ``41 95``; of the latter, all but the first arrive in ``more``.

    Example:
        >>> parse_seeds(["41,95"]), parse_seeds(["41"], ["95", "12"]), parse_seeds(None)
        ((41, 95), (41, 95, 12), None)
    """
    if texts is None or not texts:
        if more:
            got = f"{' '.join(more)!r} left over"
            raise OptionError("no further arguments", got, "leave it out; see --help")
        return None
    parts = [part for text in (*texts, *more) for part in text.replace(",", " ").split()]
    try:
        return check_seeds([int(part) for part in parts])
    except ValueError as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError("seeds, integers", repr(" ".join(parts)), "write for example --seeds 41 95") from error


def parse_value(key: str, text: str) -> Any:
    """Converts ``text`` to the type of the option ``key``.

    Example:
        >>> parse_value("budget", "500k"), parse_value("max_epochs", "12"), parse_value("hidden", "none")
        ('500K', 12, None)
    """
    kinds = _kinds(key)
    if key == "budget":
        return parse_budget(text)
    if type(None) in kinds and text.lower() == "none":
        return None
    if Mapping in kinds:
        return _json(key, text)
    if key in ("encoding", "log_metrics"):
        return [part.strip() for part in text.split(",")]
    if list in kinds:  # of integers
        try:
            return [int(part) for part in text.split(",")]
        except ValueError as error:
            raise OptionError(f"{key} to be integers", repr(text), f"write for example {key}=10,5") from error
    accepted = [parser for kind, parser in _PARSERS.items() if kind in kinds]
    for _, parse in accepted:
        with suppress(ValueError, KeyError):
            return parse(text)
    if str in kinds:
        return text
    wanted = " or ".join([*(words for words, _ in accepted), *(["none"] if type(None) in kinds else [])])
    example = "true" if bool in kinds else "10" if int in kinds else "0.001"
    raise OptionError(f"{key} to be {wanted}", repr(text), f"write for example {key}={example}")


def _kinds(key: str) -> tuple[Any, ...]:
    """The types that an option accepts."""
    check_option(key)
    hint = get_type_hints(SECTIONS[SECTION_OF[key]])[key]
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(get_origin(kind) or kind for kind in kinds)


def _pairs(texts: Sequence[str], example: str) -> list[tuple[str, str]]:
    pairs, seen = [], set()
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise OptionError("an option as NAME=VALUE", repr(text), f"write for example {example}")
        if key in seen:
            raise OptionError(f"{key} once", "twice", "give all its values at once")
        seen.add(key)
        pairs.append((key, value.strip()))
    return pairs


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        example = '{"sizes": [1500, 250, 250]}'
        raise OptionError(f"{key} as JSON", repr(text), f"write for example {key}='{example}'") from error
