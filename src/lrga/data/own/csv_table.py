"""One CSV file as columns, where every complaint names the file, the line and what to do.

The file is read in blocks of rows whose numbers are converted column by column; only when a block does not convert is
it gone through value by value, to find the line.
"""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from lrga.errors import DataError, DataMissingError
from lrga.io.limits import limited_lines

BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Table:
    """A CSV file in memory.

    Attributes:
        path: The file.
        texts: The columns kept as text (ids, splits, names of classes), without the spaces around them.
        numbers: The columns of numbers, int64 where every value is written as an integer, else float64; all finite. A
            blank label is 0 or NaN.
        rows: Number of rows below the header.
        blank: Label → [rows] where it is blank, for the labels that may be.
    """

    path: Path
    texts: dict[str, list[str]]
    numbers: dict[str, np.ndarray]
    rows: int
    blank: dict[str, np.ndarray] = field(default_factory=dict)

    def error(self, row: int, expected: str, got: str, remedy: str) -> DataError:
        """An error about ``row`` (0 is the first below the header) that names file and line."""
        return _error(self.path, row, expected, got, remedy)


def read_table(
    path: Path,
    *,
    texts: Sequence[str],
    required: Sequence[str] = (),
    labels: Sequence[str] = (),
    blanks: Sequence[str] = (),
    may_be_empty: bool = False,
) -> Table:
    """Reads the CSV file ``path``: UTF-8, comma-separated, names of the columns in the first line.

    Args:
        path: The file.
        texts: Columns to keep as text, where they are there; all the others must hold numbers.
        required: Columns that must be there.
        labels: Columns that may hold names of classes: kept as text if their first value is no number.
        blanks: Texts and labels that may be blank in some rows.
        may_be_empty: Whether a header without rows will do.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "nodes.csv"
        >>> _ = path.write_text("node,x0,x1\\na,1,0.5\\nb,2,oops\\n")
        >>> read_table(path, texts=["node"])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected a number in column 'x1', got 'oops' in ...nodes.csv, line 3. To fix: write a ...
    """
    with _open(path) as (header, body):
        _check_header(path, header, required)
        wanted = {*texts, *labels}
        kept: dict[str, list[str]] = {name: [] for name in header if name in wanted}
        parts: dict[str, list[np.ndarray]] = {name: [] for name in header if name not in wanted}
        count = 0
        while block := list(islice(body, BLOCK_ROWS)):
            _check_widths(path, header, block, count)
            columns = dict(zip(header, zip(*block, strict=True), strict=True))
            for name, values in kept.items():
                values.extend(map(str.strip, columns[name]))
            for name, blocks in parts.items():
                blocks.append(_numbers(path, name, columns[name], range(count, count + len(block))))
            count += len(block)
    if count == 0 and not may_be_empty:
        remedy = "write one row for each item, or take the file away if there is none"
        raise DataError(f"rows below the header in {path}", "a header alone (line 1)", remedy)
    for name in set(kept) - {*labels, *blanks}:
        if "" in kept[name]:
            row = kept[name].index("")
            raise _error(path, row, f"a value in column {name!r}", "nothing", "write it, or take the row away")
    joined = {name: np.concatenate([np.zeros(0, np.int64), *blocks]) for name, blocks in parts.items()}
    blank: dict[str, np.ndarray] = {}
    # Only now that a label is read to its end is it known whether it is a number: its first rows may be blank.
    for name in [name for name in labels if name in kept]:
        filled = [row for row, text in enumerate(kept[name]) if text or name not in blanks]
        if filled and _is_name(kept[name][filled[0]]):
            _check_names(path, name, kept[name], filled)
        else:
            values = kept.pop(name)
            numbers = _numbers(path, name, [values[row] for row in filled], filled, label=True)
            joined[name] = np.full(count, 0 if numbers.dtype.kind == "i" else np.nan, numbers.dtype)
            joined[name][filled] = numbers
        if name in blanks:
            blank[name] = np.ones(count, dtype=bool)
            blank[name][filled] = False
    return Table(path, kept, joined, count, blank)


@contextmanager
def _open(path: Path) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """Header and rows of ``path`` without the blank lines; what goes wrong while they are read is put into words."""
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "write it, or name the folder that holds it")
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(limited_lines(file, path), strict=True)
            try:
                rows = filter(None, reader)
                yield [name.strip() for name in next(rows, [])], rows
            except csv.Error as error:
                remedy = "close every quotation mark, double those inside a quoted text, end lines with a line feed"
                raise DataError("well-formed CSV", f"{error} in {path}, line {reader.line_num}", remedy) from error
    except UnicodeDecodeError as error:
        remedy = "save the file as CSV in UTF-8 (in a spreadsheet: 'CSV UTF-8'; elsewhere: iconv -t UTF-8)"
        got = f"a byte of another encoding in {path}, line {_line_of_bad_text(path)}"
        raise DataError("text in UTF-8", got, remedy) from error
    except OSError as error:
        raise DataError(
            f"to read {path}", str(error.strerror or error), "check the file and its permissions"
        ) from error


