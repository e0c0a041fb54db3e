from pathlib import Path

import numpy as np
import pytest
import torch

from lrga.data.own.csv_folder import read_folder
from lrga.data.own.reading import read_graphs
from lrga.errors import DataError, DataMissingError, OptionError

GOOD = {
    "nodes.csv": "graph,node,x0,x1\nb,1,0.5,1\na,1,1.5,2\nb,2,2.5,3\na,2,3.5,4\na,7,4.5,5\n",
    "edges.csv": "graph,source,target,w\na,1,7,0.1\nb,2,1,0.2\na,7,2,0.3\n",
    "graphs.csv": "graph,y,split\na,1,train\nb,0,test\n",
}


def write(folder: Path, **files: str | bytes | None) -> Path:
    content = GOOD | {name.replace("_", "."): text for name, text in files.items()}
    for name, text in content.items():
        if text is not None:
            (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_a_folder_is_read_with_graphs_nodes_and_edges_in_their_order(tmp_path):
    table = read_folder(write(tmp_path))
    assert table.objects["graph_id"] == ["a", "b"]
    assert table.objects["node_id"] == [["1", "2", "7"], ["1", "2"]]
    assert table.nodes_per_graph.tolist() == [3, 2]
    assert table.edges_per_graph.tolist() == [2, 1]
    assert [graph.edge_index.tolist() for graph in table] == [[[0, 2], [2, 1]], [[1], [0]]]
    assert table.x.tolist() == [[1.5, 2], [3.5, 4], [4.5, 5], [0.5, 1], [2.5, 3]]
    np.testing.assert_allclose(table[0].edge_attr, [[0.1], [0.3]], rtol=1e-6)
    assert table.x.dtype == table.edge_attr.dtype == torch.float32
    assert table.y.tolist() == [1, 0]
    assert table.columns["split"].level == "graph"
    assert table.attribute("split").tolist() == [0, 2]


def test_one_graph_needs_no_graph_column(tmp_path):
    table = read_folder(
        write(
            tmp_path,
            nodes_csv="node,x,y,split\nu,1,0,train\nv,2,1,val\nw,3,1,test\n",
            edges_csv="source,target\nu,v\nv,w\n",
            graphs_csv=None,
        )
    )
    assert table.nodes_per_graph.tolist() == [3]
    assert table.edge_attr is None
    assert table.y.tolist() == [0, 1, 1]
    assert table.columns["split"].level == "node"


def test_targets_of_edges_follow_their_edges(tmp_path):
    folder = write(tmp_path, edges_csv="graph,source,target,y\nb,1,2,5\na,2,1,6\n")
    table = read_folder(folder, level="edge")
    assert [graph.edge_index.tolist() for graph in table] == [[[1], [0]], [[0], [1]]]
    assert table.y.tolist() == [6, 5]
    with pytest.raises(OptionError, match="column y of edges.csv and column y of graphs.csv"):
        read_folder(folder)


def test_without_graphs_csv_graphs_come_in_the_order_of_their_first_node(tmp_path):
    table = read_folder(write(tmp_path, graphs_csv=None), target=False)
    assert table.objects["graph_id"] == ["b", "a"]
    assert set(table.columns) == {"x", "edge_attr"}


def test_types_are_kept_as_integers_and_no_feature_is_the_feature_one(tmp_path):
    table = read_folder(
        write(
            tmp_path,
            nodes_csv="graph,node,type\na,1,3\nb,1,0\n",
            edges_csv="graph,source,target,type\na,1,1,2\n",
        )
    )
    assert table.x.dtype == table.edge_attr.dtype == torch.int64
    assert table.x.tolist() == [3, 0]
    assert table.edge_attr.tolist() == [2]
    table = read_folder(write(tmp_path, nodes_csv="graph,node\na,1\nb,1\n", edges_csv="graph,source,target\n"))
    assert table.x.tolist() == [[1], [1]]
    assert table.edges_per_graph.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("files", "where", "words"),
    [
        ({"nodes_csv": "graph,x0\na,1\n"}, ("nodes.csv", 1), "the column 'node'"),
        ({"edges_csv": "graph,source\na,1\n"}, ("edges.csv", 1), "the column 'target'"),
        ({"edges_csv": "source,target\n1,2\n"}, ("edges.csv", 1), "the column 'graph'"),
        ({"graphs_csv": "y\n1\n"}, ("graphs.csv", 1), "the column 'graph'"),
        (
            {"edges_csv": "graph,source,target\na,1,2\na,1,9\n"},
            ("edges.csv", 3),
            "target '9', which is not a node of graph 'a'",
        ),
        ({"edges_csv": "graph,source,target\nb,7,1\n"}, ("edges.csv", 2), "source '7'"),
        ({"edges_csv": "graph,source,target\nc,1,2\n"}, ("edges.csv", 2), "graph 'c'"),
        ({"nodes_csv": "graph,node,x0\na,1,1\nb,1,1\na,1,2\n"}, ("nodes.csv", 4), "node '1' of graph 'a' again"),
        ({"nodes_csv": "graph,node,x0\na,1,1\nc,1,1\nb,2,2\n"}, ("nodes.csv", 3), "graph 'c'"),
        ({"graphs_csv": "graph,y\na,1\nb,0\na,1\n"}, ("graphs.csv", 4), "graph 'a' again"),
        ({"graphs_csv": "graph,y\na,1\nb,0\nc,1\n"}, ("graphs.csv", 4), "graph 'c' without any"),
        ({"graphs_csv": "graph,y,split\na,1,train\nb,0,dev\n"}, ("graphs.csv", 3), "'dev'"),
        ({"nodes_csv": "graph,node,x0\na,1,1\na,2,1e39\nb,1,1\n"}, ("nodes.csv", 3), "1e+39 in column 'x0'"),
        ({"nodes_csv": "graph,node,type\na,1,1\na,2,-1\nb,1,0\n"}, ("nodes.csv", 3), "-1"),
        ({"nodes_csv": "graph,node,type\na,1,1\na,2,0.5\nb,1,0\n"}, ("nodes.csv", 3), "0.5"),
        ({"nodes_csv": "graph,node,type,x\na,1,1,1\nb,1,0,1\n"}, ("nodes.csv", 1), "only feature"),
        ({"nodes_csv": "node,x0\n1,1\n2,1\n"}, ("nodes.csv", 1), "the column 'graph', because there is a graphs.csv"),
    ],
)
def test_every_malformed_file_is_answered_with_file_line_and_remedy(files, where, words, tmp_path):
    with pytest.raises(DataError) as caught:
        read_folder(write(tmp_path, **files))
    message = str(caught.value)
    name, line = where
    assert f"{tmp_path / name}, line {line}" in message
    assert words in message
    assert caught.value.remedy


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_a_missing_or_empty_file_is_named(name, tmp_path):
    write(tmp_path)
    (tmp_path / name).write_text("")
    with pytest.raises(DataError, match=f"{name}.*empty file"):
        read_folder(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataMissingError, match=name):
        read_folder(tmp_path)
    with pytest.raises(DataMissingError, match="no such folder"):
        read_folder(tmp_path / "elsewhere")
    with pytest.raises(DataMissingError, match="nothing.csv', which does not exist"):
        read_graphs("nothing.csv")
    write(tmp_path)
    for name, remedy in (("edges.csv", "--task link"), ("edges.tsv", "--task link"), ("mine.py", "mine:FUNCTION")):
        (tmp_path / name).touch()
        with pytest.raises(DataError, match=f"got the file .*{name}.*{remedy}"):
            read_graphs(tmp_path / name)


