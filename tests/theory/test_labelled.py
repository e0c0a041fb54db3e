"""Graphs with integer labels: checks, order, symmetry."""

import numpy as np
import pytest

from lrga.errors import DataError, DTypeError, OptionError, ShapeError
from lrga.theory.labelled import graph_from_arcs, integer_labels


def arcs(*pairs):
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def test_edges_given_twice_count_once():
    graph = graph_from_arcs(*arcs((0, 1), (1, 0), (0, 1)), both_ways=True)
    assert graph.num_edges == 1
    assert list(zip(graph.source, graph.target, strict=True)) == [(0, 1), (1, 0)]


def test_arcs_are_ordered_by_source_and_target():
    graph = graph_from_arcs(*arcs((2, 0), (0, 2), (0, 1)), 3)
    assert graph.source.tolist() == [0, 0, 2]
    assert graph.target.tolist() == [1, 2, 0]


def test_a_graph_is_symmetric_when_every_arc_has_its_reverse():
    assert graph_from_arcs(*arcs((0, 1), (1, 0))).symmetric
    assert not graph_from_arcs(*arcs((0, 1), (1, 2), (2, 0))).symmetric


def test_labels_that_differ_by_direction_make_a_graph_directed():
    assert graph_from_arcs(*arcs((0, 1), (1, 0)), edge_labels=[3, 3]).symmetric
    assert not graph_from_arcs(*arcs((0, 1), (1, 0)), edge_labels=[3, 4]).symmetric


def test_edge_labels_follow_their_arcs_into_order():
    graph = graph_from_arcs(*arcs((2, 1), (0, 1)), edge_labels=[7, 5], both_ways=True)
    assert {(s, t): label for s, t, label in zip(graph.source, graph.target, graph.edge_labels[:, 0], strict=True)} == {
        (0, 1): 5,
        (1, 0): 5,
        (1, 2): 7,
        (2, 1): 7,
    }


def test_self_loops_count_as_one_edge():
    assert graph_from_arcs(*arcs((0, 0), (0, 1)), both_ways=True).num_edges == 2


def test_adjacency_is_the_papers_matrix():
    assert graph_from_arcs(*arcs((0, 1)), 3).adjacency().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_a_permuted_graph_carries_its_labels_along():
    graph = graph_from_arcs(*arcs((0, 1), (1, 2)), node_labels=[4, 5, 6], edge_labels=[1, 2], both_ways=True)
    order = [2, 0, 1]
    moved = graph.permuted(order)
    assert moved.node_labels[:, 0].tolist() == [5, 6, 4]
    matrix = np.zeros((3, 3), dtype=int)
    matrix[graph.source, graph.target] = graph.edge_labels[:, 0]
    moved_matrix = np.zeros((3, 3), dtype=int)
    moved_matrix[moved.source, moved.target] = moved.edge_labels[:, 0]
    assert all(moved_matrix[order[i], order[j]] == matrix[i, j] for i in range(3) for j in range(3))


def test_a_list_that_is_no_permutation_is_refused():
    with pytest.raises(OptionError, match="permutation"):
        graph_from_arcs(*arcs((0, 1))).permuted([0, 0])


def test_an_edge_to_a_missing_node_is_named():
    with pytest.raises(DataError, match=r"edge 1 = \(1, 7\)"):
        graph_from_arcs(*arcs((0, 1), (1, 7)), 3)


def test_a_negative_node_is_refused():
    with pytest.raises(DataError, match="-1"):
        graph_from_arcs(*arcs((0, -1)))


def test_a_number_of_nodes_that_is_no_count_is_refused():
    with pytest.raises(OptionError, match="num_nodes"):
        graph_from_arcs(*arcs((0, 1)), -3)
    with pytest.raises(OptionError, match="num_nodes"):
        graph_from_arcs(*arcs((0, 1)), 2.5)


def test_a_number_of_nodes_beyond_memory_is_refused_at_once():
    with pytest.raises(OptionError, match=r"a graph to fit.*up to \d+ nodes"):
        graph_from_arcs(*arcs((0, 1)), 10**13)


def test_one_edge_with_two_labels_is_refused():
    with pytest.raises(DataError, match="one label per edge"):
        graph_from_arcs(*arcs((0, 1), (1, 0)), edge_labels=[1, 2], both_ways=True)


@pytest.mark.parametrize("labels", [[0.5, 1.0], ["C", "O"], [None, 1], [float("nan"), 1.0]])
def test_labels_that_are_no_integers_are_refused(labels):
    with pytest.raises(DTypeError, match="integer node labels"):
        integer_labels(labels, 2, "node labels")


def test_whole_numbers_stored_as_floats_are_labels():
    assert integer_labels(np.array([[1.0, 0.0], [0.0, 1.0]]), 2, "node labels").dtype == np.int64


def test_a_wrong_number_of_labels_is_refused():
    with pytest.raises(ShapeError, match="3 node labels"):
        integer_labels([1, 2], 3, "node labels")


def test_ragged_labels_are_refused():
    with pytest.raises(ShapeError, match="node labels"):
        integer_labels([[1], [1, 2]], 2, "node labels")


def test_a_graph_without_nodes_is_a_graph():
    graph = graph_from_arcs(*arcs(), 0)
    assert (graph.num_nodes, graph.num_edges, graph.symmetric) == (0, 0, True)
