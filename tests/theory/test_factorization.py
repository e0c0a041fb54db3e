"""Node factorisations, exact and by random features, and LRGA as a head of the 2-FWL update on them."""

import math

import networkx as nx
import numpy as np
import pytest
import torch

import lrga
from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.theory import (
    align,
    align_heads,
    eta_of,
    factorize,
    factorizing_layer,
    head_of,
    isomorphism_types,
    multiply_heads,
    random_factorization,
)
from lrga.theory.kernels import heads
from lrga.theory.labelled import as_graph
from lrga.theory.tour import slope
from lrga.theory.zoo import cycle, random_graph


def test_channels_come_in_the_papers_order_with_node_labels_by_default():
    features = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    tensor = isomorphism_types([(0, 1), (1, 2)], features)
    assert tensor.shape == (3, 3, 6)
    i, j = 0, 2
    assert tensor[i, j].tolist() == [0, *features[j].tolist(), *features[i].tolist(), 0]
    assert tensor[1, 1].tolist() == [1, 3, 4, 3, 4, 0]
    assert isomorphism_types(as_graph([(0, 1)], node_labels=[7, 9]))[0, 1].tolist() == [0, 9, 7, 1]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("width", [0, 2])
def test_eigenvectors_give_an_exact_factorisation(directed, width):
    graph = as_graph(nx.gnp_random_graph(15, 0.3, seed=1, directed=directed))
    tensor = isomorphism_types(graph, torch.randn(15, width))
    factorization = factorize(tensor)
    assert factorization.error(tensor) < 1e-12
    assert factorization.features.shape[1] == sum(s.stop - s.start for s in factorization.slices)


def test_blocks_are_as_narrow_as_the_rank_of_the_matrix_or_have_no_columns():
    assert [b.size(1) for b in factorize(torch.ones(6, 6, 1, dtype=torch.float64)).blocks] == [1, 1]
    tensor = torch.zeros(4, 4, 1, dtype=torch.float64)
    factorization = factorize(tensor)
    assert factorization.features.shape == (4, 0)
    assert factorization.error(tensor) == 0


def test_one_layer_gives_what_proposition_4_says():
    graph = random_graph(10, 0.4, 0)
    adjacency = torch.from_numpy(graph.adjacency()).double()
    edge_index = torch.stack([torch.from_numpy(graph.source), torch.from_numpy(graph.target)])
    random, features = torch.randn(10, 4, dtype=torch.float64), torch.randn(10, 3, dtype=torch.float64)
    plain = factorizing_layer(4)(random, edge_index)
    assert torch.allclose(plain, torch.cat([adjacency @ random, random], dim=1))
    whole = factorizing_layer(4, 3)(torch.cat([features, random], dim=1), edge_index)
    wanted = torch.cat([torch.ones(10, 1, dtype=torch.float64), features, random, adjacency @ random], dim=1)
    assert torch.allclose(whole, wanted)


def test_arcs_of_directed_graphs_are_followed_as_in_the_adjacency_matrix():
    graph = as_graph([(0, 1), (1, 2), (0, 2)], directed=True)
    tensor = isomorphism_types(graph)
    generator = torch.Generator().manual_seed(0)
    assert random_factorization(graph, 1024, generator=generator).error(tensor) < 0.15


@pytest.mark.parametrize("distribution", ["uniform", "normal"])  # the statement measures "rademacher"
def test_the_error_of_random_features_falls_as_the_root_of_their_number(distribution):
    graph, generator = random_graph(12, 0.4, 0), torch.Generator().manual_seed(0)
    tensor, widths = isomorphism_types(graph), (16, 64, 256)
    errors = []
    for d in widths:
        drawn = [random_factorization(graph, d, distribution=distribution, generator=generator) for _ in range(6)]
        errors.append(np.mean([f.error(tensor) for f in drawn]))
    assert -0.6 < slope(widths, errors) < -0.4


def test_channels_of_node_features_are_exact():
    graph, features = random_graph(8, 0.4, 0), torch.tensor([[float(i)] for i in range(8)])
    product = random_factorization(graph, 4, features=features).tensor()
    assert torch.equal(product[..., 1:3], isomorphism_types(graph, features)[..., 1:3])


