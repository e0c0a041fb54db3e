"""Reads graphs from files: edge lists directly, other formats by networkx."""

import re
import warnings
from codecs import BOM_UTF8
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from lrga.errors import DataError, DataMissingError, LRGAError, OptionError, optional_module
from lrga.io.limits import read_bytes
from lrga.theory.labelled import AUTO, LabelledGraph, as_graph, graph_from_arcs


def read_graphs(
    path: Path | str,
    *,
    format: str = AUTO,
    directed: bool = False,
    node_attribute: str | None = AUTO,
    edge_attribute: str | None = AUTO,
) -> list[LabelledGraph]:
    """Reads all graphs of a file: one per line of a graph6 or sparse6 file, otherwise one.

    Args:
        path: The file.
        format: One of :data:`FORMATS`; by default inferred from the file extension.
        directed: Whether edges in edge lists and adjacency lists are directed; other formats state it themselves.
        node_attribute, edge_attribute: The attribute that holds the integer labels. The default is ``"label"`` for
            GraphML, if present, and no labels for other formats. ``None`` ignores labels. The third column of an edge
            list is the edge label.

    An edge list has one edge ``a b`` or ``a b label`` per line. Node names are arbitrary; a node without edges has a
    line of its own. Columns are separated by spaces, commas or semicolons. ``#`` and ``%`` next to a space start a
    comment. A first line of column names (``source target``) is a header.
    """
    path = Path(path)
    if not path.is_file():
        raise DataMissingError(f"a graph file at {path}", "no such file", "check the path")
    kind = _ENDINGS.get(path.suffix.lower()) if format == AUTO else format
    if kind not in FORMATS:
        known = ", ".join(f"{name} ({' '.join(endings)})" for name, endings in FORMATS.items())
        got = str(path) if format == AUTO else repr(format)
        raise OptionError(f"a known format: {known}", got, "rename the file, or pass its format by --format")
    if kind != "edgelist":
        return _by_networkx(path, kind, directed, node_attribute, edge_attribute)
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} as a text file", str(error), f"give a file in the format {kind}") from error
    return [parse_edge_list(text, name=str(path), directed=directed, edge_attribute=edge_attribute)]


def _by_networkx(
    path: Path, kind: str, directed: bool, node_attribute: str | None, edge_attribute: str | None
) -> list[LabelledGraph]:
    networkx = optional_module("networkx", f"to read {kind}", "graphs")
    options: dict[str, Any] = {"gml": {"label": "id"}}.get(kind, {})
    if kind in ("adjlist", "multiline_adjlist") and directed:
        options["create_using"] = networkx.DiGraph
    expected, remedy = f"graphs in the format {kind} in {path}", "check the file and its format"
    content = read_bytes(path).removeprefix(BOM_UTF8)
    if kind in _MISREAD and _MISREAD[kind][0].search(content):
        raise DataError(expected, _MISREAD[kind][1], remedy)
    try:
        with warnings.catch_warnings(action="ignore"):
            read = getattr(networkx, f"read_{kind}")(BytesIO(content), **options)
        graphs = read if isinstance(read, list) else [read]
        for graph in graphs:  # networkx stores GraphML's attribute defaults separately
            for default, elements in (("node_default", graph.nodes), ("edge_default", graph.edges)):
                for element in elements:
                    elements[element].update(graph.graph.get(default, {}) | elements[element])
        names = [None if a == AUTO and kind != "graphml" else a for a in (node_attribute, edge_attribute)]
        labelled = [as_graph(graph, node_attribute=names[0], edge_attribute=names[1]) for graph in graphs]
    except LRGAError:
        raise
    except Exception as error:  # its readers raise arbitrary exceptions for damaged files
        raise DataError(expected, f"{type(error).__name__}: {error}"[:200], remedy) from error
    if not labelled or (kind != "graph6" and any(graph.num_nodes == 0 for graph in labelled)):
        raise DataError(expected, "a graph without nodes" if labelled else "no graph", remedy)
    return labelled


