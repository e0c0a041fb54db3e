"""Feature maps of polynomial kernels, monomials as sums of powers, the 2-FWL update: all exact."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.theory import (
    PolynomialFeatures,
    ProductFeatures,
    feature_size,
    fwl_update,
    monomial_complexity,
    power_sum_coefficients,
    refine,
    sample_complexity,
    vandermonde_norms,
)
from lrga.theory.kernels import (
    colours_of,
    heads,
    multi_indices,
    multinomial,
    power,
    same_partition,
    vandermonde_inverse,
)
from lrga.theory.wl.verdicts import verdict_matrix
from lrga.theory.zoo import connected_graphs


@pytest.mark.parametrize("degree", range(6))
@pytest.mark.parametrize("width", [1, 2, 5])
def test_products_of_features_are_powers_of_products(degree, width):
    x, y = torch.randn(2, 7, width, dtype=torch.float64)
    phi = PolynomialFeatures(degree, width)
    assert torch.allclose(phi(x) @ phi(y).T, (x @ y.T) ** degree, rtol=1e-12, atol=1e-10)
    assert phi(x).shape == (7, math.comb(degree + width - 1, width - 1))


def test_every_coordinate_is_a_weighted_monomial():
    x = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    assert PolynomialFeatures(2, 2)(x)[0].tolist() == pytest.approx([4, math.sqrt(2) * 6, 9])


@pytest.mark.parametrize("degrees", multi_indices(3, 3))
def test_several_blocks_give_the_product_kernel(degrees):
    blocks, widths = (slice(0, 2), slice(2, 5), slice(5, 6)), (2, 3, 1)
    x, y = torch.randn(2, 4, 6, dtype=torch.float64)
    phi = ProductFeatures(degrees, blocks)
    kernel = torch.stack([(x[:, b] @ y[:, b].T) ** e for b, e in zip(blocks, degrees, strict=True)]).prod(dim=0)
    assert torch.allclose(phi(x) @ phi(y).T, kernel, rtol=1e-12, atol=1e-10)
    assert phi(x).size(1) == phi.out_channels == feature_size(degrees, widths)


@pytest.mark.parametrize("degrees", multi_indices(2, 4))
def test_sizes_are_within_the_papers_bound(degrees):
    """Π C(β_l + D_l − 1, D_l − 1) ≤ C(n + D, D) with D = Σ 2 D_l and n ≥ |β|."""
    widths = (3, 2)
    assert feature_size(degrees, widths) <= math.comb(4 + 2 * sum(widths), 2 * sum(widths))


def test_blocks_used_by_several_channels_can_pass_the_bound_of_the_plain_width():
    """Where channels share blocks, X is narrower than Σ 2 D_l, and C(n + D, D) of its width is no bound."""
    shared = [slice(0, 2)] * 4
    assert ProductFeatures((1, 1, 1, 1), shared).out_channels == 16 > math.comb(4 + 2, 2)


def test_degree_zero_is_the_constant_one_and_all_there_is_without_columns():
    assert torch.equal(PolynomialFeatures(0, 3)(torch.randn(4, 3)), torch.ones(4, 1))
    assert torch.equal(ProductFeatures((0, 0), (slice(0, 1), slice(1, 3)))(torch.randn(4, 3)), torch.ones(4, 1))
    assert feature_size([0], [0]) == 1
    assert feature_size([2], [0]) == 0
    assert PolynomialFeatures(2, 0)(torch.randn(3, 0)).shape == (3, 0)


def test_gradients_pass_through():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(PolynomialFeatures(3, 4), (x,))


def test_impossible_arguments_are_refused():
    with pytest.raises(OptionError, match="degrees"):
        PolynomialFeatures(-1, 2)
    with pytest.raises(OptionError, match="coordinates"):
        PolynomialFeatures(8, 60)
    with pytest.raises(ShapeError, match=r"\[N, 3\]"):
        PolynomialFeatures(2, 3)(torch.randn(4, 2))
    with pytest.raises(ShapeError, match="2 degrees"):
        ProductFeatures((1,), (slice(0, 1), slice(1, 2)))
    with pytest.raises(OptionError, match="degree at most n = 2"):
        power_sum_coefficients((2, 1), 2)
    with pytest.raises(OptionError, match="at most 300"):
        vandermonde_norms(10, 5)
    with pytest.raises(OptionError, match="dimension"):
        multi_indices(0, 2)
    with pytest.raises(OptionError, match="delta"):
        sample_complexity(2, 2, epsilon=0.1, delta=1.0)
    with pytest.raises(DTypeError, match="integers"):
        fwl_update(np.zeros((2, 2, 1)))
    with pytest.raises(ShapeError, match="n, n, d"):
        fwl_update(np.zeros((2, 3, 1), dtype=int))


SIZES = [(1, 1), (4, 1), (2, 2), (3, 2), (2, 3)]


@pytest.mark.parametrize(("degree", "dimension"), SIZES)
def test_there_are_as_many_multi_indices_as_stated_and_the_inverse_is_exact(degree, dimension):
    indices = multi_indices(dimension, degree)
    assert len(indices) == len(set(indices)) == math.comb(degree + dimension, dimension)
    # and their multinomials, that of the power of one included, add up as they must
    assert sum(multinomial(degree, alpha) for alpha in indices) == (dimension + 1) ** degree
    indices, inverse = multi_indices(dimension, degree), vandermonde_inverse(degree, dimension)
    matrix = [[power(beta, alpha) for beta in indices] for alpha in indices]
    size = range(len(matrix))
    for i, j in itertools.product(size, size):
        assert sum(matrix[i][k] * inverse[k][j] for k in size) == int(i == j)


@pytest.mark.parametrize(("degree", "dimension"), SIZES)
def test_every_monomial_is_a_sum_of_powers_at_every_point(degree, dimension):
    """An identity of polynomials of degree n that holds on a grid of n + 1 points per variable holds everywhere."""
    grid = list(itertools.product([Fraction(v, 3) for v in range(-1, degree)], repeat=dimension))
    for delta in multi_indices(dimension, degree):
        coefficients = power_sum_coefficients(delta, degree)
        for x in grid:
            total = sum(
                a * (sum(b * v for b, v in zip(beta, x, strict=True)) + 1) ** degree for beta, a in coefficients.items()
            )
            assert total == math.prod(v**e for v, e in zip(x, delta, strict=True))


@pytest.mark.parametrize(("degree", "dimension"), SIZES)
def test_coefficients_are_bounded_as_the_lemma_says(degree, dimension):
    norms = vandermonde_norms(degree, dimension)
    totals = [sum(abs(a) for a in power_sum_coefficients(d, degree).values()) for d in multi_indices(dimension, degree)]
    assert max(totals) == norms.coefficients
    assert norms.coefficients <= norms.row_sum  # the paper's c_{n,D}
    assert norms.coefficients <= norms.column_sum  # what its argument shows


def test_the_two_norms_are_not_the_same():
    """So that which one is meant matters: neither is always the larger."""
    assert vandermonde_norms(2, 1).row_sum == 3 < vandermonde_norms(2, 1).column_sum == 4
    assert vandermonde_norms(2, 2).row_sum == 6 > vandermonde_norms(2, 2).column_sum == 4


def test_the_sample_complexity_is_the_papers_formula():
    c = float(vandermonde_norms(2, 3).row_sum)
    wanted = ((2**2 + 1) ** 1.5 * c + math.log(1 / 0.05)) / 0.1**2
    assert sample_complexity(2, 3, epsilon=0.1, delta=0.05) == pytest.approx(wanted)
    assert sample_complexity(1, 3, epsilon=0.1, delta=0.05) == sample_complexity(2, 3, epsilon=0.1, delta=0.05)


@pytest.mark.parametrize("monomial", [(1, 0), (1, 1), (2, 0), (3, 0), (2, 2), (1, 3)])
def test_the_complexity_of_one_monomial_is_within_the_general_bound(monomial):
    degree = max(sum(monomial), 1)
    exact = monomial_complexity(monomial, epsilon=0.1, delta=0.05)
    assert exact <= sample_complexity(degree, len(monomial), epsilon=0.1, delta=0.05)


def types_of(family):
    matrices = np.stack([g.adjacency() for g in family])
    return np.stack([np.broadcast_to(np.eye(matrices.shape[1], dtype=np.int64), matrices.shape), matrices], axis=-1)


@pytest.mark.parametrize("size", [1, 5])
def test_power_sums_separate_exactly_what_one_round_separates(size):
    """All pairs of nodes, and so the graphs themselves; the statement goes through all sizes up to 7."""
    family = connected_graphs(size)
    encoded = colours_of(fwl_update(types_of(family)))
    refined = np.stack([c.colours for c in refine(family, "2-fwl", rounds=1)])
    assert same_partition(encoded, refined)
    by_encoding, by_refining = (np.sort(c.reshape(len(family), -1), axis=1) for c in (encoded, refined))
    assert same_partition(colours_of(by_encoding), colours_of(by_refining))


def test_too_low_a_degree_separates_less():
    family = connected_graphs(5)
    low = colours_of(fwl_update(types_of(family), degree=1))
    refined = np.stack([c.colours for c in refine(family, "2-fwl", rounds=1)])
    assert len(np.unique(low)) < len(np.unique(refined))


def test_iterated_updates_reach_the_stable_colouring():
    family = connected_graphs(4)
    tensor = types_of(family)
    for _ in range(4):
        colours = colours_of(fwl_update(tensor, degree=2))
        tensor = np.stack([colours == c for c in np.unique(colours)], axis=-1).astype(
            np.int64
        )  # one-hot: degree 2 will do
    histograms = colours_of(np.sort(colours.reshape(len(family), -1), axis=1))
    assert np.array_equal(histograms[:, None] != histograms[None, :], verdict_matrix(family, "2-fwl"))


def test_there_are_as_many_heads_as_multi_indices_each_a_product_of_powers():
    assert len(heads(2, 7)) == math.comb(7 + 4, 4)
    assert fwl_update(types_of(connected_graphs(4))).shape[-1] == 2 + math.comb(4 + 4, 4)
    tensor = np.random.default_rng(0).integers(-2, 3, (4, 4, 2))
    update = fwl_update(tensor, degree=3)
    for number, (beta, gamma) in enumerate(heads(2, 3)):
        left, right = (tensor[..., 0] ** b[0] * tensor[..., 1] ** b[1] for b in (beta, gamma))
        assert np.array_equal(update[..., 2 + number], left @ right)


def test_numbers_beyond_64_bits_stay_exact():
    tensor = np.full((3, 3, 1), 10**9)
    update = fwl_update(tensor)
    assert update.dtype == object
    assert update.max() == 3 * 10**27
    assert len(np.unique(colours_of(update))) == 1
