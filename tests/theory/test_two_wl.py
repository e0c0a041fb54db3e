"""Oblivious 2-WL against its definition, and its power: that of 1-WL."""

import tracemalloc

import networkx as nx
import numpy as np
import pytest

from lrga.theory.atlas import connected_graphs
from lrga.theory.graphs import random_graph
from lrga.theory.inputs import as_graph
from lrga.theory.multiset import same_partition
from lrga.theory.wl import two_wl
from lrga.theory.wl.joint import join
from lrga.theory.wl.pairs import pair_types
from lrga.theory.wl.two_wl import refine_pairs_obliviously
from lrga.theory.wl.verdicts import verdict_matrix


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


@pytest.mark.parametrize("seed", range(6))
def test_colours_and_rounds_are_those_of_the_definition(seed):
    graph = random_graph(9, 0.3, seed)
    if seed % 2:
        graph = as_graph(graph, node_labels=np.arange(9) % 2)
    result = refine_pairs_obliviously([graph])
    wanted, rounds = by_definition(graph)
    assert same_partition(result.colours[0], wanted)
    assert (result.rounds, result.stable) == (rounds, True)


@pytest.mark.parametrize("size", [5, 6, 7])
def test_it_tells_apart_exactly_what_1wl_does(size):
    graphs = connected_graphs(size)
    assert np.array_equal(verdict_matrix(graphs, "2-wl"), verdict_matrix(graphs, "1-wl"))


def test_it_tells_directed_graphs_apart_exactly_as_1wl_does():
    rng = np.random.default_rng(0)
    graphs = [as_graph(nx.gnp_random_graph(5, 0.3, seed=int(s), directed=True)) for s in rng.integers(0, 999, 60)]
    assert np.array_equal(verdict_matrix(graphs, "2-wl"), verdict_matrix(graphs, "1-wl"))


def test_memory_stays_within_what_is_asked_for():
    graph = random_graph(300, 0.05, 0)
    tracemalloc.start()
    refine_pairs_obliviously([graph])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < two_wl._BYTES_PER_PAIR * 300**2
