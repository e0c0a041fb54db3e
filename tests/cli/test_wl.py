"""``lrga wl`` on files."""

import json

import networkx as nx
import pytest
from typer.testing import CliRunner

from lrga.cli.main import app
from lrga.errors import DataMissingError, OptionError

runner = CliRunner()


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


def test_two_files_get_a_table_of_verdicts(hexagon, triangles):
    result = runner.invoke(app, ["wl", hexagon, triangles])
    assert result.exit_code == 0
    rows = {line.split("│")[1].strip(): line for line in result.stdout.splitlines() if line.startswith("│")}
    assert "no" in rows["1-wl"]
    assert "no" in rows["2-wl"]
    assert "yes" in rows["2-fwl"]


def test_json_is_pure(hexagon, triangles):
    result = runner.invoke(app, ["wl", hexagon, triangles, "--json", "--test", "2-fwl"])
    report = json.loads(result.stdout)
    assert list(report["tests"]) == ["2-fwl"]
    assert report["tests"]["2-fwl"]["distinguished"] is True


def test_several_files_get_a_matrix(hexagon, triangles):
    result = runner.invoke(app, ["wl", hexagon, triangles, hexagon, "--test", "2-fwl"])
    assert result.exit_code == 0
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
        report = json.loads(runner.invoke(app, ["wl", *paths, "--json", *options]).stdout)
        assert report["tests"]["1-wl"]["distinguished"] is apart


def test_directions_count_when_asked(tmp_path):
    around, against = tmp_path / "a.txt", tmp_path / "b.txt"
    around.write_text("0 1\n1 2\n2 0\n")
    against.write_text("0 1\n1 2\n0 2\n")
    for options, apart in (([], False), (["--directed"], True)):
        report = json.loads(runner.invoke(app, ["wl", str(around), str(against), "--json", *options]).stdout)
        assert report["tests"]["1-wl"]["distinguished"] is apart


def test_mistakes_are_errors(hexagon):
    assert isinstance(runner.invoke(app, ["wl", hexagon]).exception, OptionError)
    assert isinstance(runner.invoke(app, ["wl", hexagon, "nowhere.g6"]).exception, DataMissingError)
    assert isinstance(runner.invoke(app, ["wl", hexagon, hexagon, "--test", "9-wl"]).exception, OptionError)
