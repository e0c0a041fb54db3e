"""The user's own edge list: a text file with a pair of nodes on each line.

Columns are separated by tabs, commas, semicolons or spaces, the first of these that the first line has. With a header
the columns are found by name (``source``, ``target``, ``weight``, ``time``, ``split`` and the usual other words);
without one the first two are the pair, a third is the weight and a fourth the time. Nodes are numbers or names. The
file may be compressed with gzip (``.gz``).

A first line is a header if it names source and target, or a third column, or if it has words where numbers follow. A
line that begins with ``#`` or ``%`` and a space (or with ``##``, ``%%``) is a comment.
"""

import csv
import gzip
import io
import math
import re
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lrga.data.links.data import LinkData
from lrga.data.links.split import SplitRequest, split_edges
from lrga.data.own.table import finite
from lrga.errors import DataError, OptionError
from lrga.io.limits import open_regular, reading

NAMES = {  # of columns, without case, spaces and # % - _ .
    "source": "source src from head node1 id1 sourceid srcid fromid fromnode fromnodeid",
    "target": "target dst dest destination to tail node2 id2 targetid dstid toid tonode tonodeid",
    "weight": "weight w value count",
    "time": "time timestamp year date t",
    "split": "split set fold",
}
_WORDS = {word: key for key, words in NAMES.items() for word in words.split()}
_COMMENT = re.compile(r"[#%](?:[\s#%]|$)")
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
        directed: Whether edges are directed.
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
    listed = read_edge_list(path)
    if split is not None and (split_by == "given" or (split_by is None and listed.split is not None)):
        remedy = "leave it out, or divide otherwise: split_by='random' (--split-by random)"
        raise OptionError("one split of the edges", f"fractions beside the column split of {path}", remedy)
    fractions = (0.8, 0.1, 0.1) if split is None else split
    request = SplitRequest(fractions=fractions, by=split_by, directed=directed, seed=seed, negatives=negatives)
    return split_edges(
        listed.edge, listed.node_ids, request, weight=listed.weight, time=listed.time, given=listed.split,
        where=str(path),
    )  # fmt: skip


def read_edge_list(path: str | Path) -> EdgeList:
    """Reads the file, whatever its separator, with or without a header."""
    path = Path(path).expanduser()
    columns, rows, lines = _read(path)
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width or "" in (row[columns["source"]], row[columns["target"]]):
            got = f"{', '.join(row)[:80]!r} in {path}, line {line}"
            raise DataError(f"two nodes, and {width} values, on each line", got, "complete the line, or drop it")
    table = list(zip(*rows, strict=True))
    edge, ids = _number(path, [*table[columns["source"]], *table[columns["target"]]])
    more: dict[str, Any] = {
        key: _floats(path, key, table[columns[key]], lines) for key in ("weight", "time") if key in columns
    }
    if "split" in columns:
        texts = table[columns["split"]]
        more["split"] = np.array([_SPLIT_WORDS.get(text.lower(), -1) for text in texts])
        if (odd := more["split"] < 0).any():
            at = int(np.argmax(odd))
            got = f"{texts[at]!r} in {path}, line {lines[at]}"
            raise DataError("train, val or test as split", got, "write one of them")
    return EdgeList(edge, ids, **more)


def read_pairs(path: str | Path, *, nodes: Collection[str] = ()) -> tuple[list[tuple[str, str]], list[int]]:
    """Pairs of nodes by their names, and the line of each; read as an edge list is.

    Args:
        path: The file.
        nodes: Names of the nodes that there are: a first line of two of them is no header, whatever they are called.
    """
    path = Path(path).expanduser()
    columns, rows, lines = _read(path, nodes=nodes, most=None)
    source, target = columns["source"], columns["target"]
    for row, line in zip(rows, lines, strict=True):
        if len(row) <= max(source, target):
            raise DataError("two nodes on each line", f"{len(row)} in {path}, line {line}", "complete the line")
    return [(row[source], row[target]) for row in rows], lines


def _read(
    path: Path, *, nodes: Collection[str] = (), most: int | None = 4
) -> tuple[dict[str, int], list[list[str]], list[int]]:
    """Where each column is, the values of each line, and its number; ``most`` columns where they have no names."""
    opened = gzip.open if path.suffix.lower() == ".gz" else nullcontext
    with reading(path, remedy="copy or compress it again"), open_regular(path) as raw, opened(raw) as plain:
        file = io.TextIOWrapper(plain, encoding="utf-8-sig")
        found = [(n, t.removesuffix("\n")) for n, t in enumerate(file, 1) if t.strip() and _COMMENT.match(t) is None]
    if not found:
        got = "blank lines and comments alone (# or % begins one)" if path.stat().st_size else "an empty file"
        raise DataError(f"edges in {path}", f"none: {got}", "write two nodes on each line")
    lines, texts = [line for line, _ in found], [text for _, text in found]
    if "\0" in texts[0]:
        raise DataError(f"text in UTF-8 in {path}", "zero bytes, as of UTF-16", "save the file as UTF-8")
    rows = _split(path, texts)
    if len(rows[0]) < 2:
        got, remedy = f"{texts[0][:60]!r} in {path}, line {lines[0]}", "separate them by a comma or a tab"
        raise DataError("two nodes on each line", got, remedy)
    is_header = not all(text in nodes for text in rows[0][:2]) and _is_header(rows)
    columns = _columns(path, rows[0] if is_header else None, len(rows[0]), most)
    if len(rows) == is_header:
        raise DataError(f"edges in {path}", "none below the header", "write two nodes on each line")
    return columns, rows[is_header:], lines[is_header:]


