"""Reports of verdicts over files."""

import json

import networkx as nx
import pytest

from lrga.errors import OptionError
from lrga.theory.wl.comparison import chosen_tests, read_named_graphs, verdict_report


@pytest.fixture
def files(tmp_path):
    nx.write_graph6(nx.cycle_graph(6), tmp_path / "hexagon.g6")
    two = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    nx.write_edgelist(two, tmp_path / "triangles.txt")
    return tmp_path


def test_two_graphs_get_a_verdict_and_rounds(files):
    graphs = read_named_graphs([files / "hexagon.g6", files / "triangles.txt"])
    report = json.loads(json.dumps(verdict_report(graphs)))
    assert [g["nodes"] for g in report["graphs"]] == [6, 6]
    assert report["tests"]["1-wl"] == {
        "distinguished": False,
        "rounds": 0,
        "matrix": [[False, False], [False, False]],
        "classes": [[0, 1]],
    }
    assert report["tests"]["2-fwl"]["distinguished"] is True
    assert report["tests"]["2-fwl"]["classes"] == [[0], [1]]


def test_several_graphs_get_a_matrix_and_classes(files):
    path = files / "three.g6"
    graphs = (nx.cycle_graph(6), nx.path_graph(6), nx.cycle_graph(6))
    path.write_text("".join(nx.to_graph6_bytes(g, header=False).decode() for g in graphs))
    report = verdict_report(read_named_graphs([path]), ["1-wl"])
    assert [g["name"] for g in report["graphs"]] == [f"{path}:{n}" for n in (1, 2, 3)]
    assert report["tests"]["1-wl"]["classes"] == [[0, 2], [1]]
    assert report["tests"]["1-wl"]["matrix"][0] == [False, True, False]


def test_one_graph_alone_is_refused(files):
    with pytest.raises(OptionError, match="two graphs or more"):
        read_named_graphs([files / "hexagon.g6"])


def test_all_names_the_three_tests_of_the_paper():
    assert chosen_tests("all") == ("1-wl", "2-wl", "2-fwl")
    assert chosen_tests("3-FWL") == ("3-fwl",)
    with pytest.raises(OptionError, match="3-fwl"):
        chosen_tests("none")


def test_every_test_is_announced(files):
    said = []
    verdict_report(read_named_graphs([files / "hexagon.g6", files / "triangles.txt"]), on_start=said.append)
    assert said == ["1-wl", "2-wl", "2-fwl"]
