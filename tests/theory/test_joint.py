"""Joining graphs: labels are numbered over all, and must be of the same types."""

import pytest

from lrga.errors import DTypeError
from lrga.theory.inputs import as_graph
from lrga.theory.wl.joint import join

PATH = [(0, 1), (1, 2)]


def test_labels_are_numbered_over_all_graphs_in_their_own_order():
    joint = join([as_graph(PATH, node_labels=[9, 2, 9]), as_graph(PATH, node_labels=[2, 5, 2])])
    assert joint.colour.tolist() == [2, 0, 2, 0, 1, 0]
    assert joint.num_labels == 3


def test_rows_of_labels_are_equal_only_as_a_whole():
    joint = join([as_graph([(0, 1)], node_labels=[[1, 2], [1, 3]])])
    assert len(set(joint.colour.tolist())) == 2


def test_relations_leave_zero_for_no_edge():
    joint = join([as_graph(PATH), as_graph([(0, 1)])])
    assert joint.num_relations == 2
    assert joint.relations[0].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"node_labels": [1, 2, 3]}, {}, "node labels"),
        ({"node_labels": [1, 2, 3]}, {"node_labels": [[1, 1], [2, 2], [3, 3]]}, "2 labels per node"),
        ({"edge_labels": [1, 2]}, {}, "edge labels"),
    ],
)
def test_graphs_of_different_label_types_are_refused(first, second, said):
    with pytest.raises(DTypeError, match=said):
        join([as_graph(PATH, **first), as_graph(PATH, **second)])


def test_a_graph_without_edges_goes_with_edge_labels():
    joint = join([as_graph(PATH, edge_labels=[4, 5]), as_graph([], num_nodes=3)])
    assert joint.num_relations == 3
