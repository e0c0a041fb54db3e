"""The user's own edge list: a text file with two nodes on each line.

The separator is the first of tab, comma, semicolon and space that occurs in the first line. With a header the columns
are found by name (``source``, ``target``, ``weight``, ``time``, ``split`` and common synonyms). Without a header the
first two columns are the nodes, the third is the weight and the fourth the time. Nodes are numbers or names. The file
may be compressed with gzip (``.gz``).

The first line is a header if it names source and target, or a third column, or if it has words above numbers. A line
that begins with ``#`` or ``%`` and a space (or with ``##``, ``%%``) is a comment.
"""

import csv
import gzip
import io
import math
import re
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lrga.data.links.data import LinkData
from lrga.data.links.split import split_edges
from lrga.data.own.table import finite
from lrga.errors import DataError
from lrga.io.limits import open_regular, reading

NAMES = {  # column names, ignoring case, spaces and # % - _ .
    "source": "source src from head node1 id1 sourceid fromnodeid",
    "target": "target dst to tail node2 id2 targetid tonodeid",
    "weight": "weight w value count",
    "time": "time timestamp year date t",
    "split": "split set fold",
}
_WORDS = {word: key for key, words in NAMES.items() for word in words.split()}
_COMMENT = re.compile(r"[#%](?:[\s#%]|$)")
_SPLIT_WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}


class EdgeList(NamedTuple):
    """Edges ``[E', 2]``, the names of the nodes and, if given, weight, time and split (0, 1, 2) of each edge.

    Nodes are ordered by number, or by name if they are not numbers.
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
    """Loads the graph of an edge list and splits its edges into edges to train on and edges to predict.

    Args:
        path: The file.
        split: Fractions of train, val and test, by default (0.8, 0.1, 0.1); an error if the file has a split.
        split_by: ``"random"``; ``"time"``: predict the latest edges; ``"given"``: use the column ``split``. By default
            ``"given"`` if there is such a column, else ``"random"``.
        directed: Whether edges are directed.
        seed: Seed of the random split and of the negative pairs.
        negatives: Number of negative pairs of val and of test; by default as many as edges, and at least 1,000 if the
            graph has that many non-edges.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "edges.csv"
        >>> _ = path.write_text("source,target\\n" + "".join(f"n{i},n{i * 7 % 30}\\n" for i in range(30)))
        >>> data = load_edge_list(path)
        >>> data.num_nodes, data.edge.size(0), data.meta["notes"]
        (30, 20, ['6 edges from a node to itself left out'])
    """
    return split_edges(
        *read_edge_list(path), fractions=split, by=split_by, directed=directed, seed=seed, negatives=negatives,
        where=str(path),
    )  # fmt: skip


def read_edge_list(path: str | Path) -> EdgeList:
    """Reads an edge list with any supported separator, with or without a header."""
    path = Path(path).expanduser()
    columns, rows, lines = _read(path)
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width or "" in (row[columns["source"]], row[columns["target"]]):
            got = f"{', '.join(row)[:80]!r} in {path}, line {line}"
            raise DataError(f"{width} values on each line, including two nodes", got, "complete the line, or remove it")
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
            raise DataError("train, val or test as split", got, "write one of these")
    return EdgeList(edge, ids, **more)


def read_pairs(path: str | Path, *, nodes: Collection[str] = ()) -> tuple[list[tuple[str, str]], list[int]]:
    """Reads pairs of node names, and the line number of each, in the format of an edge list.

    Args:
        path: The file.
        nodes: Names of the existing nodes: a first line of two of them is not a header.
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
    """Index of each column, values of each line, and line numbers; at most ``most`` columns without a header."""
    opened = gzip.open if path.suffix.lower() == ".gz" else nullcontext
    with (
        reading(path, "a complete gzip file", remedy="copy or compress it again"),
        open_regular(path) as raw,
        opened(raw) as plain,
    ):
        file = io.TextIOWrapper(plain, encoding="utf-8-sig")
        found = [(n, t.removesuffix("\n")) for n, t in enumerate(file, 1) if t.strip() and _COMMENT.match(t) is None]
    if not found:
        got = "only blank lines and comments (# or %)" if path.stat().st_size else "an empty file"
        raise DataError(f"edges in {path}", f"none: {got}", "write two nodes on each line")
    lines, texts = [line for line, _ in found], [text for _, text in found]
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
    """The values of each line, stripped of spaces. Tabs have priority, because names may contain commas."""
    found = [mark for mark in "\t,;" if mark in texts[0]]
    if found[:2] == [",", ";"]:  # one of them is part of the values, as in a;b;0,5
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
        got = f"a line break inside quotation marks in {path}"
        raise DataError("names without line breaks", got, "close every quotation mark on its line")
    return rows


def _is_header(rows: list[list[str]]) -> bool:
    """Whether the first line is a header: known column names, or words above numbers."""
    first, below = rows[0], rows[1:50]
    if {text for row in below for text in row[:2]} & set(first[:2]):
        return False  # a name that occurs again is a node
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
            raise DataError(f"one column for {key}", got, "rename or remove one of the two")
    pair = {"source": 0, "target": 1} | found  # with unknown names, the first two are the nodes
    if len(set(pair.values())) < len(pair):
        raise DataError("columns source and target", f"the columns {', '.join(header)} in {path}", "rename two columns")
    return pair


def _number(path: Path, texts: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers the nodes from 0 in the order of their ids: numeric if all are integers, else alphabetic.

    Names are kept as written, including 007. But if all names are integers, 7 together with 7.0 or 007 is an error: one
    node would become two.
    """
    # not with numpy: every name would take as much memory as the longest
    names = sorted(set(texts))
    if all(finite(name).is_integer() for name in names):
        values = {name: int(name) if name.lstrip("+-").isdigit() else int(float(name)) for name in names}
        names.sort(key=values.__getitem__)
        for one, other in pairwise(names):
            if values[one] == values[other]:
                got = f"{one} and {other} in {path}"
                raise DataError("one spelling of every node", got, "write the number the same way on every line")
    place = {name: number for number, name in enumerate(names)}
    numbers = np.fromiter(map(place.__getitem__, texts), np.int64, len(texts))
    return numbers.reshape(2, -1).T.copy(), tuple(names)


def _floats(path: Path, key: str, texts: Sequence[str], lines: Sequence[int]) -> np.ndarray:
    """Reads numbers, or dates as seconds; all values must be of the more frequent kind."""
    ways = (finite,) if key == "weight" else (finite, _seconds)
    found = min((np.array(list(map(way, texts))) for way in ways), key=lambda values: int(np.isnan(values).sum()))
    if (odd := np.isnan(found)).any():
        at = int(np.argmax(odd))
        what = "numbers" if key == "weight" else "only numbers or only dates, such as 2024-05-31,"
        remedy = "correct the line"
        if at == 0 and not odd[1:].any():
            remedy += "; if it is a header, name its columns source, target, weight, time"
        raise DataError(f"{what} as {key}", f"{texts[at]!r} in {path}, line {lines[at]}", remedy)
    return found


def _seconds(text: str) -> float:
    """Seconds since 1970 of a date in ISO 8601, UTC without a time zone; NaN if it is not a date."""
    try:
        found = datetime.fromisoformat(f"{text}-01" if len(text) == len("2024-05") else text)
    except ValueError:
        return math.nan
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