def parse_edge_list(
    text: str, *, name: str = "edge list", directed: bool = False, edge_attribute: str | None = AUTO
) -> LabelledGraph:
    """Parses a graph from lines ``a b`` or ``a b label``; see :func:`read_graphs`.

    Example:
        >>> parse_edge_list("a b 1\\nb c 2\\nd")
        LabelledGraph(4 nodes, 2 edges, edge labels)
    """
    index: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    labels: list[str] = []
    for number, words in _rows(text, name):
        if len(words) > 3:
            got = repr(" ".join(words)[:60])
            raise DataError(f"'a b' or 'a b label' on line {number} of {name}", got, "give one edge per line")
        nodes = [index.setdefault(word, len(index)) for word in words[:2]]
        if len(words) >= 2:
            edges.append((nodes[0], nodes[1]))
            labels += words[2:]
    if not index:
        raise DataError(f"edges in {name}", "none", "write two nodes on each line")
    if labels and len(labels) != len(edges):
        got = f"{len(labels)} labels for {len(edges)} edges"
        raise DataError(f"a label on every edge of {name} or on none", got, "complete the third column or remove it")
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    wanted = labels and edge_attribute is not None
    return graph_from_arcs(
        pairs[:, 0], pairs[:, 1], len(index), edge_labels=labels if wanted else None, both_ways=not directed
    )


def _rows(text: str, name: str) -> list[tuple[int, list[str]]]:
    """The words of each line with its number, without comments and the header."""
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", line)
        mark = next((mark for mark in "\t;," if mark in line), None)  # otherwise columns are separated by spaces
        words = [word for text in line.split(mark) if (word := text.strip().strip('"'))]
        if words and words[-1] == "{}" and len(words) == 3:  # how networkx writes edges without attributes
            words.pop()
        if words and (rows or len(words) > 1 or words[0][0] not in "#%"):  # before all others, #edges is a comment
            rows.append((number, words))
    return rows[1:] if rows and _is_header(rows[0][1], [words[:2] for _, words in rows[1:]], name) else rows


def _is_header(first: list[str], edges: list[list[str]], name: str) -> bool:
    """Whether the first line is a header: ``source target`` or similar, or words if all nodes are numbers."""
    nodes = {word for words in edges for word in words}
    if not nodes.isdisjoint(first[:2]):
        return False
    kinds = [next((kind for kind in _COLUMNS if _COLUMNS[kind].fullmatch(word.lower())), None) for word in first]
    if kinds[:2] == ["source", "target"]:
        return True
    if {"source", "target"} <= set(kinds):
        expected, got = f"source and target as the first columns of {name}", f"the header {' '.join(first)[:60]!r}"
        raise DataError(expected, got, "reorder the columns")
    words_above = len(first) > 1 and not any(map(_NUMBER.fullmatch, first[:2]))
    return words_above and bool(nodes) and all(map(_NUMBER.fullmatch, nodes))


FORMATS: dict[str, tuple[str, ...]] = {
    "graph6": (".g6", ".graph6"),
    "edgelist": (".txt", ".edges", ".edgelist", ".el", ".csv", ".tsv"),
    "graphml": (".graphml", ".xml"),
    "sparse6": (".s6", ".sparse6"),
    "gml": (".gml",),
    "gexf": (".gexf",),
    "pajek": (".net", ".paj", ".pajek"),
    "leda": (".leda", ".lgr", ".gw"),
    "adjlist": (".adjlist",),
    "multiline_adjlist": (".madjlist",),
}
"""File formats and their extensions; networkx reads all of them except edge lists."""

_ENDINGS = {ending: kind for kind, endings in FORMATS.items() for ending in endings}
_MISREAD = {  # files that networkx would misread
    "graph6": (re.compile(rb"^(?!\s*(?:>>graph6<<)?[?-~]*\s*$)", re.M), "a line with characters outside '?' to '~'"),
    "graphml": (re.compile(rb"<(?:\w+:)?graph[\s/>].*<(?:\w+:)?graph[\s/>]", re.S), "several or nested graphs"),
}
_COMMENT = re.compile(r"(?:^|(?<=\s))[#%](?:[\s#%].*)?$")
_NUMBER = re.compile(r"-*\d+")
_COLUMNS = {
    "source": re.compile(r"[#%]?(?:source|src|from|head|node_?1|id_?1)(?:[ _.-]*(?:id|node|name))*"),
    "target": re.compile(r"(?:target|dst|dest|destination|to|tail|node_?2|id_?2)(?:[ _.-]*(?:id|node|name))*"),
}
