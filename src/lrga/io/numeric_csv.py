"""Large files of numbers, gzip-compressed CSV without a header, read block by block.

A block of some megabytes is decompressed, checked for its shape by the positions of its separators, and converted at
once by numpy: no Python object for a line or a number, and never more than a block of text in memory.
"""

import gzip
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError
from lrga.io.limits import MIN_LINE, check_memory, max_memory, show_bytes
from lrga.io.progress import Progress, silent

BLOCK_BYTES = 1 << 24
LARGEST = 1 << 10  # rows that a byte of a file can stand for: gzip makes text at most 1032 times smaller
_COMMA, _NEWLINE = ord(","), ord("\n")


def read_numbers(
    path: Path, *, dtype: type = np.int64, columns: int | None = None, rows: int | None = None,
    progress: Progress = silent,
) -> np.ndarray:  # fmt: skip
    """All numbers of a ``.csv.gz`` file (or one that is not compressed), ``[rows, columns]``.

    Args:
        path: The file.
        dtype: ``numpy.int64`` or ``numpy.float32``.
        columns: How many there must be; by default as many as in the first line.
        rows: How many there must be, where that is known: then exactly that memory is used.
        progress: Is told of the rows.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "edge.csv.gz"
        >>> _ = path.write_bytes(gzip.compress(b"4039,2424\\n4039,225\\n"))
        >>> read_numbers(path).tolist()
        [[4039, 2424], [4039, 225]]
    """
    parts: list[np.ndarray] = []
    result: np.ndarray | None = None
    done = held = 0
    for block in _blocks(path):
        part = _convert(block, path, dtype, columns, done)
        columns = part.shape[1]
        if rows is not None:
            if rows > LARGEST * max(1, path.stat().st_size):  # before memory is asked for
                raise _wrong_rows(path, rows, f"a file of {path.stat().st_size:,} bytes, too small for them")
            if result is None:
                check_memory(rows * columns * np.dtype(dtype).itemsize, f"{rows:,} rows of {path}")
                result = np.empty((rows, columns), dtype)
            if done + len(part) > rows:
                raise _wrong_rows(path, rows, f"more than {rows:,}")
            result[done : done + len(part)] = part
        else:
            parts.append(part)
            held += part.nbytes
            check_memory(held, f"the numbers of {path}")  # as much again when they are joined
        done += len(part)
        progress(f"reading {path.name}", done, rows)
    if rows is not None:
        if done != rows:
            raise _wrong_rows(path, rows, f"{done:,}")
        return np.empty((0, columns or 0), dtype) if result is None else result
    return np.concatenate(parts) if parts else np.empty((0, columns or 0), dtype)


def _blocks(path: Path) -> Iterator[bytes]:
    """Whole lines, without carriage returns, each with its line feed."""
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "copy it from the official archive")
    rest = b""
    try:
        with open(path, "rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        if path.suffix == ".gz" and not zipped:
            got = "an empty file" if path.stat().st_size == 0 else "no gzip file"
            raise ChecksumError(f"a gzip file {path}", got, f"delete {path} and get it again")
        longest = max(MIN_LINE, max_memory() // 1000)
        with gzip.open(path, "rb") if zipped else open(path, "rb") as file:
            while text := file.read(BLOCK_BYTES):
                text = (rest + text).replace(b"\r", b"")
                end = text.rfind(b"\n") + 1
                rest = text[end:]
                if len(rest) > longest:
                    got, remedy = "a longer one", f"delete {path} and get it again"
                    raise DataError(f"lines of at most {show_bytes(longest)} in {path}", got, remedy)
                if end:
                    yield text[:end]
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ChecksumError(f"a whole gzip file {path}", str(error), f"delete {path} and get it again") from error
    except LRGAError:
        raise
    except OSError as error:
        raise DataError(f"to read {path}", str(error.strerror or error), "check its permissions") from error
    if rest.strip():
        yield rest + b"\n"


def _convert(block: bytes, path: Path, dtype: type, columns: int | None, first_row: int) -> np.ndarray:
    text = np.frombuffer(block, np.uint8)
    separators = text[(text == _COMMA) | (text == _NEWLINE)]
    width = int(np.argmax(separators == _NEWLINE)) + 1
    expected = width if columns is None else columns
    is_end = separators == _NEWLINE
    count = int(is_end.sum())
    regular = len(separators) == count * expected and bool(is_end[expected - 1 :: expected].all())
    if not regular:
        line = _first_line(block, lambda fields: len(fields) != expected)
        raise _bad_line(path, first_row, line, block, f"{expected} number{'s' * (expected > 1)} on each line")
    values = _parse(block, dtype)
    if values is None or len(values) != count * expected:
        line = _first_line(block, lambda fields: any(_parse(field + b"\n", dtype) is None for field in fields))
        raise _bad_line(path, first_row, line, block, "numbers" if dtype is np.float32 else "whole numbers")
    if dtype is np.float32 and not np.isfinite(values).all():
        line = int(np.flatnonzero(~np.isfinite(values))[0]) // expected
        raise _bad_line(path, first_row, line, block, "finite numbers")
    return values.reshape(count, expected)


def _parse(text: bytes, dtype: type) -> np.ndarray | None:
    """The numbers of ``text``, ``None`` where it is not made of numbers alone."""
    flat = text.replace(b"\n", b",").removesuffix(b",")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # older versions of numpy warn where newer ones raise
        try:
            values: np.ndarray = np.fromstring(flat, dtype=dtype, sep=",")
        except (ValueError, DeprecationWarning):
            return None
    return values if len(values) == flat.count(b",") + 1 else None


def _first_line(block: bytes, is_bad) -> int:  # type: ignore[no-untyped-def]
    lines = block.split(b"\n")[:-1]
    return next((number for number, line in enumerate(lines) if is_bad(line.split(b","))), 0)


def _bad_line(path: Path, first_row: int, line: int, block: bytes, expected: str) -> DataError:
    text = block.split(b"\n", line + 1)[line][:60].decode("utf-8", "replace")
    got = f"{text!r} in {path}, line {first_row + line + 1:,}"
    return DataError(expected, got, "get the file again from its official source")


def _wrong_rows(path: Path, rows: int, got: str) -> DataError:
    return DataError(f"{rows:,} rows in {path}", got, "get all files again from one source: they do not fit together")
