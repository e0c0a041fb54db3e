"""Graphs from files: graph6, edge lists and GraphML, read without further packages; other formats by networkx."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np

from lrga.errors import (
    DataError,
    DataMissingError,
    DTypeError,
    LRGAError,
    MissingDependencyError,
    OptionError,
    UnsupportedError,
)
from lrga.io.limits import read_bytes
from lrga.theory.inputs import AUTO, as_graph
from lrga.theory.labelled import LabelledGraph, graph_from_arcs


def read_graphs(
    path: Path | str,
    *,
    format: str = AUTO,
    directed: bool = False,
    node_attribute: str | None = AUTO,
    edge_attribute: str | None = AUTO,
) -> list[LabelledGraph]:
    """All graphs of a file: one per line of a graph6 or sparse6 file, else one.

    Args:
        path: The file.
        format: One of :data:`FORMATS`; by default inferred from the file extension.
        directed: Whether the edges of edge lists and adjacency lists have a direction; other files say so themselves.
        node_attribute, edge_attribute: The attribute that holds the integer labels. The default is ``"label"`` for
            GraphML, if present, and no labels for other formats. ``None`` ignores labels. The third column of an edge
            list is the edge label.

    An edge list has one edge ``a b`` or ``a b label`` per line, nodes by any names, and nodes without edges on a line
    of their own; ``#`` and ``%`` with a space around them start comments, commas and semicolons may separate, and a
    first line of names of columns (``source target``) is a header.
    """
    path = Path(path)
    if not path.is_file():
        raise DataMissingError(f"a graph file at {path}", "no such file", "check the path")
    kind = _ENDINGS.get(path.suffix.lower()) if format == AUTO else format
    if kind is None:
        known = ", ".join(f"{name} ({' '.join(endings)})" for name, endings in FORMATS.items())
        raise OptionError(
            f"a file of a known format: {known}", str(path), "rename it, or name its format with --format"
        )
    if kind not in FORMATS:
        raise OptionError(f"a format of {', '.join(FORMATS)}", repr(format), "choose one of them")
    if kind not in ("graph6", "edgelist", "graphml"):
        return _by_networkx(path, kind, directed, node_attribute, edge_attribute)
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} as a text file", str(error), f"give a file in the format {kind}") from error
    if kind == "graph6":
        return parse_graph6(text, name=str(path))
    if kind == "graphml":
        return [parse_graphml(text, name=str(path), node_attribute=node_attribute, edge_attribute=edge_attribute)]
    return [parse_edge_list(text, name=str(path), directed=directed, edge_attribute=edge_attribute)]


def _by_networkx(
    path: Path, kind: str, directed: bool, node_attribute: str | None, edge_attribute: str | None
) -> list[LabelledGraph]:
    try:
        import networkx
    except ImportError as error:
        raise MissingDependencyError(
            f"networkx, to read {kind}", "no such package", "pip install 'lrga[graphs]'"
        ) from error
    options: dict[str, Any] = {"gml": {"label": "id"}}.get(kind, {})
    if kind in ("adjlist", "multiline_adjlist") and directed:
        options["create_using"] = networkx.DiGraph
    names = [None if attribute == AUTO else attribute for attribute in (node_attribute, edge_attribute)]
    try:
        found = getattr(networkx, f"read_{kind}")(path, **options)
        graphs = found if isinstance(found, list) else [found]
        read = [as_graph(graph, node_attribute=names[0], edge_attribute=names[1]) for graph in graphs]
    except LRGAError:
        raise
    except Exception as error:  # its readers raise whatever a damaged file leads to
        got = f"{type(error).__name__}: {error}"[:200]
        raise DataError(f"graphs in the format {kind} in {path}", got, "check the file and its format") from error
    if not read or any(graph.num_nodes == 0 for graph in read):
        got = "no graph" if not read else "a graph without nodes"
        raise DataError(f"graphs in the format {kind} in {path}", got, "check the file and its format")
    return read


def parse_graph6(text: str, *, name: str = "graph6") -> list[LabelledGraph]:
    """Graphs in graph6, one per line.

    Six bits per character (code minus 63): the number of nodes, then the upper triangle of the adjacency matrix column
    by column.

    Example:
        >>> parse_graph6("Bw")  # the triangle
        [LabelledGraph(3 nodes, 3 edges)]
    """
    lines = [line.strip().removeprefix(">>graph6<<") for line in text.splitlines()]
    graphs = [_one_graph6(line, f"{name}, line {number}") for number, line in enumerate(lines, 1) if line]
    if not graphs:
        raise DataError(f"one graph per line in {name}", "no line", "give a file with at least one graph")
    return graphs


def _one_graph6(line: str, where: str) -> LabelledGraph:
    if line[0] in ":&;":
        kind = {":": "sparse6", ";": "incremental sparse6", "&": "digraph6"}[line[0]]
        raise UnsupportedError(f"graph6 in {where}", kind, "convert it to graph6, an edge list or GraphML")
    codes = np.frombuffer(line.encode("utf-8"), dtype=np.uint8).astype(np.int64) - 63
    if codes.min() < 0 or codes.max() > 63:
        raise DataError(f"graph6 in {where}, characters '?' to '~'", repr(line[:40]), "check the file and its format")
    header, size_codes = (1, codes[:1]) if codes[0] < 63 else (4, codes[1:4])
    if len(codes) > 1 and codes[0] == codes[1] == 63:
        header, size_codes = 8, codes[2:8]
    num_nodes = 0
    for code in size_codes.tolist():
        num_nodes = 64 * num_nodes + code
    num_pairs = num_nodes * (num_nodes - 1) // 2
    body = codes[header:]
    if len(codes) < header or len(body) != -(-num_pairs // 6):
        raise DataError(
            f"{-(-num_pairs // 6)} characters for {num_nodes} nodes in {where}",
            str(len(body)),
            "the line is cut or damaged",
        )
    bits = (body[:, None] >> np.arange(5, -1, -1)) & 1
    position = np.flatnonzero(bits.reshape(-1)[:num_pairs])
    # Bit number j (j - 1) / 2 + i is the pair i < j.
    column = np.searchsorted(np.cumsum(np.arange(num_nodes)), position, side="right")
    row = position - column * (column - 1) // 2
    return graph_from_arcs(row, column, num_nodes, both_ways=True)


def parse_edge_list(
    text: str, *, name: str = "edge list", directed: bool = False, edge_attribute: str | None = AUTO
) -> LabelledGraph:
    """A graph as lines ``a b`` or ``a b label``; see :func:`read_graphs`.

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
        raise DataError(
            f"a label on every edge of {name} or on none",
            f"{len(labels)} labels for {len(edges)} edges",
            "complete the third column or remove it",
        )
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    wanted = labels and edge_attribute is not None
    return graph_from_arcs(
        pairs[:, 0],
        pairs[:, 1],
        len(index),
        edge_labels=[_integer(label, f"the edges of {name}") for label in labels] if wanted else None,
        both_ways=not directed,
    )


