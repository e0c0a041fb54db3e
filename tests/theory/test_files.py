"""Graph files of every format, whole and damaged."""

import re

import networkx as nx
import numpy as np
import pytest

from lrga.errors import DataError, DataMissingError, DTypeError, LRGAError, OptionError, UnsupportedError
from lrga.theory.files import parse_edge_list, read_graphs
from lrga.theory.wl.verdicts import distinguishes


def arcs_of(graph):
    return set(zip(graph.source.tolist(), graph.target.tolist(), strict=True))


@pytest.mark.parametrize("size", [0, 1, 5, 62, 63])
def test_graph6_is_read_as_networkx_writes_it(size, tmp_path):
    graph = nx.gnp_random_graph(size, 0.3, seed=size)
    path = tmp_path / "graph.g6"
    nx.write_graph6(graph, path)
    (read,) = read_graphs(path)
    assert read.num_nodes == size
    assert arcs_of(read) == set(graph.edges) | {(b, a) for a, b in graph.edges}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no graph"),
        ("D?", "Expected 10 bits"),
        ("Bw\nB w", "characters outside"),
        ("Bw\nB!\n", "characters outside"),  # as long as a triangle
        (":An", "characters outside"),  # sparse6
        ("&AO", "characters outside"),  # digraph6
        ("~", "graph6 in"),
        ("Bé", "characters outside"),
    ],
)
def test_damaged_graph6_is_refused(text, said, tmp_path):
    path = tmp_path / "graph.g6"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_graphs(path)


def test_edge_lists_have_names_comments_commas_labels_and_directions():
    graph = parse_edge_list("# a comment\n% another\na b\n\nb,c  # the second edge\nlonely\n")
    assert (graph.num_nodes, graph.num_edges) == (4, 2)
    assert arcs_of(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    graph = parse_edge_list("0 1 5\n1 2 7\n")
    assert sorted(graph.edge_labels[:, 0].tolist()) == [5, 5, 7, 7]
    assert parse_edge_list("0 1 5\n1 2 7\n", edge_attribute=None).edge_labels is None
    assert arcs_of(parse_edge_list("0 1\n", directed=True)) == {(0, 1)}


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("a b c d\n", DataError, "line 1"),
        ("a b 1\nb c\n", DataError, "1 labels for 2 edges"),
        ("a b 1.5\n", DTypeError, "1.5"),
        ("a b x\n", DTypeError, "'x'.*--edge-label none"),
        ("", DataError, "edges in edge list, got none"),
        ("source,target\n", DataError, "got none"),
        ("id,source,target\n0,0,1\n1,1,2\n", DataError, "the header 'id source target'"),
        ("to,from\na,b\n", DataError, "the header 'to from'"),
    ],
)
def test_damaged_edge_lists_are_refused(text, error, said):
    with pytest.raises(error, match=said):
        parse_edge_list(text)


@pytest.fixture
def graphml(tmp_path):
    """``graphml(body, keys)``: the graph of a document."""

    def read(body, keys=""):
        path = tmp_path / "graph.graphml"
        path.write_text(f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}{body}</graphml>')
        (graph,) = read_graphs(path)
        return graph

    return read


NODES = '<node id="a"/><node id="b"/><node id="c"/>'
EDGE = '<edge source="a" target="b"/>'


def test_graphml_says_itself_what_is_directed(graphml):
    undirected = graphml(f'<graph edgedefault="undirected">{NODES}{EDGE}</graph>')
    directed = graphml(f'<graph edgedefault="directed">{NODES}{EDGE}</graph>')
    assert arcs_of(undirected) == {(0, 1), (1, 0)}
    assert arcs_of(directed) == {(0, 1)}
    assert undirected.num_nodes == 3


def test_graphml_labels_are_read_by_their_attribute(tmp_path):
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: 6, 1: 8, 2: 6}, "label")
    nx.set_edge_attributes(graph, {(0, 1): 1, (1, 2): 2}, "bond")
    path = tmp_path / "molecule.graphml"
    nx.write_graphml(graph, path)
    (read,) = read_graphs(path, edge_attribute="bond")
    assert read.node_labels[:, 0].tolist() == [6, 8, 6]
    assert sorted(read.edge_labels[:, 0].tolist()) == [1, 1, 2, 2]
    (bare,) = read_graphs(path, node_attribute=None)
    assert bare.node_labels is None
    assert bare.edge_labels is None
    with pytest.raises(DataError, match="the attribute 'bonds' on every edge"):
        read_graphs(path, edge_attribute="bonds")


def test_graphml_defaults_stand_in_for_missing_values(graphml):
    keys = '<key id="d0" for="node" attr.name="label" attr.type="int"><default>4</default></key>'
    body = '<graph edgedefault="undirected"><node id="a"><data key="d0">9</data></node><node id="b"/></graph>'
    assert graphml(body, keys).node_labels[:, 0].tolist() == [9, 4]
    with pytest.raises(DataError, match="1 of 2 have it"):
        graphml(body, keys.replace("<default>4</default>", ""))
    edges = '<edge source="a" target="b"/><edge source="b" target="c"><data key="d0">7</data></edge>'
    labels = graphml(f"<graph>{NODES}{edges}</graph>", keys.replace("node", "edge")).edge_labels
    assert sorted(labels[:, 0].tolist()) == [4, 4, 7, 7]


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [
        ("<graph>", DataError, "ParseError"),
        ("<tree/>", DataError, "not successfully read"),
        (f"<graph>{NODES}</graph><graph>{NODES}</graph>", DataError, "several or nested"),
        ('<graph><node id="a"><graph/></node></graph>', DataError, "several or nested"),
        ("<graph><hyperedge/></graph>", DataError, "hyperedges"),
        (f'<graph>{NODES}<edge source="a" target="b" directed="true"/></graph>', DataError, "directed=true"),
        (f"<graph>{NODES}{EDGE}{EDGE}</graph>", UnsupportedError, "parallel edges"),
        ('<graph><node id="a"><data key="k">C</data></node></graph>', DTypeError, "'C'"),
    ],
)
def test_graphml_of_another_kind_or_damaged_is_refused(body, error, said, graphml):
    with pytest.raises(error, match=said):
        graphml(body, '<key id="k" for="node" attr.name="label"/>')


