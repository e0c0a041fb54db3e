"""The statements of the paper that need no training, each with its measurement, approximately in the paper's order.

:func:`lrga.theory.tour.run_tour` measures any list of statements, including your own.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch

from lrga.checks import check_choice
from lrga.theory import bounds, kernels
from lrga.theory.factorization import (
    align,
    align_heads,
    eta_of,
    factorize,
    head_of,
    isomorphism_types,
    multiply_heads,
    random_factorization,
)
from lrga.theory.labelled import Array, LabelledGraph
from lrga.theory.tour import Measurement, Series, Statement, slope
from lrga.theory.wl.verdicts import refine, verdict_matrix
from lrga.theory.zoo import circular_skip_link, connected_graphs, cycle, random_graph, zoo

_WIDTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
_ROUNDING = 1e-9  # tolerance in double precision


def tensor_determines_types() -> Measurement:
    """Rows of Y⁰ are equal exactly for equal isomorphism types; checked for all pairs of pairs."""
    wrong = checked = 0
    for seed in range(5):
        graph = random_graph(9, 0.4, seed)
        features = torch.from_numpy(np.random.default_rng(seed).integers(0, 2, (9, 2)))
        rows = isomorphism_types(graph, features).reshape(81, -1)
        same_rows = (rows[:, None, :] == rows[None, :, :]).all(dim=-1).numpy()
        matrix, nodes = graph.adjacency(), features.tolist()
        # conditions (i), (ii), (iii) of section 3
        kinds = [(i == j, *nodes[i], *nodes[j], int(matrix[i, j])) for i in range(9) for j in range(9)]
        wrong += int((same_rows != np.array([[a == b for b in kinds] for a in kinds])).sum())
        checked += same_rows.size
    return Measurement(f"{checked} comparisons, {wrong} wrong", wrong == 0, {"comparisons": checked, "wrong": wrong})


def hoeffding_bounds_the_deviation(trials: int = 20_000) -> Measurement:
    """Observed frequencies and the bounds, at widths where the paper's bound is between .05 and .9."""
    generator = torch.Generator().manual_seed(0)
    nodes, deviation, width = 4, 0.5, bounds.RANGES["rademacher"]
    texts, holds = [], True
    values: dict[str, float] = {}
    curves: dict[str, list[float]] = {"bound of the paper": [], "sharp bound": [], "observed": []}
    chosen = {}
    for name in ("sharp", "paper"):
        chances = {d: bounds.matrix_bound(nodes, d, deviation, width, sharp=name == "sharp") for d in range(4, 400, 4)}
        widths = [d for d, chance in chances.items() if 0.05 <= chance <= 0.9]
        chosen[name] = widths[:: math.ceil(len(widths) / 4)]
        for d in chosen[name]:
            _, observed = bounds.observed_deviation(nodes, d, deviation, trials=trials, generator=generator)
            both = [bounds.matrix_bound(nodes, d, deviation, width, sharp=sharp) for sharp in (False, True)]
            bound = both[name == "sharp"]
            texts.append(f"{observed:.3f} ≤ {bound:.2f} ({name}, d={d})")
            values |= {f"bound_{name}_d{d}": bound, f"observed_{name}_d{d}": observed}
            holds &= observed <= bound
            for curve, value in zip(curves.values(), (*both, observed or math.nan), strict=True):
                curve.append(value)
    # Deviations must occur at the widths of the sharp bound; otherwise nothing was tested.
    seen = max(v for key, v in values.items() if key.startswith("observed_sharp"))
    return Measurement(
        "observed ≤ bound: " + ", ".join(texts),
        holds and seen > 0,
        values,
        Series("random features d", "chance of a deviation", [*chosen["sharp"], *chosen["paper"]], curves, "y"),
    )


def triangles_are_counted() -> Measurement:
    """Compares the network with the trace that it should compute, then measures the error of the trace over d."""
    graph = random_graph(20, 0.5, 1)
    generator = torch.Generator().manual_seed(0)
    random, propagated = random_factorization(graph, 12, generator=generator).blocks
    network = float(bounds.TriangleDeepSets(12)(torch.cat([random, propagated], dim=1)))
    product = torch.from_numpy(graph.adjacency()).double() @ random @ random.T
    difference = abs(network - float(torch.trace(product @ product @ product)) / 6) / max(abs(network), 1.0)
    errors = [bounds.triangle_error(graph, d, trials=200, generator=generator) for d in _WIDTHS]
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
    """The gap between averaging permuted outputs and permuting averaged outputs, over the number of draws."""
    graph, samples = random_graph(12, 0.4, 3), (4, 16, 64, 256, 1024, 4096)

    def gap(count: int, *, held: bool) -> float:
        sources = (torch.Generator().manual_seed(seed) for seed in range(4))
        gaps = [bounds.equivariance_gap(graph, count, held=held, generator=source) for source in sources]
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
            {"drawn in every pass": drawn, "fixed": [held] * len(samples)},
            reference=-0.5,
        ),
    )


