"""Which tests tell which graphs apart."""

import json

import networkx as nx
import numpy as np
import pytest

import lrga
from lrga.errors import DataError, DTypeError, OptionError, ShapeError
from lrga.theory import TESTS, as_graph, compare, distinguishes, refine, stable_colouring, verdict_matrix
from lrga.theory.wl.verdicts import chosen_tests, read_named_graphs, verdict_report
from lrga.theory.zoo import cycle, two_triangles

HEXAGON = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
TRIANGLES = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]


@pytest.mark.parametrize(("test", "apart"), [("1-wl", False), ("2-wl", False), ("2-FWL", True)])
def test_hexagon_and_triangles(test, apart):
    assert lrga.theory.distinguishes(HEXAGON, TRIANGLES, test) is apart


@pytest.mark.parametrize("test", TESTS)
def test_isomorphic_graphs_are_not_told_apart_and_have_equal_histograms(test):
    rng = np.random.default_rng(0)
    for seed in range(5):
        graph = as_graph(nx.gnm_random_graph(9, 12, seed=seed))
        assert not distinguishes(graph, graph.permuted(rng.permutation(9)), test)
    graph = as_graph(nx.gnm_random_graph(8, 11, seed=3))
    copy = graph.permuted(np.random.default_rng(0).permutation(8))
    assert stable_colouring(graph, test).histogram == stable_colouring(copy, test).histogram


@pytest.mark.parametrize("test", TESTS)
def test_graphs_of_different_sizes_or_without_nodes_or_edges(test):
    assert compare(HEXAGON, [*HEXAGON, (5, 6)], test).rounds == 0
    assert distinguishes(HEXAGON, HEXAGON, test, num_nodes=(6, 7))
    assert not distinguishes([], [], test)
    assert not distinguishes([], [], test, num_nodes=3)
    assert distinguishes([], [(0, 1)], test, num_nodes=3)


@pytest.mark.parametrize("test", TESTS)
def test_labels_of_nodes_and_edges_count(test):
    same = [1, 1, 1, 1, 1, 1]
    assert not distinguishes(HEXAGON, HEXAGON, test, node_labels=(same, same))
    assert distinguishes(HEXAGON, HEXAGON, test, node_labels=(same, [2, 1, 1, 1, 1, 1]))
    opposite, adjacent = [2, 1, 1, 2, 1, 1], [2, 2, 1, 1, 1, 1]
    assert distinguishes(HEXAGON, HEXAGON, test, node_labels=(opposite, adjacent))
    assert distinguishes(HEXAGON, HEXAGON, test, edge_labels=(opposite, adjacent))
    assert not distinguishes(HEXAGON, HEXAGON, test, edge_labels=(adjacent, [1, 2, 2, 1, 1, 1]))
    rows = [[1, 2]] * 6  # which are equal only as a whole
    assert not distinguishes(HEXAGON, HEXAGON, test, node_labels=(rows, rows))
    assert distinguishes(HEXAGON, HEXAGON, test, node_labels=(rows, [[1, 3], *rows[1:]]))
    assert distinguishes(as_graph([(0, 1), (1, 2)], edge_labels=[4, 5]), as_graph([], num_nodes=3), test)


@pytest.mark.parametrize("test", TESTS)
def test_directions_count(test):
    around, against = [(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 2), (0, 2)]
    assert not distinguishes(around, against, test)
    assert distinguishes(around, against, test, directed=True)
    reversed_ = [(b, a) for a, b in against]
    assert distinguishes([*against, (2, 3)], [*reversed_, (2, 3)], test, directed=True)


@pytest.mark.parametrize("test", ["2-wl", "2-fwl"])
def test_self_loops_are_refused_where_pairs_stand_for_nodes(test):
    with pytest.raises(DataError, match="self-loops.*graph 1 with a self-loop at node 2"):
        distinguishes([(0, 1)], [(0, 1), (2, 2)], test, num_nodes=3)


def test_bad_input_is_refused_with_an_error_of_its_kind():
    with pytest.raises(OptionError, match="1-wl, 2-wl, 2-fwl"):
        distinguishes(HEXAGON, TRIANGLES, "4-wl")
    with pytest.raises(OptionError, match="1-wl"):
        distinguishes(HEXAGON, TRIANGLES, 2)
    with pytest.raises(DataError, match=r"\(4, 5\)"):
        distinguishes(HEXAGON, TRIANGLES, num_nodes=5)
    with pytest.raises(DTypeError, match="same type in all graphs"):
        distinguishes(as_graph(HEXAGON, node_labels=range(6)), TRIANGLES)
    with pytest.raises(DTypeError, match="same type"):  # even when sizes differ
        distinguishes(as_graph(HEXAGON, node_labels=range(6)), [(0, 1)])
    with pytest.raises(DTypeError, match="2 labels per node"):
        distinguishes(as_graph(HEXAGON, node_labels=range(6)), as_graph(HEXAGON, node_labels=[[1, 1]] * 6))
    with pytest.raises(DTypeError, match="edge labels"):
        distinguishes(HEXAGON, as_graph(HEXAGON, edge_labels=[1] * 6))
    with pytest.raises(DTypeError, match="integer node labels"):
        distinguishes(HEXAGON, TRIANGLES, node_labels=([0.5] * 6, [0.5] * 6))
    with pytest.raises(ShapeError, match="6 node labels"):
        distinguishes(HEXAGON, TRIANGLES, node_labels=([1, 2], [1, 2]))
    with pytest.raises(OptionError, match="node_labels as a pair"):
        distinguishes(HEXAGON, TRIANGLES, node_labels=[1, 1, 1, 1, 1, 1])


