"""Hard graphs: their definitions, their parameters, and the verdicts that are known of them."""

import sys

import networkx as nx
import numpy as np
import pytest

from lrga.errors import MissingDependencyError, OptionError
from lrga.theory.labelled import graph_from_arcs
from lrga.theory.wl.verdicts import distinguishes, verdict_matrix
from lrga.theory.zoo import (
    CSL_SKIPS,
    bicyclopentyl,
    cai_fuerer_immerman,
    chang_family,
    circular_skip_link,
    circular_skip_links,
    connected_graphs,
    cycle,
    decalin,
    paulus_family,
    random_graph,
    rook,
    shrikhande,
    two_triangles,
    zoo,
)

ENTRIES = zoo()
CASES = [(name, test) for name, entry in ENTRIES.items() for test in entry.verdicts]


def verdicts_as_known(name, test, graphs):
    pairs = verdict_matrix(graphs, test)[np.triu_indices(len(graphs), k=1)]
    return (pairs == ENTRIES[name].verdicts[test]).all()


@pytest.mark.parametrize(("name", "test"), CASES)
def test_verdicts_are_those_of_the_literature(name, test):
    rng = np.random.default_rng(0)
    graphs = ENTRIES[name].graphs  # in their own order the statement "colourings" has them
    assert verdicts_as_known(name, test, [g.permuted(rng.permutation(g.num_nodes)) for g in graphs])
    for graph in graphs[:2]:
        assert not distinguishes(graph, graph.permuted(rng.permutation(graph.num_nodes)), test)


def test_every_entry_has_a_reference_and_the_three_verdicts():
    for entry in ENTRIES.values():
        assert any(character.isdigit() for character in entry.reference)
        assert {"1-wl", "2-wl", "2-fwl"} <= set(entry.verdicts)
        assert len(entry.graphs) >= 2


def to_networkx(graph):
    return nx.from_numpy_array(graph.adjacency())


def test_graphs_are_what_they_are_named_for_and_as_many_as_known():
    for graph, ring in ((decalin(), 6), (bicyclopentyl(), 5)):
        assert (graph.num_nodes, graph.num_edges) == (10, 11)
        assert sorted(len(c) for c in nx.minimum_cycle_basis(to_networkx(graph))) == [ring, ring]
    graphs = [to_networkx(g) for g in circular_skip_links()]
    assert len(graphs) == len(CSL_SKIPS) == 10
    assert all(set(dict(g.degree).values()) == {4} and len(g) == 41 for g in graphs)
    assert [len(connected_graphs(n)) for n in range(1, 7)] == [1, 1, 2, 6, 21, 112]


@pytest.mark.parametrize("base", [3, 4, 5])
def test_straight_and_twisted_graphs_have_the_same_degrees(base):
    straight, twisted = (cai_fuerer_immerman(base, twisted=t) for t in (False, True))
    assert straight.num_nodes == twisted.num_nodes == base * 2 ** (base - 2)
    degrees = {g.adjacency().sum(axis=0).tobytes() for g in (straight, twisted)}
    assert len(degrees) == 1


def test_over_k3_and_k4_the_construction_gives_graphs_known_otherwise():
    pairs = {3: (two_triangles(), cycle(6)), 4: (rook(), shrikhande())}
    for base, known in pairs.items():
        for twisted, graph in enumerate(known):
            made = cai_fuerer_immerman(base, twisted=bool(twisted))
            assert nx.is_isomorphic(to_networkx(made), to_networkx(graph))


def test_random_graphs_are_simple_and_follow_their_seed():
    graph = random_graph(30, 0.3, 5)
    assert graph.symmetric
    assert not graph.adjacency().diagonal().any()
    assert np.array_equal(graph.adjacency(), random_graph(30, 0.3, 5).adjacency())
    assert not np.array_equal(graph.adjacency(), random_graph(30, 0.3, 6).adjacency())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: connected_graphs(8), "1 to 7"),  # beyond the atlas
        (lambda: cai_fuerer_immerman(2, twisted=False), "3 nodes"),
        *((lambda skip=skip: circular_skip_link(skip), "skip") for skip in (0, 1, 40, 50)),  # none is 4-regular
    ],
)
def test_sizes_without_such_a_graph_are_refused(make, said):
    with pytest.raises(OptionError, match=said):
        make()


def test_a_missing_networkx_is_named_with_its_extra(monkeypatch):
    connected_graphs.cache_clear()
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match=r"lrga\[graphs\]"):
        connected_graphs(4)


def with_clique_counts(matrix):
    """All pairs as edges, labelled by adjacency and by the number of edges among the common neighbours.

    On adjacent pairs this counts the complete graphs on four nodes: more than 2-FWL sees.
    """
    common = matrix[:, None, :] * matrix[None, :, :]
    count = np.einsum("ijk,kl,ijl->ij", common, matrix, common, optimize=True)
    source, target = np.nonzero(~np.eye(len(matrix), dtype=bool))
    return graph_from_arcs(source, target, len(matrix), edge_labels=2 * count[source, target] + matrix[source, target])


def is_strongly_regular(graph, degree, common, uncommon):
    """Whether A² = d I + λ A + μ (J − I − A)."""
    matrix, one = graph.adjacency(), np.eye(graph.num_nodes, dtype=np.int64)
    return np.array_equal(matrix @ matrix, degree * one + common * matrix + uncommon * (1 - matrix - one))


@pytest.mark.parametrize(
    ("family", "count", "parameters"),
    [
        ([rook(), shrikhande()], 2, (16, 6, 2, 2)),
        (paulus_family(), 15, (25, 12, 5, 6)),
        (chang_family(), 4, (28, 12, 6, 4)),
    ],
)
def test_a_family_has_its_parameters_and_its_number_of_different_graphs(family, count, parameters):
    """1-WL on pairs labelled by their complete graphs on four nodes: unequal verdicts prove graphs not isomorphic."""
    assert len(family) == count
    assert is_strongly_regular(cycle(5), 2, 0, 1)
    assert not is_strongly_regular(cycle(6), 2, 0, 1)
    for graph in family:
        assert graph.num_nodes == parameters[0]
        assert is_strongly_regular(graph, *parameters[1:])
    apart = verdict_matrix([with_clique_counts(g.adjacency()) for g in family], "1-wl")
    assert apart.sum() == len(family) * (len(family) - 1)
