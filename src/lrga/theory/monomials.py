"""Proposition 3 and its lemma: monomials as sums of powers, in exact rational arithmetic, and what learning them costs.

With B the multi-indices β of D entries and |β| ≤ n (N = C(n+D, D) of them), the multivariate Vandermonde matrix
V_{α,β} = β^α is invertible, and x^δ = Σ_β a_β (⟨β, x⟩ + 1)^n, where, by the multinomial theorem,

    Σ_β a_β (⟨β, x⟩ + 1)^n = Σ_α d_α (V a)_α x^α,    d_α = n! / (α! (n − |α|)!),    so    a = V⁻¹ e_δ / d_δ.

The coefficients are a *column* of V⁻¹ over d_δ; their ℓ1 norm is bounded by the largest column sum ‖V⁻¹‖_1. The paper
names the largest row sum, c_{n,D} = ‖V⁻¹‖_∞, with V as above. The lemma's bound ‖a‖_1 ≤ c_{n,D} nevertheless holds in
every case that was computed, thanks to the d_δ; :class:`VandermondeNorms` has both norms and the true maximum.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lrga.errors import OptionError

MultiIndex = tuple[int, ...]
_LARGEST = 300  # rows of a system that exact elimination solves within a minute


def multi_indices(dimension: int, degree: int) -> list[MultiIndex]:
    """All β of ``dimension`` entries with |β| ≤ degree, by degree: the paper's B.

    Example:
        >>> multi_indices(2, 1)
        [(0, 0), (0, 1), (1, 0)]
    """
    _check_count(dimension=dimension, degree=degree)
    # A multi-index of degree k is a choice of k variables with repetition.
    chosen = (c for k in range(degree + 1) for c in itertools.combinations_with_replacement(range(dimension), k))
    return sorted((tuple(c.count(i) for i in range(dimension)) for c in chosen), key=lambda b: (sum(b), b))


def power(base: Sequence[int], exponent: Sequence[int]) -> int:
    """β^α = Π β_i^{α_i}, with 0⁰ = 1."""
    return math.prod(b**a for b, a in zip(base, exponent, strict=True))


def vandermonde(degree: int, dimension: int) -> list[list[int]]:
    """V_{α,β} = β^α, rows α and columns β in the order of :func:`multi_indices`."""
    indices = multi_indices(dimension, degree)
    return [[power(beta, alpha) for beta in indices] for alpha in indices]


@functools.cache
def vandermonde_inverse(degree: int, dimension: int) -> tuple[tuple[Fraction, ...], ...]:
    """V⁻¹, exactly."""
    _check_count(dimension=dimension, degree=degree)
    count = math.comb(degree + dimension, dimension)
    if count > _LARGEST:
        raise OptionError(
            f"at most {_LARGEST} multi-indices", f"C({degree + dimension}, {dimension}) = {count}", "lower n or D"
        )
    rows = [
        [Fraction(x) for x in row] + [Fraction(int(i == j)) for j in range(count)]
        for i, row in enumerate(vandermonde(degree, dimension))
    ]
    for c in range(count):
        pivot = next(r for r in range(c, count) if rows[r][c])  # there is one: V is regular
        rows[c], rows[pivot] = rows[pivot], rows[c]
        scale = 1 / rows[c][c]
        rows[c] = [x * scale for x in rows[c]]
        for r in range(count):
            factor = rows[r][c]
            if r != c and factor:
                rows[r] = [x - factor * y if y else x for x, y in zip(rows[r], rows[c], strict=True)]
    return tuple(tuple(row[count:]) for row in rows)


def power_sum_coefficients(monomial: Sequence[int], degree: int) -> dict[MultiIndex, Fraction]:
    """The a_β of x^δ = Σ_β a_β (⟨β, x⟩ + 1)^n, for δ with |δ| ≤ n (lemma 1).

    Example:
        >>> {b: str(a) for b, a in power_sum_coefficients((1,), 2).items()}  # x = -3/4 + (x+1)² - (2x+1)²/4
        {(0,): '-3/4', (1,): '1', (2,): '-1/4'}
    """
    delta = tuple(monomial)
    indices = multi_indices(len(delta), degree)
    if delta not in indices:
        raise OptionError(f"a monomial of degree at most n = {degree}", f"exponents {delta}", "raise the degree n")
    inverse, column = vandermonde_inverse(degree, len(delta)), indices.index(delta)
    scale = multinomial(degree, delta)
    return {beta: inverse[row][column] / scale for row, beta in enumerate(indices)}


def multinomial(degree: int, exponents: Sequence[int]) -> int:
    """d_α = n! / (α_1! … α_D! (n − |α|)!)."""
    rest = degree - sum(exponents)
    return math.factorial(degree) // math.prod(math.factorial(e) for e in (*exponents, rest))


@dataclass(frozen=True)
class VandermondeNorms:
    """How large the coefficients get.

    Attributes:
        row_sum: ‖V⁻¹‖_∞, which the paper calls c_{n,D}.
        column_sum: ‖V⁻¹‖_1, which the argument of the lemma bounds ‖a‖_1 by.
        coefficients: The largest ‖a‖_1 over all monomials of degree at most n.
    """

    row_sum: Fraction
    column_sum: Fraction
    coefficients: Fraction


@functools.cache
def vandermonde_norms(degree: int, dimension: int) -> VandermondeNorms:
    """c_{n,D} and its relatives, exactly.

    Example:
        >>> norms = vandermonde_norms(2, 2)
        >>> int(norms.row_sum), int(norms.column_sum), int(norms.coefficients)
        (6, 4, 2)
    """
    inverse = vandermonde_inverse(degree, dimension)
    columns = [sum((abs(row[c]) for row in inverse), Fraction(0)) for c in range(len(inverse))]
    monomials = multi_indices(dimension, degree)
    return VandermondeNorms(
        max(sum((abs(x) for x in row), Fraction(0)) for row in inverse),
        max(columns),
        max(total / multinomial(degree, delta) for total, delta in zip(columns, monomials, strict=True)),
    )


def even_degree(degree: int) -> int:
    """2⌈n/2⌉: the corollary that the bound rests on is about even powers."""
    return 2 * math.ceil(degree / 2)


def sample_complexity(degree: int, dimension: int, epsilon: float, delta: float) -> float:
    """Proposition 3: (C_{n,D} + log 1/δ) / ε² with C_{n,D} = (n² + 1)^{(n+1)/2} c_{n,D}, up to a constant factor.

    n is rounded up to an even number, as the appendix does.

    Example:
        >>> sample_complexity(2, 2, epsilon=0.1, delta=0.05) > 6000
        True
    """
    _check_accuracy(epsilon, delta)
    n = even_degree(degree)
    constant = (n * n + 1) ** ((n + 1) / 2) * float(vandermonde_norms(n, dimension).row_sum)
    return (constant + math.log(1 / delta)) / epsilon**2


def monomial_complexity(monomial: Sequence[int], epsilon: float, delta: float) -> float:
    """The same for one monomial without the estimates: Σ_β n |a_β| ‖(β, 1)‖₂^n in place of C_{n,D}."""
    _check_accuracy(epsilon, delta)
    n = even_degree(max(sum(monomial), 1))
    coefficients = power_sum_coefficients(monomial, n)
    total = sum(n * float(abs(a)) * math.hypot(*beta, 1) ** n for beta, a in coefficients.items())
    return (total + math.log(1 / delta)) / epsilon**2


def _check_count(**values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{name} as a count, 1 or more", repr(value), "pass a positive integer")


def _check_accuracy(epsilon: float, delta: float) -> None:
    if not epsilon > 0 or not 0 < delta < 1:
        raise OptionError("epsilon > 0 and 0 < delta < 1", f"{epsilon} and {delta}", "pass the PAC parameters")