def test_a_missing_file_and_an_unknown_format_are_refused(tmp_path):
    with pytest.raises(DataMissingError, match=r"nowhere\.g6"):
        read_graphs(tmp_path / "nowhere.g6")
    path = tmp_path / "graph.bin"
    path.write_bytes(np.arange(100, 256, dtype=np.uint8).tobytes())
    with pytest.raises(DataError, match="text file"):
        read_graphs(path, format="edgelist")
    with pytest.raises(OptionError, match=r"graph6 \(.*, edgelist \(.*, graphml \("):
        read_graphs(path, format="mtx")


WRITERS = {
    ".txt": nx.write_edgelist,
    ".g6": nx.write_graph6,
    ".graphml": nx.write_graphml,
    ".s6": nx.write_sparse6,
    ".gml": nx.write_gml,
    ".gexf": nx.write_gexf,
    ".net": nx.write_pajek,
    ".adjlist": nx.write_adjlist,
    ".madjlist": nx.write_multiline_adjlist,
}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("graph", [nx.path_graph(3), nx.petersen_graph()], ids=["path", "petersen"])
def test_a_graph_is_itself_in_every_format(tmp_path, ending, graph):
    WRITERS[ending](graph, tmp_path / f"graph{ending}")
    (read,) = read_graphs(tmp_path / f"graph{ending}")
    assert (read.num_nodes, read.num_edges) == (graph.number_of_nodes(), graph.number_of_edges())
    assert not distinguishes(read, graph, "2-fwl")


def test_a_leda_file_is_read(tmp_path):
    (tmp_path / "a.lgr").write_text(
        "LEDA.GRAPH\nstring\nint\n-2\n3\n|{a}|\n|{b}|\n|{c}|\n2\n1 2 0 |{0}|\n2 3 0 |{0}|\n"
    )
    assert not distinguishes(read_graphs(tmp_path / "a.lgr")[0], nx.path_graph(3), "2-fwl")


def test_directions_and_labels_of_gml_are_kept(tmp_path):
    graph = nx.DiGraph([(0, 1), (1, 2)])
    nx.set_node_attributes(graph, {0: 6, 1: 8, 2: 6}, "element")
    nx.write_gml(graph, tmp_path / "a.gml")
    assert read_graphs(tmp_path / "a.gml")[0].node_labels is None
    (read,) = read_graphs(tmp_path / "a.gml", node_attribute="element")
    assert arcs_of(read) == {(0, 1), (1, 2)}
    assert read.node_labels[:, 0].tolist() == [6, 8, 6]


@pytest.mark.parametrize("name", ["graph.dot", "graph.mtx", "graph.json", "graph.npz", "graph", "graph.gz"])
def test_unknown_endings_are_refused_with_those_that_are_known(tmp_path, name):
    (tmp_path / name).write_text("0 1\n1 2\n")
    with pytest.raises(OptionError, match=r"gml \(\.gml\).*--format"):
        read_graphs(tmp_path / name)
    assert read_graphs(tmp_path / name, format="edgelist")[0].num_nodes == 3  # where the ending misleads


@pytest.mark.parametrize("ending", [ending for ending in WRITERS if ending != ".txt"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00 1", b"<a/> [ 3"])
def test_damaged_files_are_refused_in_words(tmp_path, ending, content):
    path = tmp_path / f"graph{ending}"
    path.write_bytes(content)
    if (ending, content) == (".adjlist", b"<a/> [ 3"):
        assert read_graphs(path)[0].num_nodes == 3  # any three words are a node and its neighbours
        return
    with pytest.raises(LRGAError, match=re.escape(str(path))):
        read_graphs(path)


@pytest.mark.parametrize(
    "header",
    [
        "source target\n",
        "source,target\n",
        "From To\n",
        "#source target\n",
        "FromNodeId\tToNodeId\n",
        "x y\n",
        '"source","target"\n',
        '"Source";"Target"\n',
    ],
)
def test_a_header_is_no_edge(header):
    graph = parse_edge_list(header + "0 1\n1 2\n")
    assert (graph.num_nodes, graph.num_edges) == (3, 2)


@pytest.mark.parametrize("text", ['"a b","c d"\n"c d","e"\n', "a b\tc d\nc d\te\n", "a b; c d\nc d; e\n"])
def test_names_may_have_spaces_where_something_else_separates(text):
    assert parse_edge_list(text).num_edges == 2


def test_nodes_may_be_called_as_headers_are_and_begin_as_comments_do(tmp_path):
    (tmp_path / "a.csv").write_text("source,target\na,b\n", encoding="utf-8-sig")
    assert read_graphs(tmp_path / "a.csv")[0].num_nodes == 2
    assert parse_edge_list("source target\ntarget c\n").num_nodes == 3
    assert parse_edge_list("a b\nb c\n").num_edges == 2
    graph = parse_edge_list("# a comment\n#x a\na #y  # another\n%z\n")
    assert (graph.num_nodes, graph.num_edges) == (4, 2)
