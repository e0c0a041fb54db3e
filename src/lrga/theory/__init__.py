"""The theory of the paper as running code, and the Weisfeiler–Lehman tests it speaks of.

Tests of isomorphism: :func:`distinguishes`, :func:`compare`, :func:`refine`, :func:`stable_colouring`,
:func:`verdict_matrix`, on graphs read by :func:`as_graph` and :func:`read_graphs`; hard graphs in :func:`zoo`.

The paper's statements, each in a module that says which: :mod:`~lrga.theory.factorization` (section 3, proposition 4),
:mod:`~lrga.theory.bounds` and :mod:`~lrga.theory.universality` (proposition 1), :mod:`~lrga.theory.equivariance`
(proposition 2), :mod:`~lrga.theory.monomials` (proposition 3), :mod:`~lrga.theory.multiset` (the 2-FWL update),
:mod:`~lrga.theory.polynomial` (proposition 5), :mod:`~lrga.theory.alignment` (theorem 1).
"""

from lrga.theory.alignment import align, align_heads, eta_of, head_of, multiply_heads
from lrga.theory.bounds import channels_for, entry_bound, matrix_bound, observed_deviation
from lrga.theory.equivariance import equivariance_gap
from lrga.theory.factorization import (
    NodeFactorization,
    factorize,
    factorizing_layer,
    isomorphism_types,
    random_factorization,
)
from lrga.theory.files import read_graphs
from lrga.theory.inputs import as_graph
from lrga.theory.labelled import LabelledGraph
from lrga.theory.monomials import (
    monomial_complexity,
    power_sum_coefficients,
    sample_complexity,
    vandermonde_norms,
)
from lrga.theory.multiset import fwl_update
from lrga.theory.polynomial import PolynomialFeatures, ProductFeatures, feature_size
from lrga.theory.universality import TriangleDeepSets, count_triangles, triangle_error
from lrga.theory.wl.colouring import Colouring
from lrga.theory.wl.verdicts import (
    TESTS,
    Comparison,
    compare,
    distinguishes,
    refine,
    stable_colouring,
    verdict_matrix,
)
from lrga.theory.zoo import HardGraphs, zoo

__all__ = [
    "TESTS",
    "Colouring",
    "Comparison",
    "HardGraphs",
    "LabelledGraph",
    "NodeFactorization",
    "PolynomialFeatures",
    "ProductFeatures",
    "TriangleDeepSets",
    "align",
    "align_heads",
    "as_graph",
    "channels_for",
    "compare",
    "count_triangles",
    "distinguishes",
    "entry_bound",
    "equivariance_gap",
    "eta_of",
    "factorize",
    "factorizing_layer",
    "feature_size",
    "fwl_update",
    "head_of",
    "isomorphism_types",
    "matrix_bound",
    "monomial_complexity",
    "multiply_heads",
    "observed_deviation",
    "power_sum_coefficients",
    "random_factorization",
    "read_graphs",
    "refine",
    "sample_complexity",
    "stable_colouring",
    "triangle_error",
    "vandermonde_norms",
    "verdict_matrix",
    "zoo",
]
