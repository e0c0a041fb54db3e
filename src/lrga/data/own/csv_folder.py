"""Graphs in a folder of CSV files: ``nodes.csv``, ``edges.csv`` and, with several graphs, ``graphs.csv``.

=============  ====================================================================================================
file           columns
=============  ====================================================================================================
``nodes.csv``  ``node`` (id, unique in its graph), ``graph`` (id; optional in all files if there is one graph)
``edges.csv``  ``source``, ``target`` (ids of nodes; directed: list both directions of an undirected edge), ``graph``
``graphs.csv`` ``graph``; the file is optional
=============  ====================================================================================================

In each file ``y`` is the target of a node, an edge or a graph (a number, or the name of a class), and ``split`` is
``train``, ``val`` or ``test``. Several targets (numbers) are columns ``y:NAME``; a blank one is a missing label. A
column ``type`` holds category numbers 0, 1, … to embed; it is then the only feature of its file. All other columns of
``nodes.csv`` and ``edges.csv`` are numeric features, in their order. Without features every node has the feature 1. Ids
may be any text. Graphs keep the order of ``graphs.csv`` (else of their first node), nodes and edges the order of their
file. Every row of ``edges.csv`` is an edge.

A blank ``split`` means no split: a node or an edge then stays in its graph, but its target is not used in training or
evaluation; a graph is dropped. A row in no split, by itself or by its graph, may have a blank ``y``. So if only some
nodes of a graph are labelled, fill in ``y`` and ``split`` for these and leave both blank for the others.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lrga.data.datasets.spec import SPLITS
from lrga.data.own.table import as_float32, finite, no_target, number
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.io.limits import reading

IDS = ("graph", "node", "source", "target")
_ONE_GRAPH = "0"  # the graph id if no file has a column `graph`


@dataclass
class Table:
    """A CSV file in memory.

    Attributes:
        path: The file.
        texts: The text columns (ids, splits, names of classes), stripped of spaces.
        numbers: The numeric columns, int64 if every value is written as an integer, else float64; all finite. A blank
            label is 0 or NaN.
        lines: Line number of each row below the header.
        blank: [rows] whether the column ``y`` is blank; ``None`` without such a column.
        repeated: Number of rows that are equal to an earlier row, in a table of edges.
        target_names: Names of the columns ``y:NAME``, without ``y:``.
    """

    path: Path
    texts: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    blank: np.ndarray | None = None
    repeated: int = 0
    target_names: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows below the header."""
        return len(self.lines)

    def error(self, row: int, expected: str, got: str, remedy: str) -> DataError:
        """Creates an error about ``row`` (0 is the first below the header) that names file and line."""
        return DataError(expected, f"{got} in {self.path}, line {self.lines[row]}", remedy)