def test_the_stable_colouring_has_a_histogram_and_rounds_that_can_be_limited():
    colouring = stable_colouring(nx.path_graph(5), "1-wl")
    assert sorted(colouring.histogram.values()) == [1, 2, 2]
    assert (colouring.rounds, colouring.stable, colouring.test) == (2, True, "1-wl")
    pairs = stable_colouring(nx.cycle_graph(6), "2-fwl")
    assert pairs.colours.shape == (6, 6)
    assert sorted(pairs.histogram.values()) == [6, 6, 12, 12]  # by distance: 0, 3, 1, 2
    assert stable_colouring(nx.path_graph(9), rounds=1).rounds == 1
    with pytest.raises(OptionError, match="rounds"):
        stable_colouring(nx.path_graph(9), rounds=-1)


def test_graphs_of_several_sizes_are_refined_in_one_call():
    graphs = [nx.path_graph(3), nx.cycle_graph(4), nx.path_graph(3), nx.path_graph(4)]
    for test in TESTS:
        first, square, third, path = refine(graphs, test)
        assert first.histogram == third.histogram
        assert not (test != "1-wl" and set(first.histogram) & set(square.histogram))
        assert square.histogram != path.histogram


@pytest.mark.parametrize("test", TESTS)
def test_the_matrix_holds_the_verdict_of_every_pair(test):
    graphs = [cycle(6), two_triangles(), nx.path_graph(6), nx.path_graph(5), nx.cycle_graph(6)]
    matrix = verdict_matrix(graphs, test)
    assert matrix.dtype == bool
    for i, a in enumerate(graphs):
        for j, b in enumerate(graphs):
            assert matrix[i, j] == distinguishes(a, b, test)
    assert verdict_matrix([], test).shape == (0, 0)
    assert verdict_matrix([HEXAGON], test).tolist() == [[False]]
    with pytest.raises(DTypeError, match="list of graphs"):
        verdict_matrix(nx.path_graph(3))


@pytest.fixture
def files(tmp_path):
    nx.write_graph6(nx.cycle_graph(6), tmp_path / "hexagon.g6")
    two = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    nx.write_edgelist(two, tmp_path / "triangles.txt")
    return tmp_path


def test_two_graphs_get_a_verdict_and_rounds(files):
    graphs = read_named_graphs([files / "hexagon.g6", files / "triangles.txt"])
    said = []
    report = json.loads(json.dumps(verdict_report(graphs, on_start=said.append)))
    assert said == ["1-wl", "2-wl", "2-fwl"]
    assert [g["nodes"] for g in report["graphs"]] == [6, 6]
    assert report["tests"]["1-wl"] == {
        "distinguished": False,
        "rounds": 0,
        "matrix": [[False, False], [False, False]],
        "classes": [[0, 1]],
    }
    assert report["tests"]["2-fwl"]["distinguished"] is True
    assert report["tests"]["2-fwl"]["classes"] == [[0], [1]]


def test_several_graphs_get_a_matrix_and_classes_and_one_alone_is_refused(files):
    path = files / "three.g6"
    graphs = (nx.cycle_graph(6), nx.path_graph(6), nx.cycle_graph(6))
    path.write_text("".join(nx.to_graph6_bytes(g, header=False).decode() for g in graphs))
    report = verdict_report(read_named_graphs([path]), ["1-wl"])
    assert [g["name"] for g in report["graphs"]] == [f"{path}:{n}" for n in (1, 2, 3)]
    assert report["tests"]["1-wl"]["classes"] == [[0, 2], [1]]
    assert report["tests"]["1-wl"]["matrix"][0] == [False, True, False]
    with pytest.raises(OptionError, match="two graphs or more"):
        read_named_graphs([files / "hexagon.g6"])


def test_all_names_the_three_tests_of_the_paper():
    assert chosen_tests("all") == ("1-wl", "2-wl", "2-fwl")
    assert chosen_tests("2-FWL") == ("2-fwl",)
    with pytest.raises(OptionError, match="2-fwl"):
        chosen_tests("none")
