"""Large numeric files: CSV without a header, with or without gzip."""

import gzip
import warnings
from pathlib import Path

import numpy as np

from lrga.errors import ChecksumError, DataError
from lrga.io.limits import reading


def read_numbers(
    path: Path, *, dtype: type = np.int64, columns: int | None = None, rows: int | None = None
) -> np.ndarray:
    """Reads a ``.csv.gz`` file (or an uncompressed one) of numbers, ``[rows, columns]``, int64 or float32.

    The file must have this number of ``columns`` (by default that of the first line) and ``rows`` (if given).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "edge.csv.gz"
        >>> _ = path.write_bytes(gzip.compress(b"4039,2424\\n4039,225\\n"))
        >>> read_numbers(path).tolist()
        [[4039, 2424], [4039, 225]]
    """
    with (
        reading(path, "a complete gzip file", remedy=f"delete {path} and download it again", damage=ChecksumError),
        gzip.open(path, "rt", encoding="ascii") if path.suffix == ".gz" else open(path, encoding="ascii") as file,
        warnings.catch_warnings(),
    ):
        if path.stat().st_size == 0:
            raise ChecksumError(f"numbers in {path}", "an empty file", f"delete {path} and download it again")
        warnings.simplefilter("ignore", UserWarning)  # raised for a file without data
        warnings.simplefilter("error", DeprecationWarning)  # raised for 1.5 in place of an integer
        try:
            found: np.ndarray = np.loadtxt(file, dtype, None, ",", ndmin=2)
        except (ValueError, DeprecationWarning) as error:
            expected = f"the same number of {'numbers' if dtype is np.float32 else 'integers'} on each line"
            remedy = "download the file again from its official source"
            raise DataError(expected, f"other values in {path} ({error})", remedy) from error
    found = found if len(found) else np.empty((0, columns or 0), dtype)
    columns = columns or found.shape[1]
    if found.shape[1] != columns or not np.isfinite(found).all():
        got = f"{found.shape[1]} numbers, or some that are not finite, in {path}"
        raise DataError(f"{columns} finite number{'s' * (columns > 1)} on each line", got, "download it again")
    if rows is not None and len(found) != rows:
        remedy = "download all files again from one source: they do not fit together"
        raise DataError(f"{rows:,} rows in {path}", f"{len(found):,}", remedy)
    return found
