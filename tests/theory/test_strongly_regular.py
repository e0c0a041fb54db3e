"""Strongly regular graphs: their parameters, and that no two of a family are isomorphic."""

import itertools

import networkx as nx
import numpy as np
import pytest

from lrga.theory import strongly_regular as srg
from lrga.theory.graphs import cycle
from lrga.theory.wl.verdicts import verdict_matrix


def to_networkx(graph):
    return nx.from_numpy_array(graph.adjacency())


@pytest.mark.parametrize(
    ("family", "count", "parameters"),
    [
        ([srg.rook(), srg.shrikhande()], 2, (16, 6, 2, 2)),
        (srg.paulus_family(), 15, (25, 12, 5, 6)),
        (srg.chang_family(), 4, (28, 12, 6, 4)),
    ],
)
def test_a_family_has_its_parameters_and_its_number(family, count, parameters):
    assert len(family) == count
    for graph in family:
        assert graph.num_nodes == parameters[0]
        assert srg.is_strongly_regular(graph, *parameters[1:])


@pytest.mark.parametrize("family", [srg.paulus_family(), srg.chang_family(), [srg.rook(), srg.shrikhande()]])
def test_an_invariant_differs_on_any_two_of_a_family(family):
    """1-WL on pairs labelled by their complete graphs on four nodes: unequal verdicts prove graphs not isomorphic."""
    apart = verdict_matrix([srg._with_clique_counts(g.adjacency()) for g in family], "1-wl")
    assert apart.sum() == len(family) * (len(family) - 1)


@pytest.mark.slow
def test_no_two_of_the_fifteen_are_isomorphic_to_networkx():
    graphs = [to_networkx(g) for g in srg.paulus_family()]
    assert not any(nx.vf2pp_is_isomorphic(a, b) for a, b in itertools.combinations(graphs, 2))


@pytest.mark.parametrize("family", [srg.chang_family(), [srg.rook(), srg.shrikhande()]])
def test_no_two_of_a_small_family_are_isomorphic_to_networkx(family):
    graphs = [to_networkx(g) for g in family]
    assert not any(nx.vf2pp_is_isomorphic(a, b) for a, b in itertools.combinations(graphs, 2))


def test_the_invariant_that_makes_the_fifteen_forgets_nothing():
    """Descendants that the invariant takes for the same are isomorphic, so that there are not more than fifteen."""
    two_graphs = [srg._with_isolated_point(srg._latin_square_graph(square)) for square in srg._LATIN_SQUARES]
    two_graphs += [srg._block_graph(s) for s in (srg._cyclic_triple_system(), srg._switched_triple_system())]
    descendants = [srg._descendant(m, node) for m in two_graphs for node in range(26)]
    apart = verdict_matrix([srg._with_clique_counts(m) for m in descendants], "1-wl")
    classes = {tuple(np.flatnonzero(~row)) for row in apart}
    assert len(classes) == 15
    graphs = [nx.from_numpy_array(m) for m in descendants]
    for members in classes:
        for other in members[1:4]:
            assert nx.vf2pp_is_isomorphic(graphs[members[0]], graphs[other])


def test_triple_systems_cover_every_pair_once():
    for system in (srg._cyclic_triple_system(), srg._switched_triple_system()):
        pairs = [pair for block in system for pair in itertools.combinations(sorted(block), 2)]
        assert sorted(pairs) == list(itertools.combinations(range(13), 2))
    assert set(srg._cyclic_triple_system()) != set(srg._switched_triple_system())


def test_latin_squares_are_latin():
    for square in srg._LATIN_SQUARES:
        for line in (*square, *zip(*square, strict=True)):
            assert sorted(line) == [0, 1, 2, 3, 4]


def test_a_cycle_is_not_strongly_regular():
    assert not srg.is_strongly_regular(cycle(6), 2, 0, 1)
    assert srg.is_strongly_regular(cycle(5), 2, 0, 1)
