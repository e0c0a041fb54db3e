"""Measurements of the paper's statements on random features, monomials and node factorisations."""

import math
from fractions import Fraction

import numpy as np
import torch

from lrga.theory.bounds import RANGES, matrix_bound, observed_deviation
from lrga.theory.equivariance import equivariance_gap
from lrga.theory.factorization import factorize, isomorphism_types, random_factorization
from lrga.theory.graphs import random_graph
from lrga.theory.labelled import Array, LabelledGraph
from lrga.theory.monomials import (
    MultiIndex,
    multi_indices,
    multinomial,
    power,
    power_sum_coefficients,
    sample_complexity,
    vandermonde_norms,
)
from lrga.theory.tour import Measurement, Series, Statement, slope
from lrga.theory.universality import TriangleDeepSets, triangle_error

_WIDTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
_ROUNDING = 1e-9  # what counts as equal in double precision


def types_are_told_by_the_tensor() -> Measurement:
    """Equal rows of Y⁰ for equal isomorphism types, and only for these, checked pair by pair of pairs."""
    wrong = checked = 0
    for seed in range(5):
        graph = random_graph(9, 0.4, seed)
        features = torch.from_numpy(np.random.default_rng(seed).integers(0, 2, (9, 2)))
        rows = isomorphism_types(graph, features).reshape(81, -1)
        kinds = _types_by_definition(graph, features.tolist())
        same_rows = (rows[:, None, :] == rows[None, :, :]).all(dim=-1).numpy()
        wrong += int((same_rows != (kinds[:, None] == kinds[None, :])).sum())
        checked += same_rows.size
    return Measurement(f"{checked} comparisons, {wrong} wrong", wrong == 0, {"comparisons": checked, "wrong": wrong})


def _types_by_definition(graph: LabelledGraph, features: list[list[int]]) -> Array:
    matrix, numbers = graph.adjacency(), dict[tuple[object, ...], int]()
    size = graph.num_nodes
    kinds = [
        (i == j, *features[i], *features[j], int(matrix[i, j])) for i in range(size) for j in range(size)
    ]  # conditions (i), (ii), (iii) of section 3
    return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds])


def hoeffding_bounds_the_deviation() -> Measurement:
    """Observed shares beside the bounds, at widths where the paper's bound lies between .05 and .9."""
    generator = torch.Generator().manual_seed(0)
    nodes, deviation, trials, width = 4, 0.5, 20_000, RANGES["rademacher"]
    told, holds = [], True
    values: dict[str, float] = {}
    curves: dict[str, list[float]] = {"bound of the paper": [], "sharp bound": [], "observed": []}
    chosen = {
        name: _widths_where_it_says_something(nodes, deviation, width, sharp=name == "sharp")
        for name in ("sharp", "paper")
    }
    for name, widths in chosen.items():
        for d in widths:
            _, observed = observed_deviation(nodes, d, deviation, trials=trials, generator=generator)
            both = [matrix_bound(nodes, d, deviation, width, sharp=sharp) for sharp in (False, True)]
            bound = both[name == "sharp"]
            told.append(f"{observed:.3f} ≤ {bound:.2f} ({name}, d={d})")
            values |= {f"bound_{name}_d{d}": bound, f"observed_{name}_d{d}": observed}
            holds &= observed <= bound
            for curve, value in zip(curves.values(), (*both, observed or math.nan), strict=True):
                curve.append(value)
    # At the widths of the sharp bound something must have been seen, or nothing was tested.
    seen = max(v for key, v in values.items() if key.startswith("observed_sharp"))
    return Measurement(
        "observed ≤ bound: " + ", ".join(told),
        holds and seen > 0,
        values,
        Series("random features d", "chance of a deviation", [*chosen["sharp"], *chosen["paper"]], curves, "y"),
    )


