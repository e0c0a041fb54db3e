"""Large files of numbers, gzip-compressed CSV without a header, and refused before they take more than memory holds."""

import gzip
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lrga.errors import ChecksumError, DataError
from lrga.io.limits import check_memory, limited_lines, reading
from lrga.io.progress import Progress, silent

BLOCK_ROWS = 1 << 20  # between two looks at the memory
MAX_ROWS_PER_BYTE = 1 << 10  # of a file: gzip makes text at most 1032 times smaller


def read_numbers(
    path: Path, *, dtype: type = np.int64, columns: int | None = None, rows: int | None = None,
    progress: Progress = silent,
) -> np.ndarray:  # fmt: skip
    """All numbers of a ``.csv.gz`` file (or one that is not compressed), ``[rows, columns]``, int64 or float32.

    There must be so many ``columns`` (by default as many as in the first line) and ``rows`` (where that is known).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "edge.csv.gz"
        >>> _ = path.write_bytes(gzip.compress(b"4039,2424\\n4039,225\\n"))
        >>> read_numbers(path).tolist()
        [[4039, 2424], [4039, 225]]
    """
    line = 0

    def lines(file: Any) -> Iterator[str]:
        nonlocal line
        for text in limited_lines(file, path):
            line += 1
            if line % BLOCK_ROWS == 0:
                check_memory(line * np.dtype(dtype).itemsize * (text.count(",") + 1), f"the numbers of {path}")
                progress(f"reading {path.name}", line, rows)
            yield text

    with (
        reading(path, remedy=f"delete {path} and get it again", damage=ChecksumError),
        gzip.open(path, "rt", encoding="ascii") if path.suffix == ".gz" else open(path, encoding="ascii") as file,
        warnings.catch_warnings(),
    ):
        if (size := path.stat().st_size) == 0 and path.suffix == ".gz":
            raise ChecksumError(f"a gzip file {path}", "an empty file", f"delete {path} and get it again")
        if rows is not None and rows > MAX_ROWS_PER_BYTE * max(1, size):  # before memory is asked for
            raise _wrong_rows(path, rows, f"a file of {size:,} bytes, too small for them")
        warnings.simplefilter("ignore", UserWarning)  # of a file without data
        warnings.simplefilter("error", DeprecationWarning)  # of 1.5 where a whole number belongs
        try:
            # One row more than there must be is enough to refuse the file.
            most = None if rows is None else rows + 1
            found: np.ndarray = np.loadtxt(lines(file), dtype, None, ",", ndmin=2, max_rows=most)
        except (ValueError, DeprecationWarning) as error:
            expected = f"as many {'numbers' if dtype is np.float32 else 'whole numbers'} on each line"
            got = f"others in {path}, line {line:,} ({error})"
            raise DataError(expected, got, "get the file again from its official source") from error
    if not len(found):
        found = np.empty((0, columns or 0), dtype)
    columns = columns or found.shape[1]
    if found.shape[1] != columns or not np.isfinite(found).all():
        got = f"{found.shape[1]} numbers, or some that are not finite, in {path} up to line {line:,}"
        raise DataError(f"{columns} finite number{'s' * (columns > 1)} on each line", got, "get it again")
    if rows is not None and len(found) != rows:
        raise _wrong_rows(path, rows, f"{len(found):,}" if len(found) < rows else f"more than {rows:,}")
    return found


def _wrong_rows(path: Path, rows: int, got: str) -> DataError:
    return DataError(f"{rows:,} rows in {path}", got, "get all files again from one source: they do not fit together")
