"""What random features give: the bounds beside what is observed, and triangles."""

import math

import networkx as nx
import pytest
import torch

from lrga.errors import OptionError
from lrga.theory import (
    TriangleDeepSets,
    channels_for,
    count_triangles,
    entry_bound,
    matrix_bound,
    observed_deviation,
    random_factorization,
    triangle_error,
)
from lrga.theory.bounds import RANGES
from lrga.theory.zoo import random_graph


def test_the_formula_is_the_papers():
    n, d, t, m = 5, 100, 0.3, 2.5
    assert entry_bound(d, t, m) == pytest.approx(2 * math.exp(-2 * d * t**2 / m**4))
    assert matrix_bound(n, d, t, m) == pytest.approx(2 * n**2 * math.exp(-2 * d * t**2 / m**4))
    # and the sharp one is smaller
    assert entry_bound(50, 0.5, 2.0, sharp=True) == pytest.approx(2 * math.exp(-8 * 50 * 0.25 / 16))
    assert matrix_bound(4, 50, 0.5, 2.0, sharp=True) < matrix_bound(4, 50, 0.5, 2.0)


@pytest.mark.parametrize("sharp", [False, True])
def test_the_number_of_features_is_the_least_that_the_bound_allows(sharp):
    n, xi, delta, m = 5, 2.0, 0.1, 2.0
    d = channels_for(n, xi, delta, m, sharp=sharp)
    t = xi / ((n if sharp else n**2) * n)
    assert matrix_bound(n, d, t, m, sharp=sharp) <= delta < matrix_bound(n, d - 1, t, m, sharp=sharp)


def test_the_papers_number_of_features_is_its_last_formula():
    n, xi, delta, m = 6, 0.5, 0.05, 3.0
    constant = m**4 / 2
    assert channels_for(n, xi, delta, m) == math.ceil(constant * n**6 / xi**2 * math.log(2 * n**2 / delta))
    assert channels_for(6, 0.5, 0.1, 2.0, adjacency_norm=2.0) < channels_for(6, 0.5, 0.1, 2.0)


@pytest.mark.parametrize("distribution", ["rademacher", "uniform"])
@pytest.mark.parametrize("sharp", [False, True])
def test_observed_shares_stay_below_the_bound_where_it_says_something(distribution, sharp):
    """At all widths tried where the bound lies between .05 and .9."""
    generator, m, n, t = torch.Generator().manual_seed(0), RANGES[distribution], 4, 0.8
    bounds = {d: matrix_bound(n, d, t, m, sharp=sharp) for d in range(2, 1500, 2)}
    widths = [d for d, bound in bounds.items() if 0.05 <= bound <= 0.9]
    checked = widths[:: len(widths) // 4]
    assert len(checked) >= 4
    for d in checked:
        _, observed = observed_deviation(n, d, t, distribution=distribution, trials=2000, generator=generator)
        assert observed <= bounds[d]


def test_the_observation_is_a_random_walks_and_sees_a_bound_that_is_too_small():
    """With the range understated by half, M = 1, the formula would be broken by ±1 entries."""
    one_entry, _ = observed_deviation(2, 16, 0.25, trials=20_000, generator=torch.Generator().manual_seed(0))
    assert one_entry > 2 * math.exp(-2 * 16 * 0.25**2 / 1**4)
    assert one_entry < entry_bound(16, 0.25, 2.0, sharp=True)
    # (1/d) Σ ±1 with d = 4 reaches ±1 in 2 of 16 cases.
    one_entry, _ = observed_deviation(2, 4, 1.0, trials=40_000, generator=torch.Generator().manual_seed(0))
    assert one_entry == pytest.approx(2 / 16, abs=0.01)


def test_impossible_arguments_are_refused():
    with pytest.raises(OptionError, match="2 or more"):
        entry_bound(10, 0.1, 1.5)
    with pytest.raises(OptionError, match="deviation above 0"):
        entry_bound(10, 0.0, 2.0)
    with pytest.raises(OptionError, match="delta above 0"):
        channels_for(4, 1.0, 0.0, 2.0)
    with pytest.raises(OptionError, match="bounded distribution"):
        observed_deviation(4, 10, 0.5, distribution="normal")
    with pytest.raises(OptionError, match="two nodes"):
        observed_deviation(1, 10, 0.5)


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


def test_graphs_that_have_no_triangles_to_count_are_refused():
    with pytest.raises(OptionError, match="with triangles"):
        triangle_error([(0, 1)], 8)
    with pytest.raises(OptionError, match="undirected"):
        count_triangles([(0, 0)])
    with pytest.raises(OptionError, match="undirected"):
        count_triangles(nx.DiGraph([(0, 1), (1, 2), (2, 0)]))
