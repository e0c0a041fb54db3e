"""Monomials as sums of powers, exactly."""

import itertools
import math
from fractions import Fraction

import pytest

from lrga.errors import OptionError
from lrga.theory import monomial_complexity, power_sum_coefficients, sample_complexity, vandermonde_norms
from lrga.theory.monomials import (
    even_degree,
    multi_indices,
    multinomial,
    power,
    vandermonde,
    vandermonde_inverse,
)

SIZES = [(1, 1), (3, 1), (4, 1), (2, 2), (3, 2), (4, 2), (2, 3), (3, 3), (2, 4)]


@pytest.mark.parametrize(("degree", "dimension"), SIZES)
def test_there_are_as_many_multi_indices_as_stated(degree, dimension):
    indices = multi_indices(dimension, degree)
    assert len(indices) == len(set(indices)) == math.comb(degree + dimension, dimension)


def test_zero_to_the_zero_is_one():
    assert power((0, 2), (0, 3)) == 8
    assert vandermonde(2, 1) == [[1, 1, 1], [0, 1, 2], [0, 1, 4]]


@pytest.mark.parametrize(("degree", "dimension"), SIZES)
def test_the_inverse_is_exact(degree, dimension):
    matrix, inverse = vandermonde(degree, dimension), vandermonde_inverse(degree, dimension)
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


def test_multinomials_include_the_power_of_one():
    assert multinomial(4, (1, 2)) == 12
    assert sum(multinomial(3, alpha) for alpha in multi_indices(2, 3)) == 3**3


def test_the_sample_complexity_is_the_papers_formula():
    c = float(vandermonde_norms(2, 3).row_sum)
    wanted = ((2**2 + 1) ** 1.5 * c + math.log(1 / 0.05)) / 0.1**2
    assert sample_complexity(2, 3, epsilon=0.1, delta=0.05) == pytest.approx(wanted)
    assert sample_complexity(1, 3, epsilon=0.1, delta=0.05) == sample_complexity(2, 3, epsilon=0.1, delta=0.05)
    assert even_degree(3) == 4


@pytest.mark.parametrize("monomial", [(1, 0), (1, 1), (2, 0), (3, 0), (2, 2), (1, 3)])
def test_the_complexity_of_one_monomial_is_within_the_general_bound(monomial):
    degree = max(sum(monomial), 1)
    exact = monomial_complexity(monomial, epsilon=0.1, delta=0.05)
    assert exact <= sample_complexity(degree, len(monomial), epsilon=0.1, delta=0.05)


def test_impossible_arguments_are_refused():
    with pytest.raises(OptionError, match="degree at most n = 2"):
        power_sum_coefficients((2, 1), 2)
    with pytest.raises(OptionError, match="at most 300"):
        vandermonde_norms(10, 5)
    with pytest.raises(OptionError, match="dimension"):
        multi_indices(0, 2)
    with pytest.raises(OptionError, match="delta"):
        sample_complexity(2, 2, epsilon=0.1, delta=1.0)
