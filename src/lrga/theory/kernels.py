"""Monomials and polynomial kernels: the encoding of 2-FWL's multisets, and the feature maps that LRGA needs for it.

Proposition 5: feature maps of polynomial kernels, whose coordinates are monomials.

    ⟨x, y⟩^β = Σ_{|ν| = β} (β choose ν) x^ν y^ν = ⟨φ_β(x), φ_β(y)⟩,    φ_β(x)_ν = √(β choose ν) x^ν,

and for several blocks x = [x_1, …, x_d], the product kernel Π_l ⟨x_l, y_l⟩^{β_l} has the products of the coordinates of
all φ_{β_l} as its feature map. Sizes: C(β + D − 1, D − 1) for one block of D columns, the product of these for several.

Proposition 3 and its lemma: monomials as sums of powers, in exact rational arithmetic, and their sample complexity.

With B the multi-indices β of D entries and |β| ≤ n (N = C(n+D, D) of them), the multivariate Vandermonde matrix
V_{α,β} = β^α is invertible, and x^δ = Σ_β a_β (⟨β, x⟩ + 1)^n, where, by the multinomial theorem,

    Σ_β a_β (⟨β, x⟩ + 1)^n = Σ_α d_α (V a)_α x^α,    d_α = n! / (α! (n − |α|)!),    so    a = V⁻¹ e_δ / d_δ.

The coefficients are a *column* of V⁻¹ over d_δ; their ℓ1 norm is bounded by the largest column sum ‖V⁻¹‖_1. The paper
names the largest row sum, c_{n,D} = ‖V⁻¹‖_∞, with V as above. The lemma's bound ‖a‖_1 ≤ c_{n,D} still holds in
every case that was computed, because of the factor d_δ. :class:`VandermondeNorms` has both norms and the true maximum.

The 2-FWL update as power sums and matrix products (appendix "Multiset encoding"), in exact integers.

The multiset of the pair (i, j) has the elements z_k = [Y_ik, Y_kj]. Its power sums Σ_k z_k^α over all α = (β, γ) with
|α| ≤ n determine it, and they are matrix products: Σ_k Y_ik^β Y_kj^γ = (Y^β Y^γ)_ij, where Y^β takes products of powers
of the channels, entry by entry.

Letters: G graphs of n nodes, N rows, D columns of a block, d channels.
"""

import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from lrga.checks import check_count
from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.theory.labelled import Array

MultiIndex = tuple[int, ...]
Numbers = TypeVar("Numbers", Array, Tensor)
_MAX_COORDINATES = 2**22  # a row of features then takes 32 MB
_MAX_INDICES = 300  # exact elimination of a system of this size takes less than a minute


def feature_size(degrees: Sequence[int], widths: Sequence[int]) -> int:
    """Π_l C(β_l + D_l − 1, D_l − 1), the number of coordinates of φ_β.

    Example:
        >>> feature_size([2], [3]), feature_size([2, 1], [3, 4])
        (6, 24)
    """
    for degree, width in zip(degrees, widths, strict=True):
        if degree < 0 or width < 0:
            raise OptionError("degrees and widths of 0 or more", f"{degrees} and {widths}", "pass counts")
    # A block without columns has one monomial for degree 0, the constant 1, and none for other degrees.
    return math.prod(math.comb(b + d - 1, b) if d else int(b == 0) for b, d in zip(degrees, widths, strict=True))


class PolynomialFeatures(nn.Module):
    """φ_β for one block: all monomials of degree β, with multinomial weights.

    Args:
        degree: β.
        width: D.

    Shapes:
        - x: ``[N, D]``
        - result: ``[N, C(β + D − 1, D − 1)]``

    Example:
        >>> import torch
        >>> x, y = torch.randn(2, 1, 5, dtype=torch.float64)
        >>> phi = PolynomialFeatures(degree=3, width=5)
        >>> bool(torch.isclose(phi(x) @ phi(y).T, (x @ y.T) ** 3).all())
        True
    """

    factors: Tensor
    weights: Tensor

    def __init__(self, degree: int, width: int) -> None:
        super().__init__()
        _check_size([degree], [width])
        self.degree, self.width = degree, width
        chosen = list(itertools.combinations_with_replacement(range(width), degree))
        factors = torch.tensor(chosen, dtype=torch.int64).view(len(chosen), degree)
        weights = [math.sqrt(multinomial(degree, tuple(Counter(c).values()))) for c in chosen]
        # Constants, not parameters: nothing is learned, and checkpoints do not contain them.
        self.register_buffer("factors", factors, persistent=False)
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.size(1) != self.width:
            got = f"shape {list(x.shape)}"
            raise ShapeError(f"x of shape [N, {self.width}]", got, "pass a block of this width")
        return self.weights.to(x.dtype) * x[:, self.factors].prod(dim=-1)

    def extra_repr(self) -> str:
        return f"degree={self.degree}, width={self.width}"