def _widths_where_it_says_something(nodes: int, deviation: float, width: float, *, sharp: bool) -> list[int]:
    """Some widths at which the bound lies between .05 and .9."""
    bounds = {d: matrix_bound(nodes, d, deviation, width, sharp=sharp) for d in range(4, 400, 4)}
    widths = [d for d, bound in bounds.items() if 0.05 <= bound <= 0.9]
    return widths[:: math.ceil(len(widths) / 4)]


def triangles_are_counted() -> Measurement:
    """The network beside the trace it should be, then the error of the trace over d."""
    graph = random_graph(20, 0.5, 1)
    generator = torch.Generator().manual_seed(0)
    random, propagated = random_factorization(graph, 12, generator=generator).blocks
    network = float(TriangleDeepSets(12)(torch.cat([random, propagated], dim=1)))
    product = torch.from_numpy(graph.adjacency()).double() @ random @ random.T
    difference = abs(network - float(torch.trace(product @ product @ product)) / 6) / max(abs(network), 1.0)
    errors = [triangle_error(graph, d, trials=200, generator=generator) for d in _WIDTHS]
    fall = slope(_WIDTHS[3:], errors[3:])
    return Measurement(
        f"network = trace to {difference:.0e}; relative error {errors[0]:.2f} at d=16, {errors[-1]:.3f} at d=2048, "
        f"falling as d^{fall:.2f}",
        difference < _ROUNDING and errors[-1] < 0.15 and -0.7 < fall < -0.35,
        {"network_difference": difference, "slope": fall, "error_d16": errors[0], "error_d2048": errors[-1]},
        Series(
            "random features d",
            "relative error of the triangle count",
            _WIDTHS,
            {"20 nodes, p = 0.5": errors},
            reference=-0.5,
        ),
    )


def equivariance_holds_in_expectation() -> Measurement:
    """The gap between moved-then-averaged and averaged-then-moved, over the number of draws."""
    graph, samples = random_graph(12, 0.4, 3), (4, 16, 64, 256, 1024, 4096)

    def gap(count: int, *, held: bool) -> float:
        sources = (torch.Generator().manual_seed(seed) for seed in range(4))
        gaps = [equivariance_gap(graph, count, held=held, generator=source) for source in sources]
        return math.sqrt(sum(g * g for g in gaps) / len(gaps))

    drawn, held = [gap(s, held=False) for s in samples], gap(1, held=True)
    fall = slope(samples, drawn)
    return Measurement(
        f"gap {drawn[0]:.2f} over 4 draws, {drawn[-1]:.3f} over 4096, falling as s^{fall:.2f}; "
        f"with identifiers held fixed it stays {held:.2f}",
        drawn[-1] < 0.05 and held > 0.2 and -0.65 < fall < -0.35,
        {"slope": fall, "gap_4096": drawn[-1], "gap_held": held},
        Series(
            "draws s",
            "gap of equivariance",
            samples,
            {"drawn anew": drawn, "held": [held] * len(samples)},
            reference=-0.5,
        ),
    )


def monomials_are_sums_of_powers() -> Measurement:
    """Every coefficient of the expansion, in rational numbers, for all monomials of small n and D."""
    wrong = checked = above = 0
    largest = {}
    for dimension, degree in ((1, 2), (1, 4), (2, 2), (2, 4), (3, 2), (3, 4)):
        norms = vandermonde_norms(degree, dimension)
        largest[f"c_{degree}_{dimension}"] = float(norms.row_sum)
        above += norms.coefficients > norms.row_sum
        for delta in multi_indices(dimension, degree):
            checked += 1
            wrong += not _expands_to(delta, power_sum_coefficients(delta, degree), degree)
    bound = sample_complexity(4, 2, epsilon=0.1, delta=0.05)
    return Measurement(
        f"{checked} monomials exact, {wrong} wrong; ‖a‖₁ ≤ c in all; c_2,2 = {largest['c_2_2']:.0f}, "
        f"c_4,2 = {largest['c_4_2']:.0f}, c_4,3 = {largest['c_4_3']:.0f}; bound for n=4, D=2, ε=.1, δ=.05: {bound:.1e}",
        wrong == 0 and above == 0,
        {"checked": checked, "wrong": wrong, "sample_complexity_4_2": bound, **largest},
    )