def test_wrong_arguments_are_refused():
    with pytest.raises(ShapeError, match=r"\[n, n, d\]"):
        factorize(torch.zeros(3, 4, 1))
    with pytest.raises(DTypeError, match="floating"):
        factorize(torch.zeros(3, 3, 1, dtype=torch.long))
    with pytest.raises(OptionError, match="channels"):
        factorizing_layer(0)
    with pytest.raises(OptionError, match="rademacher"):
        random_factorization([(0, 1)], 4, distribution="cauchy")
    with pytest.raises(ShapeError, match="features"):
        isomorphism_types([(0, 1)], torch.zeros(3, 1))
    with pytest.raises(ShapeError, match="a tensor"):
        factorize(torch.zeros(3, 3, 1)).error(torch.zeros(3, 3, 2))
    factorization = factorize(isomorphism_types(cycle(5)))
    with pytest.raises(ShapeError, match="beta with 2 entries"):
        align((1,), (0, 1), factorization)
    with pytest.raises(OptionError, match="one head"):
        align_heads([], factorization)
    with pytest.raises(OptionError, match="align"):
        multiply_heads(lrga.LowRankGlobalAttention(5, 2), factorization)


def error_of(product, wanted):
    return float((product - wanted).abs().max() / wanted.abs().max().clamp_min(1))


def test_the_output_is_the_node_factorisation_of_the_head_up_to_eta():
    """Small β and γ; the statement on theorem 1 goes through more graphs and degrees."""
    features = torch.from_numpy(np.random.default_rng(0).integers(0, 3, (7, 1)))
    graph, degree = random_graph(7, 0.5, 0), 1
    tensor = isomorphism_types(graph, features)
    factorization = factorize(tensor)
    for beta, gamma in heads(tensor.size(2), degree):
        attention = align(beta, gamma, factorization)
        assert isinstance(attention, lrga.LowRankGlobalAttention)
        (product,) = multiply_heads(attention, factorization)
        eta = eta_of(tensor, beta)
        divisor = eta + math.copysign(attention.eps, eta)
        assert error_of(product * divisor, head_of(tensor, beta, gamma)) < 1e-10


def test_tensors_of_later_rounds_and_of_directed_graphs_are_served_too():
    later = torch.randn(6, 6, 3, dtype=torch.float64)  # real-valued channels, as a second update would have them
    directed = isomorphism_types(nx.gnp_random_graph(8, 0.3, seed=0, directed=True))
    cases = [(later, ((1, 0, 1), (0, 1, 0))), (later, ((2, 0, 0), (0, 0, 1))), (later, ((0, 0, 0), (1, 1, 0)))]
    for tensor, head in [*cases, (directed, ((0, 2), (0, 1)))]:
        factorization = factorize(tensor)
        (product,) = multiply_heads(align(*head, factorization, normalize=None), factorization)
        assert error_of(product, head_of(tensor, *head)) < 1e-9


def test_several_heads_are_computed_side_by_side_and_one_of_zeros_is_zero():
    tensor = isomorphism_types(random_graph(6, 0.5, 0))
    factorization, chosen = factorize(tensor), heads(2, 2)
    attention = align_heads(chosen, factorization, normalize=None)
    assert attention.heads == len(chosen)
    for (beta, gamma), product in zip(chosen, multiply_heads(attention, factorization), strict=True):
        assert error_of(product, head_of(tensor, beta, gamma)) < 1e-10
    factorization = factorize(isomorphism_types(cycle(5)))
    (product,) = multiply_heads(align((1, 1), (0, 0), factorization), factorization)  # I ∘ A = 0, η = 0
    assert torch.allclose(product, torch.zeros(5, 5, dtype=torch.float64), atol=1e-6)


def test_one_module_serves_all_graphs_of_one_block_structure():
    graphs = [random_graph(9, 0.4, seed) for seed in range(3)]
    drawn = [random_factorization(g, 5) for g in graphs]
    attention = align((0, 1), (1, 1), drawn[0], normalize=None)
    for factorization in drawn:
        (product,) = multiply_heads(attention, factorization)
        assert error_of(product, head_of(factorization.tensor(), (0, 1), (1, 1))) < 1e-10


def test_graphs_of_a_batch_are_aligned_each_by_itself():
    drawn = [random_factorization(random_graph(n, 0.4, n), 4) for n in (5, 8)]
    attention = align((0, 1), (0, 1), drawn[0])
    batch = torch.tensor([0] * 5 + [1] * 8)
    together = attention(torch.cat([f.features for f in drawn]), batch)
    alone = torch.cat([attention(f.features) for f in drawn])
    assert torch.allclose(together, alone)