class ProductFeatures(nn.Module):
    """φ_β for several blocks of columns: all products of one coordinate from the feature map of each block.

    Args:
        degrees: β, one degree per block.
        blocks: The columns of each block within x; blocks may repeat.

    Shapes:
        - x: ``[N, D]``
        - result: ``[N, Π_l C(β_l + D_l − 1, D_l − 1)]``
    """

    def __init__(self, degrees: Sequence[int], blocks: Sequence[slice]) -> None:
        super().__init__()
        if len(degrees) != len(blocks):
            raise ShapeError(f"{len(blocks)} degrees, one per block", str(len(degrees)), "give each channel a degree")
        self.degrees, self.blocks = tuple(degrees), tuple(blocks)
        widths = [b.stop - b.start for b in self.blocks]
        _check_size(self.degrees, widths)
        self.maps = nn.ModuleList(PolynomialFeatures(b, w) for b, w in zip(self.degrees, widths, strict=True))

    @property
    def out_channels(self) -> int:
        """Number of coordinates of the feature map."""
        return feature_size(self.degrees, [b.stop - b.start for b in self.blocks])

    def forward(self, x: Tensor) -> Tensor:
        result = x.new_ones(x.size(0), 1)
        for block, feature_map in zip(self.blocks, self.maps, strict=True):
            result = (result.unsqueeze(2) * feature_map(x[:, block]).unsqueeze(1)).flatten(1)
        return result

    def extra_repr(self) -> str:
        return f"degrees={list(self.degrees)}, out_channels={self.out_channels}"


def _check_size(degrees: Sequence[int], widths: Sequence[int]) -> None:
    for degree in degrees:
        check_count("degrees", degree)
    if (size := feature_size(degrees, widths)) > _MAX_COORDINATES:
        got = f"{size} for degrees {list(degrees)} of blocks {list(widths)} wide"
        remedy = "use lower degrees, or a node factorisation of lower rank"
        raise OptionError(f"a feature map of at most {_MAX_COORDINATES} coordinates", got, remedy)


def multi_indices(dimension: int, degree: int) -> list[MultiIndex]:
    """All β of ``dimension`` entries with |β| ≤ degree, by degree: the paper's B.

    Example:
        >>> multi_indices(2, 1)
        [(0, 0), (0, 1), (1, 0)]
    """
    check_count("dimension", dimension, minimum=1)
    check_count("degree", degree, minimum=1)
    # A multi-index of degree k is a choice of k variables with repetition.
    chosen = (c for k in range(degree + 1) for c in itertools.combinations_with_replacement(range(dimension), k))
    return sorted((tuple(c.count(i) for i in range(dimension)) for c in chosen), key=lambda b: (sum(b), b))


def power(base: Sequence[int], exponent: Sequence[int]) -> int:
    """β^α = Π β_i^{α_i}, with 0⁰ = 1."""
    return math.prod(b**a for b, a in zip(base, exponent, strict=True))


@functools.cache
def vandermonde_inverse(degree: int, dimension: int) -> tuple[tuple[Fraction, ...], ...]:
    """V⁻¹, exactly: V_{α,β} = β^α, rows α and columns β in the order of :func:`multi_indices`."""
    count = math.comb(degree + dimension, dimension)
    if count > _MAX_INDICES:
        got = f"C({degree + dimension}, {dimension}) = {count}"
        raise OptionError(f"at most {_MAX_INDICES} multi-indices", got, "lower n or D")
    indices = multi_indices(dimension, degree)
    rows = [
        [Fraction(power(beta, alpha)) for beta in indices] + [Fraction(int(alpha == beta)) for beta in indices]
        for alpha in indices
    ]
    for c in range(count):
        pivot = next(r for r in range(c, count) if rows[r][c])  # exists because V is regular
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
    """Norms that bound the size of the coefficients.

    Attributes:
        row_sum: ‖V⁻¹‖_∞, which the paper calls c_{n,D}.
        column_sum: ‖V⁻¹‖_1, the bound on ‖a‖_1 that follows from the proof of the lemma.
        coefficients: The largest ‖a‖_1 over all monomials of degree at most n.
    """

    row_sum: Fraction
    column_sum: Fraction
    coefficients: Fraction


