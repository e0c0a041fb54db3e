"""What nodes see: neighbours and relations."""

import numpy as np

from lrga.theory.inputs import as_graph
from lrga.theory.wl.joint import join
from lrga.theory.wl.views import ranges, views_of


def test_ranges_concatenate_slices():
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]


def test_undirected_graphs_without_labels_have_no_relations():
    views = views_of(join([as_graph([(0, 1), (1, 2)])]))
    assert views.relation is None
    assert views.ptr.tolist() == [0, 1, 3, 4]


def test_directed_arcs_are_seen_from_both_ends_differently():
    views = views_of(join([as_graph([(0, 1)], directed=True)]))
    assert views.seen.tolist() == [1, 0]
    assert views.relation[0] != views.relation[1]
    assert views.mirrored(views.relation).tolist() == views.relation[::-1].tolist()


def test_the_nodes_of_the_second_graph_come_after_the_first():
    views = views_of(join([as_graph([(0, 1)]), as_graph([(0, 1)])]))
    assert views.seen.tolist() == [1, 0, 3, 2]
