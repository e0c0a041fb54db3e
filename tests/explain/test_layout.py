"""Where nodes are drawn."""

import networkx as nx
import numpy as np
import pytest

from lrga.explain.layout import SPRING_NODES, communities, positions


def blocks(sizes, seed=0):
    probabilities = [[0.3 if a == b else 0.01 for b in range(len(sizes))] for a in range(len(sizes))]
    graph = nx.stochastic_block_model(sizes, probabilities, seed=seed)
    return np.array(graph.edges), np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("sizes", [[30, 30], [SPRING_NODES, SPRING_NODES // 2]])
def test_linked_nodes_stand_nearer_than_others(sizes):
    edges, block = blocks(sizes)
    place = positions(edges, sum(sizes))
    assert place.shape == (sum(sizes), 2)
    assert place.dtype == np.float32
    assert np.isfinite(place).all()
    assert np.abs(place).max() <= 1 + 1e-6
    centres = np.stack([place[block == b].mean(axis=0) for b in (0, 1)])
    within = np.mean([np.linalg.norm(place[block == b] - centres[b], axis=1).mean() for b in (0, 1)])
    assert np.linalg.norm(centres[0] - centres[1]) > within
    assert (positions(edges, sum(sizes)) == place).all()


@pytest.mark.parametrize("count", [0, 1, 2, 5, SPRING_NODES + 1])
def test_a_graph_without_edges_is_drawn(count):
    place = positions(np.zeros((0, 2), dtype=np.int32), count)
    assert place.shape == (count, 2)
    assert np.isfinite(place).all()


def test_no_two_nodes_of_a_large_graph_share_a_place():
    edges, _ = blocks([800, 400])
    place = positions(edges, 1200)
    assert len(np.unique(place.round(5), axis=0)) > 1190


def test_communities_are_those_of_the_blocks():
    edges, block = blocks([60, 40])
    found = communities(edges, 100)
    assert (found == block).mean() > 0.95  # the largest is 0
    assert communities(np.zeros((0, 2), dtype=int), 3).tolist() == [0, 1, 2]
    assert communities(np.zeros((0, 2), dtype=int), 0).tolist() == []


def test_communities_of_a_large_ring_do_not_take_minutes():
    nodes = np.arange(20_000)
    found = communities(np.stack([nodes, (nodes + 1) % 20_000], axis=1), 20_000)  # all ties
    assert 20 < found.max() < 2_000
    assert (found == np.roll(found, 1)).mean() > 0.9