def _rows(text: str, name: str) -> list[tuple[int, list[str]]]:
    """The words of each line with its number, without comments and the header."""
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", line)
        mark = next((mark for mark in "\t;," if mark in line), None)  # spaces separate where none of these does
        words = [word for text in line.split(mark) if (word := text.strip().strip('"'))]
        if words and words[-1] == "{}" and len(words) == 3:  # as networkx writes edges without attributes
            words.pop()
        above = not rows and words and words[0][0] in "#%"  # a comment or the first node, as #tag
        if words and not (above and (len(words) == 1 or _names_columns([words[0][1:], *words[1:]]))):
            rows.append((number, words))
    if not rows:
        return rows
    (_, first), others = rows[0], [words for _, words in rows[1:]]
    again = {word for words in others for word in words[:2]} & set(first[:2])
    numbers = others and all(word.lstrip("-").isdigit() for words in others for word in words[:2])
    alone = numbers and len(first) > 1 and not any(word.lstrip("-").isdigit() for word in first[:2])
    if not again and not _names_columns(first) and {*_SOURCES} & {*_plain(first)} and {*_TARGETS} & {*_plain(first)}:
        expected, got = f"source and target as the first columns of {name}", f"the header {' '.join(first)[:60]!r}"
        raise DataError(expected, got, "reorder the columns")
    return rows[1:] if not again and (_names_columns(first) or alone) else rows


def _plain(words: list[str]) -> list[str]:
    return [_ENDING.sub("", word.lower()) for word in words]