def monomials_are_sums_of_powers() -> Measurement:
    """All coefficients of the expansion, in rational arithmetic, for all monomials of small n and D."""
    wrong = checked = above = 0
    largest = {}
    for dimension, degree in ((1, 2), (1, 4), (2, 2), (2, 4), (3, 2), (3, 4)):
        norms = kernels.vandermonde_norms(degree, dimension)
        largest[f"c_{degree}_{dimension}"] = float(norms.row_sum)
        above += norms.coefficients > norms.row_sum
        for delta in kernels.multi_indices(dimension, degree):
            checked += 1
            wrong += not _expands_to(delta, kernels.power_sum_coefficients(delta, degree), degree)
    bound = kernels.sample_complexity(4, 2, epsilon=0.1, delta=0.05)
    return Measurement(
        f"{checked} monomials exact, {wrong} wrong; ‖a‖₁ ≤ c in all; c_2,2 = {largest['c_2_2']:.0f}, "
        f"c_4,2 = {largest['c_4_2']:.0f}, c_4,3 = {largest['c_4_3']:.0f}; bound for n=4, D=2, ε=.1, δ=.05: {bound:.1e}",
        wrong == 0 and above == 0,
        {"checked": checked, "wrong": wrong, "sample_complexity_4_2": bound, **largest},
    )


def _expands_to(delta: kernels.MultiIndex, coefficients: dict[kernels.MultiIndex, Fraction], degree: int) -> bool:
    """Whether Σ a_β (⟨β, x⟩ + 1)^n has the coefficient 1 at x^δ and 0 at all others."""
    return all(
        kernels.multinomial(degree, alpha) * sum(a * kernels.power(beta, alpha) for beta, a in coefficients.items())
        == int(alpha == delta)
        for alpha in kernels.multi_indices(len(delta), degree)
    )


def eigenvectors_factorise() -> Measurement:
    """Error of Y⁰ as a product of its eigenvectors."""
    worst = 0.0
    for seed in range(5):
        graph = random_graph(20, 0.3, seed)
        features = torch.from_numpy(np.random.default_rng(seed).random((20, 2)))
        for tensor in (isomorphism_types(graph), isomorphism_types(graph, features)):
            worst = max(worst, factorize(tensor).error(tensor))
    return Measurement(f"largest relative error {worst:.1e}", worst < _ROUNDING, {"relative_error": worst})


def one_layer_factorises() -> Measurement:
    """Error of the factorisation by random features over d."""
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
    texts = "; ".join(f"{name}: {curves[name][-1]:.3f} at d={widths[-1]}, as d^{falls[name]:.2f}" for name in curves)
    return Measurement(
        f"relative error {texts}",
        all(-0.6 < fall < -0.4 for fall in falls.values()),
        {f"slope {name}": fall for name, fall in falls.items()},
        Series("random features d", "relative error of Y⁰", widths, curves, reference=-0.5),
    )


def colourings_have_their_known_power() -> Measurement:
    """Verdicts of 1-WL, 2-WL and 2-FWL on all pairs of the zoo, compared with the literature."""
    right = total = 0
    for entry in zoo().values():
        for test in ("1-wl", "2-wl", "2-fwl"):
            pairs = verdict_matrix(entry.graphs, test)[np.triu_indices(len(entry.graphs), k=1)]
            right += int((pairs == entry.verdicts[test]).sum())
            total += len(pairs)
    return Measurement(f"{right} of {total} verdicts as known", right == total, {"right": right, "verdicts": total})


def power_sums_are_one_round(max_nodes: int = 7) -> Measurement:
    """Classes of pairs under power sums and under one round of 2-FWL, for all small connected graphs."""
    graphs = pairs = different = 0
    for size in range(1, max_nodes + 1):
        family = connected_graphs(size)
        matrices = np.stack([g.adjacency() for g in family])
        identity = np.broadcast_to(np.eye(size, dtype=np.int64), matrices.shape)
        encoded = kernels.colours_of(kernels.fwl_update(np.stack([identity, matrices], axis=-1)))
        refined = np.stack([c.colours for c in refine(family, "2-fwl", rounds=1)])
        different += not kernels.same_partition(encoded, refined)
        graphs, pairs = graphs + len(family), pairs + refined.size
    return Measurement(
        f"{graphs} graphs, {pairs} pairs of nodes: classes {'differ' if different else 'equal'} at every size",
        different == 0,
        {"graphs": graphs, "pairs": pairs, "sizes_that_differ": different},
    )


