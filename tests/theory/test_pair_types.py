"""2-WL against its definition, and where all tests on pairs start."""

import tracemalloc

import networkx as nx
import numpy as np
import pytest
import torch

from lrga.errors import DataError, DTypeError
from lrga.theory.kernels import same_partition
from lrga.theory.labelled import as_graph
from lrga.theory.wl import fwl
from lrga.theory.wl.fwl import refine_pairs
from lrga.theory.wl.joint import check_no_self_loops, join, pair_types
from lrga.theory.wl.verdicts import verdict_matrix
from lrga.theory.zoo import connected_graphs, random_graph


def by_definition(graph):
    types, _ = pair_types(join([graph]))
    n, colour = graph.num_nodes, types[0].tolist()
    count, rounds = len({x for row in colour for x in row}), -1
    while True:
        rounds += 1
        seen = {
            (i, j): (colour[i][j], tuple(sorted(colour[k][j] for k in range(n))), tuple(sorted(colour[i])))
            for i in range(n)
            for j in range(n)
        }
        names = {key: number for number, key in enumerate(sorted(set(seen.values())))}
        if len(names) == count:
            return np.array(colour), rounds
        colour, count = [[names[seen[i, j]] for j in range(n)] for i in range(n)], len(names)


@pytest.mark.parametrize("seed", range(4))
def test_colours_and_rounds_are_those_of_the_definition(seed):
    graph = random_graph(9, 0.3, seed)
    if seed % 2:
        graph = as_graph(graph, node_labels=np.arange(9) % 2)
    result = refine_pairs([graph], "2-wl")
    wanted, rounds = by_definition(graph)
    assert same_partition(result.colours[0], wanted)
    assert (result.rounds, result.stable) == (rounds, True)


def test_it_tells_apart_exactly_what_1wl_does():
    graphs = connected_graphs(6)
    assert np.array_equal(verdict_matrix(graphs, "2-wl"), verdict_matrix(graphs, "1-wl"))


def test_it_tells_directed_graphs_apart_exactly_as_1wl_does():
    rng = np.random.default_rng(0)
    graphs = [as_graph(nx.gnp_random_graph(5, 0.3, seed=int(s), directed=True)) for s in rng.integers(0, 999, 60)]
    assert np.array_equal(verdict_matrix(graphs, "2-wl"), verdict_matrix(graphs, "1-wl"))


def test_memory_stays_within_what_is_asked_for():
    graph = random_graph(200, 0.1, 0)
    tracemalloc.start()
    refine_pairs([graph], "2-wl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < fwl._BYTES_PER_PAIR["2-wl"] * 200**2


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


def test_a_self_loop_is_refused():
    with pytest.raises(DataError, match="graph 1 with 1, the first at node 2"):
        check_no_self_loops([as_graph([(0, 1)]), as_graph([(0, 1), (2, 2)])], "2-fwl")


def test_histograms_differ_by_counts_not_by_places():
    assert not fwl._histograms_differ(torch.tensor([[0, 1, 1], [1, 0, 1]]), 2)
    assert fwl._histograms_differ(torch.tensor([[0, 1, 1], [1, 0, 0]]), 2)
