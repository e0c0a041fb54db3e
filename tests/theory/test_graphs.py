"""Constructions of hard graphs."""

import networkx as nx
import numpy as np
import pytest

from lrga.errors import OptionError
from lrga.theory.graphs import (
    CSL_SKIPS,
    bicyclopentyl,
    cai_fuerer_immerman,
    circular_skip_link,
    circular_skip_links,
    cycle,
    decalin,
    from_adjacency,
    random_graph,
    two_triangles,
)
from lrga.theory.strongly_regular import rook, shrikhande


def to_networkx(graph):
    return nx.from_numpy_array(graph.adjacency())


def test_decalin_and_bicyclopentyl_have_the_rings_they_are_named_for():
    for graph, ring in ((decalin(), 6), (bicyclopentyl(), 5)):
        assert (graph.num_nodes, graph.num_edges) == (10, 11)
        assert sorted(len(c) for c in nx.minimum_cycle_basis(to_networkx(graph))) == [ring, ring]


def test_skip_links_are_4_regular_and_none_is_isomorphic_to_another():
    graphs = [to_networkx(g) for g in circular_skip_links()]
    assert len(graphs) == len(CSL_SKIPS) == 10
    assert all(set(dict(g.degree).values()) == {4} and len(g) == 41 for g in graphs)
    assert not any(nx.is_isomorphic(a, b) for i, a in enumerate(graphs) for b in graphs[:i])


@pytest.mark.parametrize("skip", [0, 1, 40, 50])
def test_skips_that_make_no_4_regular_graph_are_refused(skip):
    with pytest.raises(OptionError, match="skip"):
        circular_skip_link(skip)


@pytest.mark.parametrize("base", [3, 4, 5])
def test_straight_and_twisted_graphs_are_regular_and_not_isomorphic(base):
    straight, twisted = (cai_fuerer_immerman(base, twisted=t) for t in (False, True))
    assert straight.num_nodes == twisted.num_nodes == base * 2 ** (base - 2)
    degrees = {g.adjacency().sum(axis=0).tobytes() for g in (straight, twisted)}
    assert len(degrees) == 1
    if base < 5:  # larger ones take a search too long; 4-FWL would be needed
        assert not nx.is_isomorphic(to_networkx(straight), to_networkx(twisted))


def test_over_k3_and_k4_the_construction_gives_graphs_known_otherwise():
    pairs = {3: (two_triangles(), cycle(6)), 4: (rook(), shrikhande())}
    for base, known in pairs.items():
        for twisted, graph in enumerate(known):
            made = cai_fuerer_immerman(base, twisted=bool(twisted))
            assert nx.is_isomorphic(to_networkx(made), to_networkx(graph))


def test_a_base_too_small_is_refused():
    with pytest.raises(OptionError, match="3 nodes"):
        cai_fuerer_immerman(2, twisted=False)


def test_random_graphs_are_simple_and_follow_their_seed():
    graph = random_graph(30, 0.3, 5)
    assert graph.symmetric
    assert not graph.adjacency().diagonal().any()
    assert np.array_equal(graph.adjacency(), random_graph(30, 0.3, 5).adjacency())
    assert not np.array_equal(graph.adjacency(), random_graph(30, 0.3, 6).adjacency())


def test_a_matrix_is_read_back():
    matrix = random_graph(6, 0.5, 0).adjacency()
    assert np.array_equal(from_adjacency(matrix).adjacency(), matrix)