def _split(path: Path, texts: list[str]) -> list[list[str]]:
    """The values of each line, without the spaces around them: by tabs before all else, for names may hold commas."""
    found = [mark for mark in "\t,;" if mark in texts[0]]
    if found[:2] == [",", ";"]:  # one of them belongs to the values, as in a;b;0,5
        remedy = "separate the columns by tabs, or write 0.5, not 0,5"
        raise DataError(f"one separator in {path}", f"commas and semicolons: {texts[0][:60]!r}", remedy)
    if not found:
        return [text.split() for text in texts]
    try:
        reader = csv.reader(texts, delimiter=found[0], strict=True, skipinitialspace=True)
        rows = [[text.strip() for text in row] for row in reader]
    except csv.Error as error:
        raise DataError(f"well-formed lines in {path}", str(error), "close every quotation mark") from error
    if len(rows) != len(texts):
        got = f"a line end within quotation marks in {path}"
        raise DataError("names of one line", got, "close every quotation mark on its line")
    return rows


def _is_header(rows: list[list[str]]) -> bool:
    """Whether the first line names columns: those of an edge, or others above numbers."""
    first, below = rows[0], rows[1:50]
    if {text for row in below for text in row[:2]} & set(first[:2]):
        return False  # one of its names occurs again: a node
    keys = [_WORDS.get(_word(text)) for text in first]
    if {"source", "target"} <= set(keys) or {"weight", "time", "split"} & set(keys[2:]):
        return True
    numbers = [not math.isnan(finite(text)) for row in below for text in row[:2]]
    return bool(below) and all(numbers) and all(math.isnan(finite(text)) for text in first[:2])


def _word(text: str) -> str:
    return re.sub(r"[\s_.#%-]", "", text).lower()


def _columns(path: Path, header: list[str] | None, width: int, most: int | None) -> dict[str, int]:
    if header is None:
        if most is not None and width > most:
            got = f"{width} columns without names in {path}"
            raise DataError("two to four columns: source, target, weight, time", got, "add a header")
        return {key: column for column, key in enumerate(("source", "target", "weight", "time")[:width])}
    found: dict[str, int] = {}
    for column, name in enumerate(header):
        if (key := _WORDS.get(_word(name))) is not None and found.setdefault(key, column) != column:
            got = f"{header[found[key]]} and {name} in {path}"
            raise DataError(f"one column of {key}", got, "rename or drop one of the two")
    for column, key in enumerate(("source", "target")):  # whatever they are called, the first two are the pair
        if key not in found:
            if column in found.values():
                got = f"the columns {', '.join(header)} in {path}"
                raise DataError("columns source and target", got, "name them so")
            found[key] = column
    return found


def _number(path: Path, texts: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Nodes numbered from 0 in the order of their ids: of the numbers where all are whole, else of the names.

    Names stay as they are written, 007 too; but 7 beside 7.0 or 007, where all names are whole numbers, is one node
    that would become two, and refused.
    """
    # not by numpy, where every name would take as much memory as the longest
    names = sorted(set(texts))
    if all(finite(name).is_integer() for name in names):
        values = {name: int(name) if name.lstrip("+-").isdigit() else int(float(name)) for name in names}
        names.sort(key=values.__getitem__)
        for one, other in pairwise(names):
            if values[one] == values[other]:
                got = f"{one} and {other} in {path}"
                raise DataError("every node written in one way", got, "write the number alike on every line")
    place = {name: number for number, name in enumerate(names)}
    numbers = np.fromiter(map(place.__getitem__, texts), np.int64, len(texts))
    return numbers.reshape(2, -1).T.copy(), tuple(names)


def _floats(path: Path, key: str, texts: Sequence[str], lines: Sequence[int]) -> np.ndarray:
    """Numbers, or seconds of dates; what most of a column are, all must be."""
    ways = (finite,) if key == "weight" else (finite, _seconds)
    found = min((np.array(list(map(way, texts))) for way in ways), key=lambda values: int(np.isnan(values).sum()))
    if (odd := np.isnan(found)).any():
        at = int(np.argmax(odd))
        what = "numbers" if key == "weight" else "numbers alone or dates alone, such as 2024-05-31,"
        raise DataError(f"{what} as {key}", f"{texts[at]!r} in {path}, line {lines[at]}", "correct the line")
    return found


def _seconds(text: str) -> float:
    """Seconds since 1970 of a date as ISO 8601 writes it, one without a zone in UTC; NaN of what is none."""
    try:
        found = datetime.fromisoformat(f"{text}-01" if len(text) == len("2024-05") else text)
    except ValueError:
        return math.nan
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