def read_folder(folder: Path, *, level: str | None = None, target: bool = True) -> PackedGraphs:
    """Reads the graphs of ``folder``; every error names the file, the line and a remedy.

    Args:
        folder: The folder.
        level: Level of the target, if several files have a column ``y``.
        target: Whether the graphs are for training. If not, ``y`` and ``split`` are not used, and may be blank.

    Returns:
        The graphs as :func:`lrga.data.own.reading.read_graphs` describes them.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "nodes.csv").write_text("graph,node,x0\\na,1,0.5\\na,2,1.5\\nb,1,2.5\\n")
        >>> _ = (folder / "edges.csv").write_text("graph,source,target\\na,1,2\\na,2,1\\n")
        >>> _ = (folder / "graphs.csv").write_text("graph,y\\na,0\\nb,1\\n")
        >>> graphs = read_folder(folder)
        >>> graphs.nodes_per_graph.tolist(), graphs.num_edges, graphs.y.tolist()
        ([2, 1], 2, [0, 1])
    """
    if not folder.is_dir():
        raise DataMissingError(f"the folder {folder}", "no such folder", "pass a folder with nodes.csv and edges.csv")
    nodes = read_table(folder / "nodes.csv", "node")
    several = "graph" in nodes.texts
    edges = read_table(folder / "edges.csv", "source", "target", *["graph"] * several, of_edges=True)
    graphs = read_table(folder / "graphs.csv", "graph") if (folder / "graphs.csv").is_file() else None
    if graphs is not None and not several:
        remedy = "add it, or remove graphs.csv if all nodes belong to one graph"
        raise DataError("the column 'graph', because there is a graphs.csv", f"none in {nodes.path}, line 1", remedy)

    graph_ids, graph_of_node = _graphs(nodes, graphs)
    order = np.argsort(graph_of_node, kind="stable")
    num_nodes = np.bincount(graph_of_node, minlength=len(graph_ids))
    if graphs is not None and (num_nodes == 0).any():
        row = int(np.argmax(num_nodes == 0))
        remedy = "add its nodes to nodes.csv, or remove the graph"
        raise graphs.error(row, "a graph with nodes", f"graph {graph_ids[row]!r} without any in nodes.csv", remedy)
    begin = np.cumsum(num_nodes) - num_nodes
    notes = [f"{edges.repeated:,} rows of edges.csv repeat an earlier row; each is an edge"] * bool(edges.repeated)
    x, x_names = _features("node", nodes, notes, strict=target)
    place = np.empty(nodes.rows, np.int64)  # index of every row of nodes.csv inside its graph
    place[order] = np.arange(nodes.rows) - np.repeat(begin, num_nodes)
    graph_of_edge, source, sink = _ends(edges, nodes, graph_ids, graph_of_node, place)
    edge_attr, edge_names = _features("edge", edges, notes, strict=target)

    edge_order = np.argsort(graph_of_edge, kind="stable")
    tables = {"node": nodes, "edge": edges} | ({} if graphs is None else {"graph": graphs})
    graph_of = {"node": graph_of_node, "edge": graph_of_edge, "graph": np.arange(len(graph_ids))}
    orders: dict[str, Any] = {"node": order, "edge": edge_order, "graph": slice(None)}
    columns: dict[str, Any] = {"node": {}, "edge": {}, "graph": {}}
    meta: dict[str, Any] = {"node_names": list(x_names), "edge_names": list(edge_names)}
    split_level, code = _split(tables)
    if graphs is not None and (unused := [name for name in graphs.numbers if name != "y"]):
        notes.append(f"warning: graph-level features are not supported; ignored in graphs.csv: {', '.join(unused)}")
    if target:
        for one, table in tables.items():
            _check_labelled(one, table, graph_of[one], split_level, code)
        level, meta["y"] = _target(tables, level, folder)
        meta["target_names"] = list(tables[level].target_names)
        y = tables[level].numbers.get("y")
        if y is None:
            classes, y = np.unique(tables[level].texts["y"], return_inverse=True)
            meta["classes"] = classes.tolist()
        columns[level]["y"] = y[orders[level]]
        if code is not None:
            columns[split_level]["split"] = code[orders[split_level]]
            meta["split"] = f"the column split of {split_level}s.csv"
    ids = np.asarray(nodes.texts["node"], dtype=object)[order]
    return pack_arrays(
        num_nodes=num_nodes,
        num_edges=np.bincount(graph_of_edge, minlength=len(graph_ids)),
        edge_index=np.stack([source, sink])[:, edge_order],
        x=np.ones((nodes.rows, 1), np.float32) if x is None else x[order],
        edge_attr=None if edge_attr is None else edge_attr[edge_order],
        **columns,
        objects={
            "graph_id": list(graph_ids),
            "node_id": [part.tolist() for part in np.split(ids, np.cumsum(num_nodes)[:-1])],
        },
        meta=meta | ({"notes": notes} if notes else {}),
    )


def _graphs(nodes: Table, graphs: Table | None) -> tuple[list[str], np.ndarray]:
    """Ids of the graphs in order, and the graph of every row of ``nodes.csv``."""
    of_node = nodes.texts.get("graph") or [_ONE_GRAPH] * nodes.rows
    ids = list(dict.fromkeys(of_node)) if graphs is None else graphs.texts["graph"]
    number = _numbered(nodes if graphs is None else graphs, ids, "every graph once", "graph {!r} again")
    remedy = "add the graph to graphs.csv, or remove its nodes"
    return ids, _found(nodes, number, of_node, "a graph of graphs.csv", "graph {!r}", remedy)


