"""The user's own edge list: a text file with a pair of nodes on each line.

Columns are separated by commas, tabs, semicolons or spaces. With a header the columns are found by name (``source``,
``target``, ``weight``, ``time``, ``split`` and the usual other words); without one the first two are the pair, a third
is the weight and a fourth the time. Nodes are numbers or names. The file may be compressed with gzip (``.gz``).

A line that begins with ``#`` or ``%`` and a space (or with ``##``, ``%%``) is a comment. Without the space it is an
edge of a node such as ``#tag``, unless it stands before the first edge and has another number of columns or their
names (``#source target``).
"""

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from string import digits
from typing import Any

import numpy as np

from lrga.data.links.data import LinkData
from lrga.data.links.split import SplitRequest, split_edges
from lrga.errors import DataError, DataMissingError, LRGAError, OptionError
from lrga.io.limits import check_memory, limited_lines, open_regular
from lrga.io.progress import Progress, show_progress, silent

NAMES = {  # of columns, without case, spaces and - _ .
    "source": "source src from head u node1 id1 i a sourceid srcid fromid fromnode fromnodeid",
    "target": "target dst dest destination to tail v node2 id2 j b targetid dstid toid tonode tonodeid",
    "weight": "weight w value count",
    "time": "time timestamp year date t",
    "split": "split set fold",
}
_WORDS = {word: key for key, words in NAMES.items() for word in words.split()}
_COMMENT = re.compile(r"[#%](?:[\s#%]|$)")
BLOCK_LINES = 65_536
ROW_BYTES = 400  # of a line as Python objects, while the file is read
_SPLIT_WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}


@dataclass(frozen=True)
class EdgeList:
    """What an edge list says, nodes numbered from 0.

    Attributes:
        edge: ``[E', 2]``.
        node_ids: What node 0, 1, … is called: numbers in their order, or names in theirs.
        weight: ``[E']`` or ``None``.
        time: ``[E']`` or ``None``.
        split: ``[E']`` 0 train, 1 val, 2 test; or ``None``.
    """

    edge: np.ndarray
    node_ids: tuple[str, ...]
    weight: np.ndarray | None = None
    time: np.ndarray | None = None
    split: np.ndarray | None = None


def load_edge_list(
    path: str | Path,
    *,
    split: Sequence[float] | None = None,
    split_by: str | None = None,
    directed: bool = False,
    seed: int = 41,
    negatives: int | None = None,
) -> LinkData:
    """The graph of an edge list, its edges divided into those to train on and those to predict.

    Args:
        path: The file.
        split: Fractions of train, val and test, by default (0.8, 0.1, 0.1); refused where the split is given.
        split_by: ``"random"``; ``"time"``: the latest edges are to be predicted; ``"given"``: by the column ``split``.
            By default given where there is such a column, else random.
        directed: Whether a, b is another edge than b, a.
        seed: Of the random division and of the negative pairs.
        negatives: Negative pairs of val and of test; by default as many as edges, and at least 1,000 where the graph
            has so many pairs that are no edge.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "edges.csv"
        >>> _ = path.write_text("source,target\\n" + "".join(f"n{i},n{i * 7 % 30}\\n" for i in range(30)))
        >>> data = load_edge_list(path)
        >>> data.num_nodes, data.edge.size(0), data.meta["notes"]
        (30, 20, ['6 edges from a node to itself left out'])
    """
    with show_progress() as progress:
        listed = read_edge_list(path, progress=progress)
    if split is not None and (split_by == "given" or (split_by is None and listed.split is not None)):
        remedy = "leave it out, or divide otherwise: split_by='random' (--split-by random)"
        raise OptionError("one split of the edges", f"fractions beside the column split of {path}", remedy)
    split = (0.8, 0.1, 0.1) if split is None else split
    if isinstance(split, str) or not isinstance(split, Sequence):
        expected = "three fractions above 0 that add up to 1"
        raise OptionError(expected, repr(split), "write for example (0.8, 0.1, 0.1)")
    request = SplitRequest(fractions=tuple(split), by=split_by, directed=directed, seed=seed, negatives=negatives)
    return split_edges(
        listed.edge, listed.node_ids, request, weight=listed.weight, time=listed.time, given=listed.split,
        where=str(path),
    )  # fmt: skip


