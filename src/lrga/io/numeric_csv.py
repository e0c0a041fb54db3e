"""Large files of numbers: CSV without a header, compressed with gzip or not."""

import gzip
import warnings
from pathlib import Path

import numpy as np

from lrga.errors import ChecksumError, DataError
from lrga.io.limits import reading


def read_numbers(
    path: Path, *, dtype: type = np.int64, columns: int | None = None, rows: int | None = None
) -> np.ndarray:
    """All numbers of a ``.csv.gz`` file (or one that is not compressed), ``[rows, columns]``, int64 or float32.

    There must be so many ``columns`` (by default as many as in the first line) and ``rows`` (where that is known).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "edge.csv.gz"
        >>> _ = path.write_bytes(gzip.compress(b"4039,2424\\n4039,225\\n"))
        >>> read_numbers(path).tolist()
        [[4039, 2424], [4039, 225]]
    """
    with (
        reading(path, remedy=f"delete {path} and get it again", damage=ChecksumError),
        gzip.open(path, "rt", encoding="ascii") if path.suffix == ".gz" else open(path, encoding="ascii") as file,
        warnings.catch_warnings(),
    ):
        if path.stat().st_size == 0:
            raise ChecksumError(f"numbers in {path}", "an empty file", f"delete {path} and get it again")
        warnings.simplefilter("ignore", UserWarning)  # of a file without data
        warnings.simplefilter("error", DeprecationWarning)  # of 1.5 where a whole number belongs
        try:
            found: np.ndarray = np.loadtxt(file, dtype, None, ",", ndmin=2)
        except (ValueError, DeprecationWarning) as error:
            expected = f"as many {'numbers' if dtype is np.float32 else 'whole numbers'} on each line"
            remedy = "get the file again from its official source"
            raise DataError(expected, f"others in {path} ({error})", remedy) from error
    found = found if len(found) else np.empty((0, columns or 0), dtype)
    columns = columns or found.shape[1]
    if found.shape[1] != columns or not np.isfinite(found).all():
        got = f"{found.shape[1]} numbers, or some that are not finite, in {path}"
        raise DataError(f"{columns} finite number{'s' * (columns > 1)} on each line", got, "get it again")
    if rows is not None and len(found) != rows:
        remedy = "get all files again from one source: they do not fit together"
        raise DataError(f"{rows:,} rows in {path}", f"{len(found):,}", remedy)
    return found
