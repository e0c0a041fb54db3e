"""Triangles by a DeepSets network on random features."""

import networkx as nx
import pytest
import torch

from lrga.errors import OptionError
from lrga.theory import TriangleDeepSets, count_triangles, random_factorization, triangle_error
from lrga.theory.graphs import random_graph
from lrga.theory.tour import slope


@pytest.mark.parametrize("seed", range(5))
def test_triangles_are_counted_exactly(seed):
    graph = nx.gnp_random_graph(15, 0.4, seed=seed)
    assert count_triangles(graph) == sum(nx.triangles(graph).values()) // 3


@pytest.mark.parametrize("width", [0, 3])
def test_the_network_computes_the_trace(width):
    graph = random_graph(9, 0.5, 0)
    random, propagated = random_factorization(graph, 6).blocks
    h = torch.cat([torch.randn(9, width, dtype=torch.float64), random, propagated], dim=1)
    matrix = random.T @ torch.from_numpy(graph.adjacency()).double() @ random
    wanted = torch.trace(matrix @ matrix @ matrix) / 6
    assert torch.allclose(TriangleDeepSets(6, width)(h), wanted)


def test_the_network_does_not_see_the_order_of_the_nodes():
    random, propagated = random_factorization(random_graph(9, 0.5, 0), 6).blocks
    h = torch.cat([random, propagated], dim=1)
    assert torch.allclose(TriangleDeepSets(6)(h), TriangleDeepSets(6)(h[torch.randperm(9)]))


def test_orthonormal_features_count_exactly():
    """With R Rᵀ = I the network's number is the number of triangles."""
    graph = random_graph(8, 0.6, 1)
    one = torch.eye(8, dtype=torch.float64)
    h = torch.cat([one, torch.from_numpy(graph.adjacency()).double()], dim=1)
    assert float(TriangleDeepSets(8)(h)) == pytest.approx(count_triangles(graph))


def test_the_error_falls_as_features_are_added():
    graph, widths = random_graph(16, 0.5, 0), (128, 256, 512, 1024, 2048)
    generator = torch.Generator().manual_seed(0)
    errors = [triangle_error(graph, d, trials=200, generator=generator) for d in widths]
    assert errors[-1] < 0.15
    assert -0.65 < slope(widths, errors) < -0.4


def test_graphs_that_have_no_triangles_to_count_are_refused():
    with pytest.raises(OptionError, match="with triangles"):
        triangle_error([(0, 1)], 8)
    with pytest.raises(OptionError, match="undirected"):
        count_triangles([(0, 0)])
    with pytest.raises(OptionError, match="undirected"):
        count_triangles(nx.DiGraph([(0, 1), (1, 2), (2, 0)]))
