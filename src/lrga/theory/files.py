"""Graphs from files: graph6, edge lists and GraphML, read without further packages."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lrga.errors import DataError, DataMissingError, DTypeError, OptionError, UnsupportedError
from lrga.limits import read_bytes
from lrga.theory.inputs import AUTO
from lrga.theory.labelled import LabelledGraph, graph_from_arcs


def read_graphs(
    path: Path | str,
    *,
    format: str = AUTO,
    directed: bool = False,
    node_attribute: str | None = AUTO,
    edge_attribute: str | None = AUTO,
) -> list[LabelledGraph]:
    """All graphs of a file: one per line of a graph6 file, else one.

    Args:
        path: The file.
        format: ``"graph6"``, ``"edgelist"`` or ``"graphml"``; by default told from the ending (.g6, .graph6; .graphml,
            .xml; all others are edge lists).
        directed: Whether the edges of an edge list have a direction; GraphML files say so themselves.
        node_attribute, edge_attribute: Which GraphML attribute holds the integer labels; ``"label"``, if there, by
            default. ``None`` leaves labels out. A third column of an edge list is the edge's label.

    An edge list has one edge ``a b`` or ``a b label`` per line, nodes by any names, and nodes without edges on a line
    of their own; ``#`` and ``%`` start comments, and commas may separate.
    """
    path = Path(path)
    if not path.is_file():
        raise DataMissingError(f"a graph file at {path}", "no such file", "check the path")
    kind = _ENDINGS.get(path.suffix.lower(), "edgelist") if format == AUTO else format
    if kind not in _PARSERS:
        raise OptionError(f"a format of {', '.join(_PARSERS)}", repr(format), "choose one of them")
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} as a text file", str(error), "give a graph6, edge list or GraphML file") from error
    if kind == "graph6":
        return parse_graph6(text, name=str(path))
    if kind == "graphml":
        return [parse_graphml(text, name=str(path), node_attribute=node_attribute, edge_attribute=edge_attribute)]
    return [parse_edge_list(text, name=str(path), directed=directed, edge_attribute=edge_attribute)]


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
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split("%")[0].replace(",", " ").split()
        if words and words[-1] == "{}" and len(words) == 3:  # as networkx writes edges without attributes
            words.pop()
        if not words:
            continue
        if len(words) > 3:
            raise DataError(
                f"'a b' or 'a b label' on line {number} of {name}", repr(line.strip()[:60]), "give one edge per line"
            )
        nodes = [index.setdefault(word, len(index)) for word in words[:2]]
        if len(words) >= 2:
            edges.append((nodes[0], nodes[1]))
            labels += words[2:]
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
            "number the distinct labels first (the same way in all graphs), or leave them out",
        ) from error


_ENDINGS = {".g6": "graph6", ".graph6": "graph6", ".graphml": "graphml", ".xml": "graphml"}
_PARSERS: dict[str, Callable[..., object]] = {
    "graph6": parse_graph6,
    "edgelist": parse_edge_list,
    "graphml": parse_graphml,
}