def _expands_to(delta: MultiIndex, coefficients: dict[MultiIndex, Fraction], degree: int) -> bool:
    """Whether Σ a_β (⟨β, x⟩ + 1)^n has the coefficient 1 at x^δ and 0 at all others."""
    return all(
        multinomial(degree, alpha) * sum(a * power(beta, alpha) for beta, a in coefficients.items())
        == int(alpha == delta)
        for alpha in multi_indices(len(delta), degree)
    )


def eigenvectors_factorise() -> Measurement:
    """Y⁰ from its eigenvectors, multiplied back."""
    worst = 0.0
    for seed in range(5):
        graph = random_graph(20, 0.3, seed)
        features = torch.from_numpy(np.random.default_rng(seed).random((20, 2)))
        for tensor in (isomorphism_types(graph), isomorphism_types(graph, features)):
            worst = max(worst, factorize(tensor).error(tensor))
    return Measurement(f"largest relative error {worst:.1e}", worst < _ROUNDING, {"relative_error": worst})


def one_layer_factorises() -> Measurement:
    """Error of the factorisation by random features, over d."""
    graph, widths = random_graph(20, 0.3, 0), _WIDTHS[:-1]
    features = torch.from_numpy(np.random.default_rng(0).integers(0, 3, (20, 2)))
    generator = torch.Generator().manual_seed(0)
    curves = {}
    for name, given in (("[AR, R]", None), ("[1, X, R, AR]", features)):
        tensor = isomorphism_types(graph, given)
        curves[name] = [
            random_factorization(graph, d, features=given, generator=generator).error(tensor) for d in widths
        ]
    falls = {name: slope(widths, errors) for name, errors in curves.items()}
    told = "; ".join(f"{name}: {curves[name][-1]:.3f} at d={widths[-1]}, as d^{falls[name]:.2f}" for name in curves)
    return Measurement(
        f"relative error {told}",
        all(-0.6 < fall < -0.4 for fall in falls.values()),
        {f"slope {name}": fall for name, fall in falls.items()},
        Series("random features d", "relative error of Y⁰", widths, curves, reference=-0.5),
    )


RANDOM_STATEMENTS = (
    Statement(
        "isomorphism-types",
        "Section 3",
        "[I, 1⊗X, X⊗1, A] has equal entries exactly at pairs of the same isomorphism type",
        types_are_told_by_the_tensor,
    ),
    Statement(
        "universality-bound",
        "Proposition 1, appendix A",
        "(1/d) R Rᵀ is off by t with a chance of at most 2n² exp(−2dt²/M⁴); sharper: exponent −8dt²/M⁴",
        hoeffding_bounds_the_deviation,
    ),
    Statement(
        "universality-triangles",
        "Proposition 1",
        "DeepSets on [X, R, AR] counts triangles, tr((RᵀAR/d)³)/6, with an error that falls as d^-½ (±.2)",
        triangles_are_counted,
    ),
    Statement(
        "equivariance",
        "Proposition 2",
        "RGNN is equivariant in expectation: the gap falls as s^-½ (±.15) over s draws",
        equivariance_holds_in_expectation,
    ),
    Statement(
        "monomials",
        "Proposition 3, lemma 1",
        "x^δ = Σ a_β (⟨β,x⟩+1)^n exactly, with ‖a‖₁ ≤ c_{n,D}",
        monomials_are_sums_of_powers,
    ),
    Statement(
        "node-factorisation",
        "Definition 3",
        "Y⁰ has a node factorisation, by eigenvectors exact to 1e-9",
        eigenvectors_factorise,
    ),
    Statement(
        "random-factorisation",
        "Proposition 4, appendix D",
        "one layer gives [AR, R] or [1, X, R, AR], a node factorisation of Y⁰ up to O(d^-½) (±.1)",
        one_layer_factorises,
    ),
)