def read_edge_list(path: str | Path, *, progress: Progress = silent) -> EdgeList:
    """Reads the file, whatever its separator, with or without a header; ``progress`` is told of the bytes read."""
    path = _existing(path, "an edge list")

    def told(count: int, read: int, size: int) -> None:
        """Refuses a file as soon as its first lines let expect more of them than memory holds."""
        progress(f"reading {path.name} (bytes)", read, size)
        check_memory(ROW_BYTES * count * size // max(read, 1), f"the edges of {path}")

    rows: list[list[str]] = []
    lines: list[int] = []
    for some, numbers in _blocks(path, told):
        rows += some
        lines += numbers
    if not rows:
        got = "blank lines and comments alone (# or % begins one)" if path.stat().st_size else "an empty file"
        raise DataError(f"edges in {path}", got, "write two nodes on each line")
    width = len(rows[0])
    header = _header(rows)
    columns = _columns(path, header, width)
    if header is not None:
        rows, lines = rows[1:], lines[1:]
    if not rows:
        raise DataError(f"edges below the header of {path}", "none", "write two nodes on each line")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise DataError(f"{width} values", f"{len(row)} in {path}, line {line}", "complete the line")
    table = list(zip(*rows, strict=True))
    ends = [[text.strip() for text in table[columns[key]]] for key in ("source", "target")]
    for texts in ends:
        if "" in texts:
            at = lines[texts.index("")]
            raise DataError("two nodes on each line", f"none in {path}, line {at}", "write both, or drop the line")
    edge, ids = _number(path, *ends)
    more: dict[str, Any] = {
        key: _floats(path, key, table[columns[key]], lines) for key in ("weight", "time") if key in columns
    }
    if "split" in columns:
        more["split"] = _splits(path, table[columns["split"]], lines)
    return EdgeList(edge, ids, **more)


def _existing(path: str | Path, what: str) -> Path:
    path = Path(path).expanduser()
    if not path.is_file():
        got = "a folder" if path.is_dir() else "no such file"
        raise DataMissingError(f"{what} at {path}", got, "name a file with one pair of nodes a line")
    return path


def read_pairs(path: str | Path, *, nodes: Collection[str] = ()) -> Iterator[tuple[list[tuple[str, str]], list[int]]]:
    """Pairs of nodes by their names, and the line of each; read as an edge list is, some thousands at a time.

    Args:
        path: The file.
        nodes: Names of the nodes that there are: a first line of two of them is no header, whatever they are called.
    """
    path = _existing(path, "a list of pairs")
    columns: dict[str, int] = {}
    count = 0
    for rows, lines in _blocks(path):
        if not columns:
            is_pair = all(text.strip() in nodes for text in rows[0][:2])
            header = None if is_pair else _header(rows)
            columns = _columns(path, header, min(len(rows[0]), 4))
            if header is not None:
                rows, lines = rows[1:], lines[1:]
        for row, line in zip(rows, lines, strict=True):
            if len(row) <= max(columns["source"], columns["target"]):
                raise DataError("two nodes on each line", f"{len(row)} in {path}, line {line}", "complete the line")
        count += len(rows)
        yield [(row[columns["source"]].strip(), row[columns["target"]].strip()) for row in rows], lines
    if count == 0:
        raise DataError(f"pairs of nodes in {path}", "none", "write two nodes on each line")


def _lines(path: Path, told: Callable[[int, int, int], None] | None = None) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, but for blank ones and what can only be a comment.

    ``told`` is told, now and then, of the lines and bytes read and the bytes of the file.
    """
    try:
        with open_regular(path) as raw, gzip.open(raw) if path.suffix.lower() == ".gz" else raw as plain:
            size = os.fstat(raw.fileno()).st_size
            file = io.TextIOWrapper(plain, encoding="utf-8-sig")
            for number, line in enumerate(limited_lines(file, path), start=1):
                if told is not None and number % BLOCK_LINES == 0:
                    told(number, raw.tell(), size)
                if "\0" in line:  # UTF-16 without a mark at its beginning; and numpy drops zero bytes at a name's end
                    raise DataError(f"text in UTF-8 in {path}", "zero bytes, as of UTF-16", "save the file as UTF-8")
                if line.strip() and _COMMENT.match(line) is None:
                    yield number, line.removesuffix("\n")
    except LRGAError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"a whole gzip file {path}", str(error), "copy or compress it again") from error
    except UnicodeDecodeError as error:
        raise DataError(f"text in UTF-8 in {path}", "another encoding", "save the file as UTF-8") from error
    except OSError as error:
        raise DataError(f"to read {path}", str(error.strerror or error), "check its permissions") from error


def _blocks(
    path: Path, told: Callable[[int, int, int], None] | None = None
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Rows of texts and the number of each one's line, some thousands at a time."""
    lines = _lines(path, told)
    separator: str | None = None
    first = True
    while block := list(islice(lines, BLOCK_LINES)):
        if first:
            block = _without_comments(path, block)
        texts = [line for _, line in block]
        separator = _separator(path, texts) if first else separator
        if separator is None:
            rows = [line.split() for line in texts]
        else:
            try:
                rows = _split(texts, separator)
            except csv.Error as error:
                raise DataError(f"well-formed lines in {path}", str(error), "close every quotation mark") from error
            if len(rows) != len(block):
                at = next((number for number, line in block if line.count('"') % 2), 1)
                got = f"a line end within quotation marks in {path}, line {at}"
                raise DataError("names of one line", got, "remove it")
        if first and len(rows[0]) < 2:
            got = f"{texts[0][:60]!r} in {path}, line {block[0][0]}"
            raise DataError("two nodes on each line", got, "separate them by a comma, a tab, a semicolon or a space")
        first = False
        yield rows, [number for number, _ in block]


def _without_comments(path: Path, block: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without the lines before the first edge that begin with ``#`` or ``%`` and cannot be edges."""
    begin = next((k for k, (_, line) in enumerate(block) if line[0] not in "#%"), 0)
    if begin == 0:  # there is none before it, or all lines begin so
        return block
    separator = _separator(path, [line for _, line in block[begin:]])

    def columns(line: str) -> list[str]:
        return line.split() if separator is None else line.split(separator)

    width = len(columns(block[begin][1]))
    above = [entry for entry in block[:begin] if len(columns(entry[1])) == width]
    return [entry for entry in above if _header([columns(entry[1][1:])]) is None] + block[begin:]


def _split(lines: Sequence[str], separator: str) -> list[list[str]]:
    return list(csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=separator != "\t"))


def _separator(path: Path, lines: Sequence[str]) -> str | None:
    """What separates the columns: a tab before all else, for names may hold commas; ``None`` for spaces."""
    if "\t" in lines[0]:
        return "\t"
    found = [mark for mark in ",;" if mark in lines[0]]
    if len(found) == 2:  # one of them belongs to the values, as in a;b;0,5
        even = [mark for mark in found if _is_even(lines[:50], mark)]
        if len(even) == 2:
            remedy = "put values that hold one of them in quotation marks, and write 0.5, not 0,5"
            raise DataError(f"one separator in {path}", f"commas and semicolons: {lines[0][:60]!r}", remedy)
        found = even or found
    return found[0] if found else None


def _is_even(lines: Sequence[str], separator: str) -> bool:
    """Whether every line has as many columns."""
    try:
        return len({len(row) for row in _split(lines, separator)}) == 1
    except csv.Error:
        return False


def _header(rows: list[list[str]]) -> list[str] | None:
    """Names of the columns, ``None`` where the first line is an edge already."""
    first, others = [_word(text) for text in rows[0]], rows[1:50]
    keys = [_WORDS.get(word) for word in first]
    known = [key for word, key in zip(first, keys, strict=True) if key and len(word) > 1]  # one letter may be a node
    if len(known) >= 2 and {"source", "target"} & set(known):
        # unless they are nodes called node1, node2, and others are called node3, node4
        stems = {word.rstrip(digits) for word in first[:2] if word[-1:] in digits}
        below = [_word(text) for row in others for text in row[:2]]
        return None if any(word[-1:] in digits and word.rstrip(digits) in stems for word in below if word) else rows[0]
    if {"weight", "time", "split"} & set(keys[2:]):  # where numbers belong
        return rows[0]
    words = not any(_is_number(text) for text in rows[0][:2])
    numbers = all(len(row) >= 2 and _is_number(row[0]) and _is_number(row[1]) for row in others)
    return rows[0] if others and words and numbers else None


def _word(text: str) -> str:
    return re.sub(r"[\s_.-]", "", text).lower()


def _columns(path: Path, header: list[str] | None, width: int) -> dict[str, int]:
    if header is None:
        if width > 4:
            got = f"{width} columns without names in {path}"
            raise DataError("two to four columns: source, target, weight, time", got, "add a header")
        return dict(zip(("source", "target", "weight", "time")[:width], range(width), strict=True))
    found: dict[str, int] = {}
    for key in NAMES:
        places = [place for place, name in enumerate(header) if _WORDS.get(_word(name)) == key]
        if len(places) > 1:
            got = f"{' and '.join(header[p] for p in places)} in {path}"
            raise DataError(f"one column of {key}", got, "rename or drop one of the two")
        if places:
            found[key] = places[0]
    for place, key in enumerate(("source", "target")):  # whatever they are called, the first two are the pair
        if key not in found:
            if place in found.values():
                got = f"the columns {', '.join(header)} in {path}"
                raise DataError("columns source and target", got, "name them so")
            found[key] = place
    return found


def _number(path: Path, source: list[str], target: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Nodes numbered from 0 in the order of their ids: of the numbers where all are whole, else of the names.

    Names stay as they are written, 007 too.
    """
    texts = [*source, *target]
    try:
        numbers = np.array(list(map(int, texts)), dtype=np.int64)
        if any(str(number) != text for number, text in zip(numbers.tolist(), texts, strict=True)):
            raise ValueError("numbers in another form, as 007, +7 or 1_000")
        ids, inverse = np.unique(numbers, return_inverse=True)
    except (ValueError, OverflowError):
        # not by numpy, where every name would take as much memory as the longest
        names = sorted(set(texts))
        _refuse_two_forms(path, names)
        place = {name: number for number, name in enumerate(names)}
        inverse = np.fromiter(map(place.__getitem__, texts), np.int64, len(texts))
        return inverse.reshape(2, -1).T.copy(), tuple(names)
    return inverse.reshape(2, -1).T.astype(np.int64), tuple(map(str, ids.tolist()))


def _refuse_two_forms(path: Path, names: list[str]) -> None:
    """Refuses 7 beside 7.0 or 007 where all names are whole numbers: it is one node that would become two."""
    if not all(_is_number(name) and float(name).is_integer() for name in names):
        return
    seen: dict[int, str] = {}
    for name in names:
        number = int(float(name)) if not name.lstrip("+-").isdigit() else int(name)
        if seen.setdefault(number, name) != name:
            got = f"{seen[number]} and {name} in {path}"
            raise DataError("every node written in one way", got, "write the number alike on every line")


def _floats(path: Path, key: str, texts: Sequence[str], lines: Sequence[int]) -> np.ndarray:
    try:
        if any("_" in text for text in texts):
            raise ValueError("Python reads 1_000 as a number; a file that has it is more likely mistaken")
        values = np.array(list(map(float, texts)))
    except ValueError:
        values = np.array([_seconds(text.strip()) if key == "time" else np.nan for text in texts])
    if not np.isfinite(values).all():
        odd = [k for k, text in enumerate(texts) if not _is_number(text)]
        if key == "time":
            odd = [k for k in odd if not np.isfinite(_seconds(texts[k].strip()))]
        at = odd[0] if odd else int(np.flatnonzero(~np.isfinite(values))[0])
        what = "a number" if key == "weight" else "a number or a date such as 2024-05-31"
        what = what if odd else "numbers alone or dates alone"
        raise DataError(f"{what} as {key}", f"{texts[at]!r} in {path}, line {lines[at]}", "correct the line")
    return values


def _seconds(text: str) -> float:
    """Seconds since 1970 of a date as ISO 8601 writes it, one without a zone in UTC; NaN of what is none."""
    try:
        found = datetime.fromisoformat(f"{text}-01" if len(text) == len("2024-05") else text)
    except ValueError:
        return float("nan")
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _splits(path: Path, texts: Sequence[str], lines: Sequence[int]) -> np.ndarray:
    codes = np.array([_SPLIT_WORDS.get(text.strip().lower(), -1) for text in texts])
    if (codes < 0).any():
        at = int(np.flatnonzero(codes < 0)[0])
        raise DataError(
            "train, val or test as split", f"{texts[at]!r} in {path}, line {lines[at]}", "write one of them"
        )
    return codes


def _is_number(text: str) -> bool:
    try:
        return np.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False
