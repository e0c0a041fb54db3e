"""A tour of the paper's statements: each is measured, and the figure stands beside it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch


@dataclass(frozen=True)
class Series:
    """Curves for one plot.

    Attributes:
        x_label, y_label: What the axes show.
        x: Positions.
        curves: Name → values at these positions; NaN where there is none.
        logarithmic: Which axes are, of "x" and "y".
        reference: Exponent of a line drawn beside the first curve, from its first point on.
    """

    x_label: str
    y_label: str
    x: Sequence[float]
    curves: Mapping[str, Sequence[float]]
    logarithmic: str = "xy"
    reference: float | None = None


@dataclass(frozen=True)
class Measurement:
    """What was measured for a statement.

    Attributes:
        figure: The measured figure in words, one line.
        holds: Whether it is within the stated tolerance.
        values: The numbers, for machines.
        series: A plot, where there is something to see.
    """

    figure: str
    holds: bool
    values: Mapping[str, float]
    series: Series | None = None


@dataclass(frozen=True)
class Statement:
    """One statement of the paper.

    Attributes:
        key: Short name, also that of its plot.
        place: Where the paper has it.
        claim: What it says, in one line, with the tolerance it is held to.
        measure: Measures it.
    """

    key: str
    place: str
    claim: str
    measure: Callable[[], Measurement]


@dataclass(frozen=True)
class Stop:
    """A statement with its measurement and the seconds that took."""

    statement: Statement
    measurement: Measurement
    seconds: float = field(compare=False)


def run_tour(statements: Sequence[Statement], *, on_start: Callable[[Statement], None] | None = None) -> list[Stop]:
    """Measures the statements in order; ``on_start`` hears of each before it begins."""
    stops = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the matrices are small: threads would only wait for each other
    try:
        for statement in statements:
            if on_start is not None:
                on_start(statement)
            began = time.perf_counter()
            measurement = statement.measure()
            stops.append(Stop(statement, measurement, time.perf_counter() - began))
    finally:
        torch.set_num_threads(threads)
    return stops


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Exponent p of the best fit y ≈ c x^p.

    Example:
        >>> round(slope([1, 10, 100], [2, 0.2, 0.02]), 6)
        -1.0
    """
    return float(np.polyfit(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)), 1)[0])