def test_two_columns_of_splits_are_refused(tmp_path):
    nodes = "graph,node,split\na,1,train\nb,1,test\n"
    with pytest.raises(DataError, match="in one file"):
        read_folder(write(tmp_path, nodes_csv=nodes, edges_csv="graph,source,target\n"))


def test_ids_are_text_so_that_1_and_01_are_two_nodes(tmp_path):
    table = read_folder(
        write(tmp_path, nodes_csv="node,x\n1,5\n01,6\n", edges_csv="source,target\n01,1\n", graphs_csv=None),
        target=False,
    )
    assert table.edge_index.tolist() == [[1], [0]]


ONE = {"edges_csv": "source,target\nu,v\nv,w\n", "graphs_csv": None}


@pytest.mark.parametrize(
    ("values", "blank"), [(["0", "1", "2"], 0), (["0.5", "1", "2"], np.nan), (["p", "q", "r"], "")]
)
def test_a_node_with_a_blank_split_is_in_none_and_may_have_a_blank_target(values, blank, tmp_path):
    rows = ["s,0,,", *(f"{n},1,{y},{name}" for n, y, name in zip("uvw", values, ("train", "val", "test"), strict=True))]
    table = read_folder(write(tmp_path, nodes_csv="\n".join(["node,x,y,split", *rows, "z,1,, "]), **ONE))
    assert table.nodes_per_graph.tolist() == [5]
    assert table.attribute("split").tolist() == [-1, 0, 1, 2, -1]
    found = table.y.numpy()
    found = np.array(table.meta["classes"])[found] if "classes" in table.meta else found
    np.testing.assert_array_equal(found[[0, 4]], [blank, blank])
    assert [str(value) for value in found[1:4].tolist()] == [str(type(found[1].item())(y)) for y in values]


@pytest.mark.parametrize(
    ("files", "where", "remedy"),
    [
        ({"nodes_csv": "node,y,split\nu,0,train\nv,,val\nw,1,\n", **ONE}, ("nodes.csv", 3), "split of this row blank"),
        ({"nodes_csv": "node,y\nu,0\nv,1\nw,\n", **ONE}, ("nodes.csv", 4), "add a column split"),
        ({"graphs_csv": "graph,y,split\na,,train\nb,,\n"}, ("graphs.csv", 2), "split of this row blank"),
        (
            {
                "nodes_csv": "graph,node,y\nb,1,\na,1,0\na,2,\n",
                "edges_csv": "graph,source,target\n",
                "graphs_csv": "graph,split\na,train\nb,\n",
            },
            ("nodes.csv", 4),
            "split of its graph blank",
        ),
    ],
)
def test_a_blank_target_of_what_is_in_a_split_is_answered_with_both_ways_out(files, where, remedy, tmp_path):
    folder = write(tmp_path, **files)
    with pytest.raises(DataError) as caught:
        read_folder(folder)
    assert f"{tmp_path / where[0]}, line {where[1]}" in str(caught.value)
    assert caught.value.remedy.startswith("fill in y, or ")
    assert remedy in caught.value.remedy
    assert "away" not in caught.value.remedy
    assert len(read_folder(folder, target=False)) > 0  # to predict, no target is needed
