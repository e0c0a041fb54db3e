"""Isomorphism types of pairs."""

import pytest

from lrga.errors import DataError
from lrga.theory.inputs import as_graph
from lrga.theory.wl.joint import join
from lrga.theory.wl.pairs import check_no_self_loops, pair_types


def test_pairs_of_an_unlabelled_graph_are_nodes_edges_or_neither():
    types, count = pair_types(join([as_graph([(0, 1), (1, 2)])]))
    assert count == 3
    assert types[0, 0, 0] == types[0, 1, 1]
    assert len({types[0, 0, 0], types[0, 0, 1], types[0, 0, 2]}) == 3


def test_an_arc_and_its_reverse_have_different_types():
    types, _ = pair_types(join([as_graph([(0, 1)], directed=True)]))
    assert types[0, 0, 1] != types[0, 1, 0]


def test_labels_of_nodes_and_edges_are_part_of_the_type():
    labelled = as_graph([(0, 1), (2, 3)], node_labels=[1, 1, 1, 2], edge_labels=[5, 5])
    types, _ = pair_types(join([labelled]))
    assert types[0, 0, 1] == types[0, 1, 0] != types[0, 2, 3]
    assert types[0, 2, 3] != types[0, 3, 2]


def test_types_are_shared_by_all_graphs():
    types, _ = pair_types(join([as_graph([(0, 1)], num_nodes=3), as_graph([(1, 2)])]))
    assert types[0, 0, 1] == types[1, 1, 2]


def test_a_self_loop_is_refused_with_its_node():
    with pytest.raises(DataError, match="graph 1 with 1, the first at node 2"):
        check_no_self_loops([as_graph([(0, 1)]), as_graph([(0, 1), (2, 2)])], "2-fwl")