def _line_of_bad_text(path: Path) -> int:
    content = path.read_bytes()
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return 1 + content[: error.start].count(b"\n")
    return 1


def _error(path: Path, row: int, expected: str, got: str, remedy: str) -> DataError:
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        next(islice(filter(None, reader), row + 1, None))
        return DataError(expected, f"{got} in {path}, line {reader.line_num}", remedy)


def _check_header(path: Path, header: list[str], required: Sequence[str]) -> None:
    if not header:
        raise DataError(f"a header and rows in {path}", "an empty file", "write the names of the columns in line 1")
    if "" in header:
        got = f"no name for column {header.index('') + 1} in {path}, line 1"
        raise DataError("a name for every column", got, "name the column, or take away the comma too many")
    if twice := [name for name in header if header.count(name) > 1]:
        got = f"{twice[0]!r} twice in {path}, line 1"
        raise DataError("different names for the columns", got, "rename or take away one of the two")
    if missing := [name for name in required if name not in header]:
        hint = "; separate the columns by commas" if len(header) == 1 and any(c in header[0] for c in ";\t|") else ""
        expected = f"the column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}"
        got = f"the columns {', '.join(map(repr, header))} in {path}, line 1"
        raise DataError(expected, got, f"add what is missing, or rename the column that is meant{hint}")


def _check_widths(path: Path, header: list[str], block: list[list[str]], first: int) -> None:
    if set(map(len, block)) == {len(header)}:
        return
    for row, values in enumerate(block, first):
        if len(values) != len(header):
            expected = f"{len(header)} values ({', '.join(header)})"
            remedy = "complete the row, or put a value that contains a comma in quotation marks"
            raise _error(path, row, expected, f"{len(values)}", remedy)


def _numbers(path: Path, name: str, texts: Sequence[str], rows: Sequence[int], *, label: bool = False) -> np.ndarray:
    """The values of a column, which stand in ``rows``: int64 where all are written as integers, else float64."""
    if "_" in "".join(texts):  # Python reads 1_000 as a number; a CSV file that has it is more likely mistaken
        row, text = next((row, text) for row, text in zip(rows, texts, strict=True) if "_" in text)
        remedy = "write the number without underscores (1000), or take the column away if it is no feature"
        raise _error(path, row, f"a number in column {name!r}", repr(text), remedy)
    try:
        return np.fromiter(map(int, texts), np.int64, len(texts))
    except (ValueError, OverflowError):
        values = _floats(texts)
        if label:
            _check_labels(path, name, texts, rows)
    if values is not None and np.isfinite(values).all():
        return values
    row, text = next((row, text) for row, text in zip(rows, texts, strict=True) if not _is_finite(text))
    remedy = "write a finite number with a decimal point, or take the column away if it is no feature"
    raise _error(path, row, f"a number in column {name!r}", repr(text) if text.strip() else "nothing", remedy)


def _check_labels(path: Path, name: str, texts: Sequence[str], rows: Sequence[int]) -> None:
    """Integers are classes: one beyond int64 must not make numbers to predict of them."""
    try:
        whole = list(map(int, texts))
    except ValueError:
        return
    row, value = next((row, value) for row, value in zip(rows, whole, strict=True) if not -(2**63) <= value < 2**63)
    remedy = "write classes as names (c1, c2, …) or smaller numbers, and numbers to predict with a decimal point"
    raise _error(path, row, f"labels from -2⁶³ to 2⁶³ - 1 in column {name!r}", str(value), remedy)


def _floats(texts: Sequence[str]) -> np.ndarray | None:
    try:
        return np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        return None


def _is_finite(text: str) -> bool:
    values = _floats([text])
    return values is not None and bool(np.isfinite(values[0]))


def _is_name(text: str) -> bool:
    return bool(text.strip()) and _floats([text]) is None


def _check_names(path: Path, name: str, values: list[str], rows: Sequence[int]) -> None:
    """A column whose first value is a name must hold names alone: a number among them is a mistake, as is a gap."""
    for row in rows:
        if not _is_name(values[row]):
            got = f"{values[row]!r} (an earlier row has {values[rows[0]]!r})" if values[row] else "nothing"
            expected = f"numbers alone or names of classes alone in column {name!r}"
            raise _error(path, row, expected, got, "write the same kind throughout")