def feature_maps_are_kernels() -> Measurement:
    """Compares ⟨φ(x), φ(y)⟩ with ⟨x, y⟩^β for single blocks and products, and checks the sizes."""
    generator = torch.Generator().manual_seed(0)
    worst, sizes_right = 0.0, True
    for width in range(1, 6):
        for degree in range(6):
            x, y = torch.randn(2, 4, width, dtype=torch.float64, generator=generator)
            phi = kernels.PolynomialFeatures(degree, width)
            worst = max(worst, _relative(phi(x) @ phi(y).T, (x @ y.T) ** degree))
            sizes_right &= phi(x).size(1) == math.comb(degree + width - 1, width - 1)
    blocks = (slice(0, 3), slice(3, 5), slice(5, 9))
    for degrees in kernels.multi_indices(3, 4):
        x, y = torch.randn(2, 4, 9, dtype=torch.float64, generator=generator)
        kernel = torch.stack([(x[:, b] @ y[:, b].T) ** e for b, e in zip(blocks, degrees, strict=True)]).prod(dim=0)
        phi_product = kernels.ProductFeatures(degrees, blocks)
        worst = max(worst, _relative(phi_product(x) @ phi_product(y).T, kernel))
        sizes_right &= phi_product(x).size(1) == kernels.feature_size(degrees, (3, 2, 4)) <= math.comb(4 + 18, 18)
    return Measurement(
        f"largest relative error {worst:.1e}; sizes as stated: {'all' if sizes_right else 'not all'}",
        worst < _ROUNDING and sizes_right,
        {"relative_error": worst},
    )


def _relative(value: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((value - wanted).abs().max() / wanted.abs().max().clamp_min(1.0))


def attention_is_a_head() -> Measurement:
    """Compares the output of the aligned module (product of its parts, times η) with Y^β Y^γ."""
    worst, checked = 0.0, 0
    for seed in range(3):
        graph = random_graph(7, 0.5, seed)
        features = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, (7, 1)))
        for tensor, degree in ((isomorphism_types(graph), 4), (isomorphism_types(graph, features), 2)):
            factorization = factorize(tensor)
            for beta, gamma in kernels.heads(tensor.size(2), degree):
                attention = align(beta, gamma, factorization)
                (product,) = multiply_heads(attention, factorization)
                eta = eta_of(tensor, beta)
                divisor = eta + math.copysign(attention.eps, float(eta))
                worst = max(worst, _relative(product * divisor, head_of(tensor, beta, gamma)))
                checked += 1
    return Measurement(
        f"{checked} heads, largest relative error {worst:.1e}", worst < _ROUNDING, {"heads": checked, "error": worst}
    )


def random_features_approach_the_head() -> Measurement:
    """The same with random features: RGNN and LRGA together, over d."""
    graph, widths, beta, gamma = random_graph(10, 0.4, 0), (8, 16, 32, 64, 128, 256), (0, 1), (0, 1)
    tensor, generator = isomorphism_types(graph), torch.Generator().manual_seed(0)
    wanted = head_of(tensor, beta, gamma)
    errors = []
    for d in widths:
        found = []
        for _ in range(10):
            factorization = random_factorization(graph, d, generator=generator)
            (product,) = multiply_heads(align(beta, gamma, factorization, normalize=None), factorization)
            found.append(float((product - wanted).norm() / wanted.norm()))
        errors.append(float(np.mean(found)))
    fall = slope(widths, errors)
    return Measurement(
        f"relative error of A·A {errors[0]:.2f} at d=8, {errors[-1]:.2f} at d=256, falling as d^{fall:.2f}",
        -0.8 < fall < -0.4,
        {"slope": fall, "error_d256": errors[-1]},
        Series("random features d", "relative error of the head A·A", widths, {"RGNN + LRGA": errors}, reference=-0.5),
    )


def many_heads_are_one_round(max_nodes: int = 6) -> Measurement:
    """Compares multi-head LRGA with one round of 2-FWL: classes of pairs without η, and of whole graphs with η.

    With η, pairs contain a number that depends on their graph, so pairs of different graphs may differ more than under
    2-FWL. The graphs that their histograms distinguish are the same.
    """
    graphs, pairs_differ, graphs_differ = 0, 0, 0
    for size in range(2, max_nodes + 1):
        family = connected_graphs(size)
        refined = np.stack([c.colours for c in refine(family, "2-fwl", rounds=1)])
        pairs_differ += not kernels.same_partition(_encoded_by_heads(family, None), refined)
        graphs_differ += not kernels.same_partition(
            _histograms(_encoded_by_heads(family, "graph")), _histograms(refined)
        )
        graphs += len(family)
    return Measurement(
        f"{graphs} graphs: classes of pairs without η {'differ' if pairs_differ else 'equal'}, "
        f"of graphs with η {'differ' if graphs_differ else 'equal'}, at every size",
        not (pairs_differ or graphs_differ),
        {"graphs": graphs, "sizes_where_pairs_differ": pairs_differ, "sizes_where_graphs_differ": graphs_differ},
    )


