"""``lrga wl`` on files."""

import json

import networkx as nx
import pytest

from lrga.errors import DataMissingError, OptionError
from tests.helpers.commands import lrga


@pytest.fixture
def hexagon(tmp_path):
    path = tmp_path / "hexagon.g6"
    nx.write_graph6(nx.cycle_graph(6), path)
    return str(path)


@pytest.fixture
def triangles(tmp_path):
    path = tmp_path / "triangles.txt"
    nx.write_edgelist(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), path)
    return str(path)


def test_two_files_get_verdicts_as_a_table_and_as_pure_json(hexagon, triangles):
    result = lrga("wl", hexagon, triangles)
    rows = {line.split("│")[1].strip(): line for line in result.stdout.splitlines() if line.startswith("│")}
    assert "no" in rows["1-wl"]
    assert "no" in rows["2-wl"]
    assert "yes" in rows["2-fwl"]
    result = lrga("wl", hexagon, triangles, "--json", "--test", "2-fwl")
    report = json.loads(result.stdout)
    assert list(report["tests"]) == ["2-fwl"]
    assert report["tests"]["2-fwl"]["distinguished"] is True


def test_several_files_get_a_matrix(hexagon, triangles):
    result = lrga("wl", hexagon, triangles, hexagon, "--test", "2-fwl")
    assert "2-fwl: 2 classes" in result.stdout
    assert [line.split() for line in result.stdout.splitlines()[-3:]] == [
        ["0", "=", "≠", "="],
        ["1", "≠", "=", "≠"],
        ["2", "=", "≠", "="],
    ]


def test_labels_are_left_out_when_asked(tmp_path):
    paths = []
    for number, label in enumerate((1, 2)):
        graph = nx.path_graph(2)
        nx.set_node_attributes(graph, label, "label")
        paths.append(str(tmp_path / f"{number}.graphml"))
        nx.write_graphml(graph, paths[-1])
    for options, apart in (([], True), (["--node-label", "none"], False), (["--node-label", "label"], True)):
        report = json.loads(lrga("wl", *paths, "--json", *options).stdout)
        assert report["tests"]["1-wl"]["distinguished"] is apart


def test_directions_count_when_asked(tmp_path):
    around, against = tmp_path / "a.txt", tmp_path / "b.txt"
    around.write_text("0 1\n1 2\n2 0\n")
    against.write_text("0 1\n1 2\n0 2\n")
    for options, apart in (([], False), (["--directed"], True)):
        report = json.loads(lrga("wl", str(around), str(against), "--json", *options).stdout)
        assert report["tests"]["1-wl"]["distinguished"] is apart


def test_mistakes_are_errors(hexagon):
    cases = (([], OptionError), (["nowhere.g6"], DataMissingError), ([hexagon, "--test", "9-wl"], OptionError))
    for more, error in cases:
        with pytest.raises(error):
            lrga("wl", hexagon, *more)