@functools.cache
def vandermonde_norms(degree: int, dimension: int) -> VandermondeNorms:
    """c_{n,D} and the related norms, exactly.

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


def sample_complexity(degree: int, dimension: int, epsilon: float, delta: float) -> float:
    """Proposition 3: (C_{n,D} + log 1/δ) / ε² with C_{n,D} = (n² + 1)^{(n+1)/2} c_{n,D}, up to a constant factor.

    n is rounded up to an even number, as the appendix does.

    Example:
        >>> sample_complexity(2, 2, epsilon=0.1, delta=0.05) > 6000
        True
    """
    n = 2 * math.ceil(degree / 2)  # the bound uses a corollary about even powers
    return _samples((n * n + 1) ** ((n + 1) / 2) * float(vandermonde_norms(n, dimension).row_sum), epsilon, delta)


def monomial_complexity(monomial: Sequence[int], epsilon: float, delta: float) -> float:
    """:func:`sample_complexity` of one monomial with its exact coefficients, Σ_β n |a_β| ‖(β, 1)‖₂^n for C_{n,D}."""
    n = 2 * math.ceil(max(sum(monomial), 1) / 2)
    coefficients = power_sum_coefficients(monomial, n)
    total = sum(n * float(abs(a)) * math.hypot(*beta, 1) ** n for beta, a in coefficients.items())
    return _samples(total, epsilon, delta)


def _samples(constant: float, epsilon: float, delta: float) -> float:
    if not epsilon > 0 or not 0 < delta < 1:
        raise OptionError("epsilon > 0 and 0 < delta < 1", f"{epsilon} and {delta}", "pass the PAC parameters")
    return (constant + math.log(1 / delta)) / epsilon**2


def channel_power(tensor: Numbers, exponents: Sequence[int]) -> Numbers:
    """Y^β, ``[…, n, n]`` from ``[…, n, n, d]``; 0⁰ = 1."""
    channels = [tensor[..., channel] for channel in range(tensor.shape[-1])]
    return functools.reduce(operator.mul, (y**exponent for y, exponent in zip(channels, exponents, strict=True)))


def heads(channels: int, degree: int) -> list[tuple[MultiIndex, MultiIndex]]:
    """All (β, γ) with |β| + |γ| ≤ degree: the heads of the update.

    Example:
        >>> heads(1, 1)
        [((0,), (0,)), ((0,), (1,)), ((1,), (0,))]
    """
    return [(alpha[:channels], alpha[channels:]) for alpha in multi_indices(2 * channels, degree)]


def fwl_update(tensor: Array, degree: int | None = None) -> Array:
    """Y^{l+1} = [Y, (Y^β Y^γ for all |β| + |γ| ≤ n)], exactly.

    Args:
        tensor: ``[n, n, d]`` or ``[G, n, n, d]`` of integers.
        degree: The largest |β| + |γ|; n by default, as the theorem on power sums requires.

    Returns:
        ``[…, n, n, d + C(n + 2d, 2d)]``: int64 if the sums fit, else Python integers.

    Example:
        >>> import numpy as np
        >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        >>> fwl_update(np.stack([np.eye(3, dtype=int), path], axis=-1)).shape
        (3, 3, 37)
    """
    tensor = np.asarray(tensor)
    if tensor.dtype.kind not in "iuO":
        raise DTypeError("a tensor of integers", str(tensor.dtype), "round it first; power sums are compared exactly")
    if tensor.ndim not in (3, 4) or tensor.shape[-2] != tensor.shape[-3]:
        got = f"shape {list(tensor.shape)}"
        raise ShapeError("[n, n, d] or [G, n, n, d]", got, "stack channels along the last axis")
    degree = tensor.shape[-2] if degree is None else degree
    largest = int(np.abs(tensor).max(initial=1))
    if tensor.shape[-2] * largest**degree >= 2**63:
        tensor = tensor.astype(object)
    channels = tensor.shape[-1]
    powers = {beta: channel_power(tensor, beta) for beta in multi_indices(channels, degree)}
    products = [powers[beta] @ powers[gamma] for beta, gamma in heads(channels, degree)]
    return np.concatenate([tensor, np.stack(products, axis=-1)], axis=-1)


def colours_of(tensor: Array) -> Array:
    """Numbers the distinct rows of a tensor ``[…, d]``: equal numbers for equal rows."""
    number = np.zeros(tensor.shape[:-1], dtype=np.int64)
    for channel in range(tensor.shape[-1]):
        values, rank = np.unique(tensor[..., channel], return_inverse=True)
        if len(values) > 1:
            number = np.unique(number * len(values) + rank.reshape(number.shape), return_inverse=True)[1]
            number = number.reshape(tensor.shape[:-1])
    return number


def same_partition(first: Array, second: Array) -> bool:
    """Whether two colourings have the same classes; the names of the classes may differ.

    Example:
        >>> import numpy as np
        >>> same_partition(np.array([0, 0, 1]), np.array([5, 5, 2])), same_partition(np.array([0, 0]), np.array([0, 1]))
        (True, False)
    """
    first, second = first.reshape(-1), second.reshape(-1)
    both = np.unique(np.stack([first, second]), axis=1).shape[1]
    return both == len(np.unique(first)) == len(np.unique(second))