def _encoded_by_heads(family: Sequence[LabelledGraph], normalize: str | None) -> Array:
    """Colours of all pairs from isomorphism types and heads of degree two, which suffice for entries 0 and 1."""
    encoded = []
    for graph in family:
        tensor = isomorphism_types(graph)
        factorization = factorize(tensor)
        products = multiply_heads(align_heads(kernels.heads(2, 2), factorization, normalize=normalize), factorization)
        channels = torch.cat([tensor, torch.stack(products, dim=-1)], dim=-1)
        # Rounded to 1e-4: coarser than LRGA's eps of 1e-6, finer than the differences of the rational values.
        encoded.append(channels.mul(1e4).round().long().numpy())
    return kernels.colours_of(np.stack(encoded))


def _histograms(colours: Array) -> Array:
    """From ``[G, n, n]``: a number for each graph, equal for graphs with equal histograms of pairs."""
    return kernels.colours_of(np.sort(colours.reshape(len(colours), -1), axis=1))


def one_head_may_lose_the_scale() -> Measurement:
    """The head A·J of two regular graphs with different degrees, with and without η."""
    ring, skips = isomorphism_types(cycle(11)), isomorphism_types(circular_skip_link(2, 11))
    distances = {}
    for normalize in ("graph", None):
        first, second = (
            multiply_heads(align((0, 1), (0, 0), given, normalize=normalize), given)[0]
            for given in (factorize(ring), factorize(skips))
        )
        distances[normalize] = float((first - second).abs().max())
    with_eta, without = distances["graph"], distances[None]
    return Measurement(
        f"degrees 2 and 4: heads differ by {with_eta:.0e} after η, by {without:.0f} without",
        with_eta < 1e-5 and without > 1,
        {"difference_with_eta": with_eta, "difference_without": without},
    )


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "isomorphism-types",
        "Section 3",
        "[I, 1⊗X, X⊗1, A] has equal entries exactly at pairs of the same isomorphism type",
        tensor_determines_types,
    ),
    Statement(
        "universality-bound",
        "Proposition 1, appendix A",
        "an entry of (1/d) R Rᵀ deviates by t with probability ≤ 2n² exp(−2dt²/M⁴); sharper: exponent −8dt²/M⁴",
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
        "Y⁰ has a node factorisation; the one from eigenvectors is exact to 1e-9",
        eigenvectors_factorise,
    ),
    Statement(
        "random-factorisation",
        "Proposition 4, appendix D",
        "one layer gives [AR, R] or [1, X, R, AR], a node factorisation of Y⁰ up to O(d^-½) (±.1)",
        one_layer_factorises,
    ),
    Statement(
        "colourings",
        "Section 5.2",
        "2-FWL is strictly stronger than vertex colouring; verdicts on hard graphs agree with the literature",
        colourings_have_their_known_power,
    ),
    Statement(
        "multiset-encoding",
        "Equation 5, appendix B",
        "Y^β Y^γ, |β|+|γ| ≤ n, distinguish the same pairs as one round of 2-FWL (connected graphs, n ≤ 7)",
        power_sums_are_one_round,
    ),
    Statement(
        "polynomial-kernels",
        "Proposition 5, appendix C",
        "⟨φ_β(x), φ_β(y)⟩ = Π⟨x_l, y_l⟩^β_l to 1e-9; φ_β has the stated size",
        feature_maps_are_kernels,
    ),
    Statement(
        "alignment",
        "Theorem 1",
        "LRGA with these maps is the node factorisation of Y^β Y^γ / η, to 1e-9, for all small β, γ",
        attention_is_a_head,
    ),
    Statement(
        "alignment-random",
        "Theorem 1 with proposition 4",
        "the same with random features: the error of a head falls about as d^-½ (-.8 to -.4)",
        random_features_approach_the_head,
    ),
    Statement(
        "multi-head",
        "Corollary 1",
        "multi-head LRGA distinguishes the same pairs as one round of 2-FWL (connected graphs, n ≤ 6)",
        many_heads_are_one_round,
    ),
    Statement(
        "scale",
        "Proposition 5, last remark",
        "η has no influence within a graph, but a single head can lose the difference between two graphs",
        one_head_may_lose_the_scale,
    ),
)


def choose(keys: list[str], statements: tuple[Statement, ...] = STATEMENTS) -> list[Statement]:
    """The statements with these keys, in the paper's order; all statements for an empty list.

    Example:
        >>> [s.place for s in choose(["alignment"])]
        ['Theorem 1']
    """
    for key in keys:
        check_choice("a statement", key, tuple(statement.key for statement in statements))
    return [s for s in statements if not keys or s.key in keys]
