"""What a refinement returns, and when it may stop."""

from dataclasses import dataclass

import numpy as np

from lrga.theory.labelled import Array


@dataclass(frozen=True, eq=False)
class Colouring:
    """Colours of the nodes, pairs or k-tuples of one graph.

    Attributes:
        test: Name of the test that made it.
        colours: ``[N]`` for 1-WL, ``[N, N]`` for 2-WL and 2-FWL, ``[N] * k`` for k-FWL. Names are shared by all graphs
            refined together, and do not depend on the order of the nodes: isomorphic graphs have equal histograms.
        rounds: Rounds that changed the partition of all graphs refined together.
        stable: Whether one more round would change nothing; ``False`` when cut short.
    """

    test: str
    colours: Array
    rounds: int
    stable: bool

    @property
    def histogram(self) -> dict[int, int]:
        """How often each colour occurs."""
        names, counts = np.unique(self.colours, return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    @property
    def num_colours(self) -> int:
        return len(np.unique(self.colours))


@dataclass(frozen=True, eq=False)
class Refinement:
    """Colours of several graphs refined together.

    Attributes:
        colours: Per graph.
        rounds: Rounds that changed the partition.
        stable: Whether the partition is stable.
        apart_after: The round after which the first two graphs had different histograms (0: before the first), or
            ``None``; only known when asked for.
    """

    colours: list[Array]
    rounds: int
    stable: bool
    apart_after: int | None


def histograms_differ(colours: Array, num_colours: int) -> bool:
    """Whether the first two of ``[G, …]`` colours have different histograms."""
    first, second = (np.bincount(c.reshape(-1), minlength=num_colours) for c in colours[:2])
    return not np.array_equal(first, second)