def _names_columns(words: list[str]) -> bool:
    pair = _plain(words[:2])
    return len(pair) == 2 and pair[0] in _SOURCES and pair[1] in _TARGETS


def parse_graphml(
    text: str, *, name: str = "GraphML", node_attribute: str | None = AUTO, edge_attribute: str | None = AUTO
) -> LabelledGraph:
    """The graph of a GraphML document; see :func:`read_graphs`."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DataError(f"{name} as XML", str(error), "check the file and its format") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # without the namespace
    graphs = root.findall("graph")
    if root.tag != "graphml" or len(graphs) != 1:
        raise DataError(f"one graph in a graphml document in {name}", f"{len(graphs)} in {root.tag!r}", "give one each")
    graph = graphs[0]
    if graph.find(".//graph") is not None or graph.find(".//hyperedge") is not None:
        raise UnsupportedError(f"a plain graph in {name}", "nested graphs or hyperedges", "flatten the graph first")
    keys = {
        kind: {
            k.get("attr.name", k.get("id", "")): k for k in root.findall("key") if k.get("for", "all") in (kind, "all")
        }
        for kind in ("node", "edge")
    }
    nodes, edges = graph.findall("node"), graph.findall("edge")
    index = {node.get("id", ""): i for i, node in enumerate(nodes)}
    missing = {end for edge in edges for end in (edge.get("source", ""), edge.get("target", ""))} - index.keys()
    if missing:
        raise DataError(f"edges between the nodes of {name}", f"missing nodes {sorted(missing)[:3]}", "declare them")
    one_way = [edge.get("directed", str(graph.get("edgedefault") == "directed")).lower() == "true" for edge in edges]
    node_labels = _graphml_labels(nodes, keys["node"], node_attribute, f"the nodes of {name}")
    edge_labels = _graphml_labels(edges, keys["edge"], edge_attribute, f"the edges of {name}")
    ends = [(index[e.get("source", "")], index[e.get("target", "")]) for e in edges]
    back = [(b, a) for (a, b), single in zip(ends, one_way, strict=True) if not single]
    if edge_labels is not None:
        edge_labels += [label for label, single in zip(edge_labels, one_way, strict=True) if not single]
    pairs = np.asarray(ends + back, dtype=np.int64).reshape(-1, 2)
    return graph_from_arcs(pairs[:, 0], pairs[:, 1], len(nodes), node_labels=node_labels, edge_labels=edge_labels)


def _graphml_labels(
    elements: list[ElementTree.Element], keys: dict[str, ElementTree.Element], attribute: str | None, where: str
) -> list[int] | None:
    if attribute is None or (attribute == AUTO and "label" not in keys):
        return None
    wanted = "label" if attribute == AUTO else attribute
    if wanted not in keys:
        raise OptionError(f"an attribute of {where}: {sorted(keys)}", repr(wanted), "name one of them")
    key, default = keys[wanted].get("id"), keys[wanted].findtext("default")
    values = [next((d.text for d in e.findall("data") if d.get("key") == key), default) for e in elements]
    if None in values:
        raise DataError(
            f"the attribute {wanted!r} on all of {where}",
            f"{values.count(None)} without it",
            "set it on all, or leave the labels out",
        )
    return [_integer(str(value), where) for value in values]


def _integer(word: str, where: str) -> int:
    try:
        return int(word)
    except ValueError as error:
        raise DTypeError(
            f"integer labels on {where}",
            repr(word),
            "number the distinct labels first (the same way in all graphs), or leave them out (--edge-label none, "
            "--node-label none; in Python edge_attribute=None, node_attribute=None)",
        ) from error


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
"""Formats of files and the endings that tell them; all but the first three are read by networkx."""

_ENDINGS = {ending: kind for kind, endings in FORMATS.items() for ending in endings}
_COMMENT = re.compile(r"(?:^|(?<=\s))[#%](?:[\s#%].*)?$")
_ENDING = re.compile(r"(?:[ _.-]*(?:id|node|name))+$")  # of a column's name: source_id, FromNodeId
_SOURCES = ("source", "src", "from", "head", "node1", "node_1", "id1", "id_1")
_TARGETS = ("target", "dst", "dest", "destination", "to", "tail", "node2", "node_2", "id2", "id_2")
