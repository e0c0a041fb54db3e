"""Values of a user's graphs from any source."""

import math
from collections.abc import Sequence

import numpy as np

from lrga.errors import DataError

MIN_STEPS = 1_000  # float32 steps required between the quartiles of merged values


def no_target(level: str | None, source: str, found: str = "none") -> DataError:
    """The error for graphs without a target (of ``level``, if given)."""
    wanted = "a target" if level is None else f"a target for each {level}"
    remedy = "add y: a column of nodes.csv, edges.csv or graphs.csv, or an attribute of the Data objects"
    return DataError(f"{wanted} (y) in {source}", found, remedy)


def number(text: str) -> float | None:
    """``text`` as a number, including NaN and infinity; ``None`` if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return None


def finite(text: str) -> float:
    """``text`` as a finite number, else NaN.

    Python reads 1_000 as a number; in a file it is more likely a mistake.
    """
    value = number(text)
    return value if value is not None and math.isfinite(value) and "_" not in text else math.nan


def as_float32(
    columns: Sequence[np.ndarray], names: Sequence[str], level: str, where: str, notes: list[str], *, strict: bool
) -> np.ndarray:
    """Converts numeric columns ``[R]`` to features ``[R, F]`` float32 (7 digits).

    A column is an error if float32 is too coarse for the differences within it. For example, float32 values of times
    in seconds since 1970 are 128 seconds apart.

    Args:
        columns: Columns of any numeric type, finite and within the range of float32.
        names: Name of each column.
        level: Level of the features: ``"node"`` or ``"edge"``.
        where: Origin, for the error.
        notes: List to which notes are appended.
        strict: ``False`` adds a note for a coarse column instead of raising an error.

    Example:
        >>> notes = []
        >>> columns = [np.array([0.5, 2.0]), np.array([2**24, 2**24 + 1])]
        >>> _ = as_float32(columns, ["a", "b"], "node", "nodes.csv", notes, strict=False)
        >>> notes
        ["float32 (7 digits) is coarse for the node feature 'b', near 16777216"]
    """
    for name, column in zip(names, columns, strict=True):
        if is_coarse(column):
            got = f"float32 (7 digits) is coarse for the {level} feature {name!r}, near {float(column[0]):.10g}"
            if strict:
                remedy = "subtract an offset such as the column's minimum, or remove the column if it is an id"
                raise DataError(f"values that float32 can distinguish in column {name!r} of {where}", got, remedy)
            notes.append(got)
    if len(columns) > 1 and all(column.size and column.dtype.kind in "iu" for column in columns):
        notes.append(f"{len(columns)} integer {level} features are used as numbers, not as categories")
    return np.stack([column.astype(np.float32) for column in columns], axis=1)


def is_coarse(column: np.ndarray) -> bool:
    """Whether float32 merges values of a column ``[R]`` and has few steps between its quartiles."""
    with np.errstate(invalid="ignore", over="ignore"):  # float32 rounds 2⁶³ - 1 to 2⁶³, which int64 cannot hold
        if (column.astype(np.float32).astype(column.dtype) == column).all():
            return False
    values = np.unique(column)
    if len(np.unique(values.astype(np.float32))) == len(values):
        return False
    low, high = float(values[len(values) // 4]), float(values[3 * len(values) // 4])
    return high - low < MIN_STEPS * float(np.spacing(np.float32(max(abs(low), abs(high)))))
