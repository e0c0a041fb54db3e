"""Theorem 1: LRGA with polynomial feature maps is a head of the 2-FWL update."""

import math

import networkx as nx
import numpy as np
import pytest
import torch

import lrga
from lrga.errors import OptionError, ShapeError
from lrga.theory import (
    align,
    align_heads,
    eta_of,
    factorize,
    head_of,
    isomorphism_types,
    multiply_heads,
    random_factorization,
)
from lrga.theory.graphs import cycle, random_graph
from lrga.theory.multiset import heads


def error_of(product, wanted):
    return float((product - wanted).abs().max() / wanted.abs().max().clamp_min(1))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("width", "degree"), [(0, 4), (1, 2)])
def test_the_output_is_the_node_factorisation_of_the_head_up_to_eta(seed, width, degree):
    graph = random_graph(7, 0.5, seed)
    features = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, (7, width)))
    tensor = isomorphism_types(graph, features)
    factorization = factorize(tensor)
    for beta, gamma in heads(tensor.size(2), degree):
        attention = align(beta, gamma, factorization)
        assert isinstance(attention, lrga.LowRankGlobalAttention)
        (product,) = multiply_heads(attention, factorization)
        eta = eta_of(tensor, beta)
        divisor = eta + math.copysign(attention.eps, eta)
        assert error_of(product * divisor, head_of(tensor, beta, gamma)) < 1e-10


def test_tensors_of_later_rounds_are_served_too():
    """Real-valued channels, as a second update would have them."""
    tensor = torch.randn(6, 6, 3, dtype=torch.float64)
    factorization = factorize(tensor)
    for beta, gamma in [((1, 0, 1), (0, 1, 0)), ((2, 0, 0), (0, 0, 1)), ((0, 0, 0), (1, 1, 0))]:
        (product,) = multiply_heads(align(beta, gamma, factorization, normalize=None), factorization)
        assert error_of(product, head_of(tensor, beta, gamma)) < 1e-9


def test_directed_graphs_are_served_too():
    tensor = isomorphism_types(nx.gnp_random_graph(8, 0.3, seed=0, directed=True))
    factorization = factorize(tensor)
    (product,) = multiply_heads(align((0, 2), (0, 1), factorization, normalize=None), factorization)
    assert error_of(product, head_of(tensor, (0, 2), (0, 1))) < 1e-10


def test_several_heads_are_computed_side_by_side():
    tensor = isomorphism_types(random_graph(6, 0.5, 0))
    factorization, chosen = factorize(tensor), heads(2, 2)
    attention = align_heads(chosen, factorization, normalize=None)
    assert attention.heads == len(chosen)
    for (beta, gamma), product in zip(chosen, multiply_heads(attention, factorization), strict=True):
        assert error_of(product, head_of(tensor, beta, gamma)) < 1e-10


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


def test_the_error_from_random_features_falls_with_their_number():
    graph, generator = random_graph(10, 0.4, 0), torch.Generator().manual_seed(0)
    wanted = head_of(isomorphism_types(graph), (0, 1), (0, 1))
    errors = []
    for d in (16, 256):
        found = []
        for _ in range(8):
            factorization = random_factorization(graph, d, generator=generator)
            (product,) = multiply_heads(align((0, 1), (0, 1), factorization, normalize=None), factorization)
            found.append(float((product - wanted).norm() / wanted.norm()))
        errors.append(np.mean(found))
    assert errors[1] < 0.35 * errors[0]


def test_eta_hides_the_degree_of_regular_graphs_from_one_head():
    """Why "no theoretical influence" holds within a graph only: A·J / η is all ones for any regular graph."""
    products = []
    for graph in (cycle(7), nx.circulant_graph(7, [1, 2]), nx.complete_graph(7)):
        factorization = factorize(isomorphism_types(graph))
        products += multiply_heads(align((0, 1), (0, 0), factorization), factorization)
    for product in products:
        assert torch.allclose(product, torch.ones(7, 7, dtype=torch.float64), atol=1e-5)


def test_a_head_of_zeros_is_zero():
    factorization = factorize(isomorphism_types(cycle(5)))
    (product,) = multiply_heads(align((1, 1), (0, 0), factorization), factorization)  # I ∘ A = 0, η = 0
    assert torch.allclose(product, torch.zeros(5, 5, dtype=torch.float64), atol=1e-6)


def test_wrong_arguments_are_refused():
    factorization = factorize(isomorphism_types(cycle(5)))
    with pytest.raises(ShapeError, match="beta with 2 entries"):
        align((1,), (0, 1), factorization)
    with pytest.raises(OptionError, match="one head"):
        align_heads([], factorization)
    with pytest.raises(OptionError, match="align"):
        multiply_heads(lrga.LowRankGlobalAttention(5, 2), factorization)
