"""Conversion to float32 (7 digits) that reports lost precision."""

from collections.abc import Sequence

import numpy as np

from lrga.errors import DataError

MIN_STEPS = 1_000  # that float32 must have between the quartiles of what it merges


def as_float32(
    columns: Sequence[np.ndarray], names: Sequence[str], where: str, *, strict: bool = True
) -> tuple[np.ndarray, str | None]:
    """Columns ``[R]`` of numbers as one array ``[R, F]`` float32, and a note on values that became equal.

    Times in seconds since 1970, for example, are 128 seconds apart in float32: where that is coarse for the differences
    within a column, the column is refused.

    Args:
        columns: Of any numeric type, finite and within the range of float32.
        names: What each is called, for the note and the error.
        where: Where they come from, for the error.
        strict: ``False`` notes a coarse column instead of refusing it.

    Example:
        >>> as_float32([np.array([1, 2]), np.array([2**24, 2**24 + 1])], ["a", "b"], "f", strict=False)[1]
        "'b': 2 distinct values become 1 in float32 (7 digits)"
    """
    merged = []
    for name, column in zip(names, columns, strict=True):
        distinct, kept, coarse = _loss(column)
        if coarse and strict:
            got = f"{distinct:,} distinct values that become {kept:,} in float32, near {float(column[0]):.10g}"
            remedy = "subtract an offset such as the column's minimum, or remove the column if it is an id"
            raise DataError(f"values that float32 can distinguish in column {name!r} of {where}", got, remedy)
        if kept < distinct:
            merged.append(f"{name!r}: {distinct:,} distinct values become {kept:,} in float32")
    more = f", and {len(merged) - 3} more columns" if len(merged) > 3 else ""
    note = "; ".join(merged[:3]) + f"{more} (7 digits)" if merged else None
    return np.stack([column.astype(np.float32) for column in columns], axis=1), note


def is_coarse(column: np.ndarray) -> bool:
    """Whether float32 is too coarse for the differences between the values of a column ``[R]``."""
    return _loss(column)[2]


def _loss(column: np.ndarray) -> tuple[int, int, bool]:
    """Different values, how many of them float32 tells apart, and whether that is too coarse; (0, 0, False) if all."""
    with np.errstate(invalid="ignore", over="ignore"):  # float32 rounds 2⁶³ - 1 to 2⁶³, which is no int64
        if (column.astype(np.float32).astype(column.dtype) == column).all():
            return 0, 0, False
    values = np.unique(column)
    kept = len(np.unique(values.astype(np.float32)))
    if kept == len(values):
        return 0, 0, False
    low, high = float(values[len(values) // 4]), float(values[3 * len(values) // 4])
    step = float(np.spacing(np.float32(max(abs(low), abs(high)))))
    return len(values), kept, high - low < MIN_STEPS * step
