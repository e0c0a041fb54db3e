"""``metrics.jsonl`` as it stands, be it half written or damaged."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from lrga.errors import DataError
from lrga.io import limits
from lrga.io.documents import is_number
from lrga.training.callbacks.events import EpochRecord

COLUMNS = tuple(field.name for field in fields(EpochRecord) if field.name != "numbers")


def read_metrics(path: str | Path) -> tuple[list[dict[str, float]], list[str]]:
    """The sound epochs of the file, and what was wrong with its other lines.

    A run that is still trained may have written half of its last line: that is no fault and left out.

    Example:
        >>> import tempfile
        >>> read_metrics(tempfile.mkdtemp() + "/metrics.jsonl")
        ([], [])
    """
    try:
        content = limits.read_bytes(Path(path))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{Path(path).name}: {error.strerror or error}"]
    except DataError as error:
        return [], [str(error)]
    whole, _, rest = content.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    epochs: list[dict[str, float]] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        epoch, fault = _epoch(line)
        if epoch is not None:
            epochs.append(epoch)
        elif fault is not None:
            faults.append(f"{Path(path).name}, line {number}: {fault}")
    epoch, _ = _epoch(rest) if rest else (None, None)
    return (epochs if epoch is None else [*epochs, epoch]), faults


def _epoch(line: bytes) -> tuple[dict[str, float] | None, str | None]:
    try:
        values: Any = limits.parse_json(line)
    except ValueError:
        return None, "no JSON"
    if not isinstance(values, dict) or any(not is_number(values.get(name)) for name in COLUMNS):
        return None, "not the numbers of an epoch"
    numbers = values.get("numbers", {})
    logged = {name: value for name, value in numbers.items() if is_number(value)} if isinstance(numbers, dict) else {}
    return logged | {name: values[name] for name in COLUMNS}, None
