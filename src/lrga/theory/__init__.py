"""The theory of the paper as code, and the Weisfeiler–Lehman tests that it uses.

Isomorphism tests: :func:`distinguishes`, :func:`compare`, :func:`refine`, :func:`stable_colouring` and
:func:`verdict_matrix`. :func:`as_graph` and :func:`read_graphs` read graphs; :func:`zoo` has graphs that are hard to
distinguish.

The paper's statements: :mod:`~lrga.theory.bounds` (propositions 1 and 2), :mod:`~lrga.theory.kernels` (propositions 3
and 5, the 2-FWL update) and :mod:`~lrga.theory.factorization` (section 3, proposition 4, theorem 1);
:mod:`~lrga.theory.statements` measures each of them.
"""

from lrga.theory.bounds import (
    TriangleDeepSets,
    channels_for,
    count_triangles,
    entry_bound,
    equivariance_gap,
    matrix_bound,
    observed_deviation,
    triangle_error,
)
from lrga.theory.factorization import (
    NodeFactorization,
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
from lrga.theory.files import read_graphs
from lrga.theory.kernels import (
    PolynomialFeatures,
    ProductFeatures,
    feature_size,
    fwl_update,
    monomial_complexity,
    power_sum_coefficients,
    sample_complexity,
    vandermonde_norms,
)
from lrga.theory.labelled import LabelledGraph, as_graph
from lrga.theory.wl.joint import Colouring
from lrga.theory.wl.verdicts import TESTS, Comparison, compare, distinguishes, refine, stable_colouring, verdict_matrix
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