def _ends(
    edges: Table, nodes: Table, graph_ids: list[str], graph_of_node: np.ndarray, place: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Graph, source and target (numbered inside the graph) of every row of ``edges.csv``."""
    of_node = [graph_ids[graph] for graph in graph_of_node]
    of_edge = edges.texts.get("graph", [_ONE_GRAPH] * edges.rows)
    where = " of graph {!r}" if "graph" in nodes.texts else ""
    keys = list(zip(nodes.texts["node"], of_node, strict=True))
    row_of = _numbered(nodes, keys, "every id once in its graph", f"node {{!r}}{where} again")
    number = {name: graph for graph, name in enumerate(graph_ids)}
    remedy = "correct the id, or add the graph's nodes to nodes.csv"
    graph = _found(edges, number, of_edge, "a graph of nodes.csv", "graph {!r}", remedy)
    ends = []
    for column in ("source", "target"):
        keys = list(zip(edges.texts[column], of_edge, strict=True))
        expected, got = "an edge between nodes of nodes.csv", f"{column} {{!r}}, which is not a node{where}"
        ends.append(place[_found(edges, row_of, keys, expected, got, "add the node, or remove the edge")])
    return graph, ends[0], ends[1]


def _numbered(table: Table, names: Sequence[Any], expected: str, got: str) -> dict[Any, int]:
    """The row of each of ``names``; raises an error for the first repeated name."""
    number: dict[Any, int] = {}
    for row, name in enumerate(names):
        if number.setdefault(name, row) != row:
            raise table.error(row, expected, _filled(got, name), "remove one of its rows, or rename it")
    return number


def _found(
    table: Table, known: Mapping[Any, int], names: Sequence[Any], expected: str, got: str, remedy: str
) -> np.ndarray:
    """[R] the number of each of ``names``; raises an error for the first that is not ``known``."""
    found = list(map(known.get, names))
    if None in found:
        row = found.index(None)
        raise table.error(row, expected, _filled(got, names[row]), remedy)
    return np.array(found, np.int64)


def _filled(words: str, name: Any) -> str:
    return words.format(*(name if isinstance(name, tuple) else (name,)))


def _features(level: str, table: Table, notes: list[str], *, strict: bool) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """[R, F] float32, or [R] int64 for a column ``type``, and the names of the columns, if any.

    A column that float32 is too coarse for is an error if ``strict``, else noted.
    """
    names = [name for name in table.numbers if name != "y"]
    if "type" in names:
        values = table.numbers["type"]
        if names != ["type"]:
            got = f"{', '.join(names)} in {table.path}, line 1"
            remedy = "rename 'type' if it is a numeric feature, or remove the other columns"
            raise DataError("the column 'type' (categories) as the only feature", got, remedy)
        if values.dtype.kind != "i" or (values < 0).any():
            wrong = (values < 0) | (values != np.round(values))
            row = int(np.argmax(wrong)) if wrong.any() else 0
            remedy = "number the categories from 0, or rename the column to use it as a number"
            raise table.error(row, "a category number 0, 1, … in column 'type'", f"{values[row]:g}", remedy)
        return values, ("type",)
    if not names:
        return None, ()
    columns = [table.numbers[name] for name in names]
    for name, values in zip(names, columns, strict=True):
        if (large := np.abs(values.astype(np.float64)) > np.finfo(np.float32).max).any():
            row = int(np.argmax(large))
            got = f"{values[row]:g} in column {name!r}"
            raise table.error(row, "a number of at most 3.4e38", got, "scale the column")
    return as_float32(columns, names, level, table.path.name, notes, strict=strict), tuple(names)


def _target(tables: Mapping[str, Table], level: str | None, folder: Path) -> tuple[str, str]:
    """The level of the only target, or ``level`` if there is one, and the name of its columns."""
    found = {}
    for one, table in tables.items():
        if "y" in table.texts or "y" in table.numbers:
            several = "y" in table.numbers and table.numbers["y"].ndim > 1
            found[one] = f"{'columns y:NAME' if several else 'column y'} of {table.path.name}"
    if not found or (level is not None and level not in found):
        got = f"targets for each {' and '.join(found)}" if found else "none"
        if not found and "graph" in tables and (columns := list(tables["graph"].numbers)):
            got += f"; graphs.csv has the columns {', '.join(columns)} (targets are called y or y:NAME)"
        raise no_target(level, str(folder), got)
    if level is None and len(found) > 1:
        got, first = " and ".join(found.values()), next(iter(found))
        raise OptionError(f"one target in {folder}, or level= to choose", got, f"pass level={first!r}, for example")
    return (level, found[level]) if level is not None else next(iter(found.items()))


def _check_labelled(level: str, table: Table, graph: np.ndarray, split_level: str, code: np.ndarray | None) -> None:
    """Checks that every row in a split has a ``y``; ``graph`` holds the graph of each row."""
    used: np.ndarray | bool = True
    remedy = "fill in y, or add a column split and leave it blank in rows without y"
    if code is not None and split_level in (level, "graph"):
        used = (code if split_level == level else code[graph]) >= 0
        whose = "this row" if split_level == level else "its graph"
        remedy = f"fill in y, or leave the split of {whose} blank too: it is then in no split"
    if table.blank is not None and (wrong := table.blank & used).any():
        raise table.error(int(np.argmax(wrong)), "a target in column 'y'", "nothing", remedy)


def _split(tables: Mapping[str, Table]) -> tuple[str, np.ndarray | None]:
    """The level of the column ``split``, and 0, 1, 2 or -1 for train, val, test or none in each row; ``None`` without
    such a column."""
    given = [level for level, table in tables.items() if "split" in table.texts]
    if len(given) > 1:
        paths = " and ".join(str(tables[level].path) for level in given)
        raise DataError("the column 'split' in one file", f"it in {paths}", "keep only one of them")
    if not given:
        return "", None
    table = tables[given[0]]
    number = {name: code for code, name in enumerate(SPLITS)} | {"": -1}
    expected = "train, val or test in column 'split'"
    remedy = "write one of these three, or leave it blank for rows in no split"
    return given[0], _found(table, number, table.texts["split"], expected, "{!r}", remedy)


def read_table(path: Path, *required: str, of_edges: bool = False) -> Table:
    """Reads the CSV file ``path``: UTF-8, comma-separated, column names in the first line.

    Ids and ``split`` are text, ``y`` is text if its first value is not a number, and all other columns are numbers.
    ``split``, ``y`` and ``y:NAME`` may be blank in some rows. ``required`` columns must exist. With ``of_edges`` the
    file may have no rows, and repeated rows are counted.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "nodes.csv"
        >>> _ = path.write_text("node,x0,x1\\na,1,0.5\\nb,2,oops\\n")
        >>> read_table(path, "node")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected a number in column 'x1', got 'oops' in ...nodes.csv, line 3. To fix: write a ...
    """
    with reading(path, "a CSV file", remedy="copy it again"), open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            numbered = [(reader.line_num, row) for row in reader if row]
        except csv.Error as error:
            remedy = "close every quotation mark, double quotation marks inside quoted text, end lines with a line feed"
            raise DataError("well-formed CSV", f"{error} in {path}, line {reader.line_num}", remedy) from error
    header = [name.strip() for name in numbered[0][1]] if numbered else []
    _check_header(path, header, required)
    repeated = len(numbered) - len({tuple(row) for _, row in numbered}) if of_edges else 0
    table = Table(path, lines=[line for line, _ in numbered[1:]], repeated=repeated)
    if table.rows == 0 and not of_edges:
        remedy = "write one row for each item, or remove the file if there are none"
        raise DataError(f"rows below the header in {path}", "only a header (line 1)", remedy)
    rows = [values for _, values in numbered[1:]]
    for row, values in enumerate(rows):
        if len(values) != len(header):
            remedy = "complete the row, or put values with commas in quotation marks"
            raise table.error(row, f"{len(header)} values ({', '.join(header)})", f"{len(values)}", remedy)
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    targets: list[np.ndarray] = []
    for name, texts in zip(header, columns, strict=True):
        if name in (*IDS, "split"):
            table.texts[name] = [text.strip() for text in texts]
            if name in IDS and "" in table.texts[name]:
                row = table.texts[name].index("")
                raise table.error(row, f"a value in column {name!r}", "nothing", "write it, or remove the row")
        elif name == "y":
            _read_label(table, [text.strip() for text in texts])
        elif name.startswith("y:"):
            filled = [row for row, text in enumerate(texts) if text.strip()]
            numbers = _numbers(table, name, [texts[row] for row in filled], filled, label=True)
            column = numbers if len(filled) == table.rows else np.full(table.rows, np.nan)
            column[filled] = numbers
            targets.append(column)
        else:
            table.numbers[name] = _numbers(table, name, texts, range(table.rows))
    if targets:
        if "y" in header:
            raise DataError("either y or columns y:NAME", f"both in {path}, line 1", "rename y to y:NAME")
        table.numbers["y"] = np.stack(targets, axis=1) if len(targets) > 1 else targets[0]
        table.target_names = tuple(name.removeprefix("y:").strip() for name in header if name.startswith("y:"))
    return table


def _read_label(table: Table, texts: list[str]) -> None:
    """Reads the labels as numbers or names, like the first label; a blank number is 0 or NaN."""
    table.blank = np.array([not text for text in texts], dtype=bool)
    filled = np.flatnonzero(~table.blank).tolist()
    if filled and number(texts[filled[0]]) is None:
        for row in filled:  # only names: a number among them is a mistake
            if number(texts[row]) is not None:
                got = f"{texts[row]!r} (an earlier row has {texts[filled[0]]!r})"
                expected = "only numbers or only names of classes in column 'y'"
                raise table.error(row, expected, got, "write the same kind throughout")
        table.texts["y"] = texts
        return
    numbers = _numbers(table, "y", [texts[row] for row in filled], filled, label=True)
    table.numbers["y"] = np.full(table.rows, 0 if numbers.dtype.kind == "i" else np.nan, numbers.dtype)
    table.numbers["y"][filled] = numbers


def _check_header(path: Path, header: list[str], required: Sequence[str]) -> None:
    if not header:
        raise DataError(f"a header and rows in {path}", "an empty file", "write the column names in line 1")
    if "" in header:
        got = f"no name for column {header.index('') + 1} in {path}, line 1"
        raise DataError("a name for every column", got, "name the column, or remove the extra comma")
    if twice := [name for name in header if header.count(name) > 1]:
        got = f"{twice[0]!r} twice in {path}, line 1"
        raise DataError("unique column names", got, "rename or remove one of the two")
    if missing := [name for name in required if name not in header]:
        hint = "; separate the columns by commas" if len(header) == 1 and any(c in header[0] for c in ";\t|") else ""
        expected = f"the column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}"
        got = f"the columns {', '.join(map(repr, header))} in {path}, line 1"
        raise DataError(expected, got, f"add the missing column, or rename an existing one{hint}")


def _numbers(table: Table, name: str, texts: Sequence[str], rows: Sequence[int], *, label: bool = False) -> np.ndarray:
    """The values of a column in ``rows``: int64 if all are written as integers, else float64."""
    try:
        if "_" not in "".join(texts):
            return np.fromiter(map(int, texts), np.int64, len(texts))
    except OverflowError as error:
        if label:  # integers are classes: a value beyond int64 must not turn them into regression targets
            large = next(at for at, text in enumerate(texts) if not -(2**63) <= int(text) < 2**63)
            expected = f"labels from -2⁶³ to 2⁶³ - 1 in column {name!r}"
            remedy = "write classes as names (c1, c2, …) or smaller numbers, and regression targets with a point"
            raise table.error(rows[large], expected, texts[large].strip(), remedy) from error
    except ValueError:
        pass  # not all are integers: floats are read below
    values = np.array(list(map(finite, texts)))
    if np.isfinite(values).all():
        return values
    wrong = int(np.argmin(np.isfinite(values)))
    remedy = "write a finite number with a decimal point, or remove the column if it is not a feature"
    if texts[wrong].strip() and number(texts[wrong]) is None:
        remedy += "; ids are in columns graph, node, source, target, classes in y"
    if "_" in texts[wrong]:
        remedy = "write the number without underscores (1000), or remove the column if it is not a feature"
    got = repr(texts[wrong]) if texts[wrong].strip() else "nothing"
    raise table.error(rows[wrong], f"a number in column {name!r}", got, remedy)
