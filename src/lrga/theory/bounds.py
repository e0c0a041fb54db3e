"""Proposition 1, its appendix: how many random features make (1/d) R Rᵀ ≈ I, by Hoeffding's inequality.

R is ``[n, d]`` with independent entries of mean 0 and variance 1, bounded by M/2 in absolute value. The paper bounds

    P(|(1/d) Σ_l R_il R_jl − I_ij| ≥ t) ≤ 2 exp(−2 d t² / M⁴)

and, over all entries, by n² times as much. A product of two entries lies in [−M²/4, M²/4], an interval of length M²/2,
not M²: Hoeffding gives the exponent −8 d t² / M⁴ even. The paper's bound is right but loose by this factor of four;
functions here return the paper's form, and with ``sharp=True`` the one that the argument yields (which also counts
(i, j) and (j, i) once, and takes ‖·‖_F ≤ n max|·| where the paper has n²).
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from lrga.errors import OptionError
from lrga.nn.random_features import DISTRIBUTIONS

# Twice the largest absolute value at variance 1.
RANGES = {"rademacher": 2.0, "uniform": 2 * math.sqrt(3)}
_CHUNK = 2**24  # random numbers drawn at once


def entry_bound(channels: int, deviation: float, width: float, *, sharp: bool = False) -> float:
    """Bound on the chance that one entry of (1/d) R Rᵀ is off by ``deviation`` or more.

    Args:
        channels: d.
        deviation: t.
        width: M, twice the largest absolute value of an entry of R.
        sharp: The exponent that Hoeffding's inequality gives, instead of the paper's.
    """
    _check_positive(channels=channels, deviation=deviation)
    _check_width(width)
    factor = 8 if sharp else 2
    return 2 * math.exp(-factor * channels * deviation**2 / width**4)


def matrix_bound(num_nodes: int, channels: int, deviation: float, width: float, *, sharp: bool = False) -> float:
    """Bound on the chance that any entry is off by ``deviation`` or more: the union over all entries.

    Example:
        >>> round(matrix_bound(6, 200, 0.5, width=2.0), 3), matrix_bound(6, 200, 0.5, width=2.0, sharp=True) < 1e-9
        (0.139, True)
    """
    _check_positive(num_nodes=num_nodes)
    entries = num_nodes * (num_nodes + 1) / 2 if sharp else num_nodes**2
    return entries * entry_bound(channels, deviation, width, sharp=sharp)


def channels_for(
    num_nodes: int,
    xi: float,
    delta: float,
    width: float,
    *,
    adjacency_norm: float | None = None,
    sharp: bool = False,
) -> int:
    """The d for which ‖(1/d) A R Rᵀ − A‖_F < ξ with probability 1 − δ.

    The paper sets t = ξ / (n² ‖A‖_F) and requires 2 n² exp(−2 d t² / M⁴) < δ, so
    d = (M⁴ / 2) n⁴ ‖A‖_F² / ξ² · log(2 n² / δ), where ‖A‖_F ≤ n.

    Args:
        num_nodes: n.
        xi: ξ, how near the matrix has to come.
        delta: δ, the chance of failure.
        width: M.
        adjacency_norm: ‖A‖_F; n by default.
        sharp: t = ξ / (n ‖A‖_F) and the sharp bound instead: n² times fewer, and fewer still.

    Example:
        >>> channels_for(4, 1.0, 0.1, width=2.0), channels_for(4, 1.0, 0.1, width=2.0, sharp=True)
        (189017, 2713)
    """
    _check_positive(num_nodes=num_nodes, xi=xi, delta=delta)
    _check_width(width)
    norm = float(num_nodes) if adjacency_norm is None else adjacency_norm
    _check_positive(adjacency_norm=norm)
    if sharp:
        deviation = xi / (num_nodes * norm)
        return math.ceil(width**4 / (8 * deviation**2) * math.log(num_nodes * (num_nodes + 1) / delta))
    deviation = xi / (num_nodes**2 * norm)
    return math.ceil(width**4 / (2 * deviation**2) * math.log(2 * num_nodes**2 / delta))


def observed_deviation(
    num_nodes: int,
    channels: int,
    deviation: float,
    *,
    distribution: str = "rademacher",
    trials: int = 10_000,
    generator: torch.Generator | None = None,
) -> tuple[float, float]:
    """How often (1/d) R Rᵀ was off by ``deviation`` or more, over many draws of R.

    Returns:
        The share for the entry (0, 1), and for any entry at all.
    """
    _check_positive(channels=channels, deviation=deviation, trials=trials)
    if num_nodes < 2:
        raise OptionError("two nodes or more", str(num_nodes), "one node has no entry off the diagonal")
    if distribution not in RANGES:
        raise OptionError(f"a bounded distribution: {', '.join(RANGES)}", repr(distribution), "choose one of them")
    one_entry = any_entry = 0
    for drawn in _draws(num_nodes, channels, distribution, trials, generator):
        off = (drawn @ drawn.transpose(1, 2) - torch.eye(num_nodes)).abs() >= deviation
        one_entry += int(off[:, 0, 1].sum())
        any_entry += int(off.flatten(1).any(dim=1).sum())
    return one_entry / trials, any_entry / trials


def _draws(
    num_nodes: int, channels: int, distribution: str, trials: int, generator: torch.Generator | None
) -> Iterator[Tensor]:
    """Draws of R / √d, ``[trials, n, d]`` in parts."""
    step = max(_CHUNK // (num_nodes * channels), 1)
    for start in range(0, trials, step):
        count = min(step, trials - start)
        yield DISTRIBUTIONS[distribution](count * num_nodes, channels, generator=generator).view(
            count, num_nodes, channels
        )


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise OptionError(f"{name} above 0", repr(value), "pass a positive number")


def _check_width(width: float) -> None:
    # |x| < M/2 and E x² = 1 leave no room below 2.
    if not isinstance(width, int | float) or not width >= 2:
        raise OptionError(
            "width M of 2 or more (entries of variance 1 reach at least ±1)", repr(width), "±1 has 2, uniform has 3.47"
        )
