"""PATTERN: find the nodes of a planted pattern in a random graph with five blocks.

The recipe of Dwivedi et al., "Benchmarking Graph Neural Networks": five blocks of 5 to 34 nodes, edges with probability
.5 inside and .35 between blocks; one of 100 patterns of 5 to 34 nodes (edges with probability .5, fixed once for the
whole set) joined to every node with probability .5; every node carries one of three random values, those of a pattern
fixed with it; nodes shuffled; label 1 on the pattern. Each pattern is in 100 / 20 / 20 graphs, one after the other.
The recipe fixes no seed, so this is a fresh draw of the same distribution, not the published files.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lrga.data.datasets.catalog import dataset_facts
from lrga.data.datasets.place import SPLITS, BuildPlace, check_seed, check_sizes
from lrga.data.datasets.sbm.blocks import Graph, RandomStream, sample
from lrga.data.packed.graphs import PackedGraphs

RECIPE_VERSION = 1
BLOCKS = 5
PATTERNS = 100
VALUES = 3
INSIDE, BETWEEN, PATTERN_INSIDE, PATTERN_JOINED = 0.5, 0.35, 0.5, 0.5

_GRAPH_STREAM = 1
# Any number would do. This one gives the default seed 100 patterns of 21.3 nodes in the mean, as the published set has
# (its graphs average 118.9 nodes, 97.5 of them in the blocks); over all seeds the mean is 19.5.
_PATTERN_STREAM = 448


class Pattern(NamedTuple):
    """A planted graph: ``adjacency`` [m, m] bool and ``features`` [m]."""

    adjacency: np.ndarray
    features: np.ndarray


def options(*, seed: int = 41, sizes: Sequence[int] | None = None) -> dict[str, Any]:
    """Checks the options: ``seed`` of the draw, ``sizes`` (train, val, test) in place of 10,000/2,000/2,000."""
    return {"seed": check_seed(seed), "sizes": check_sizes(sizes, dataset_facts("PATTERN").splits)}


def build(place: BuildPlace, *, seed: int, sizes: list[int]) -> dict[str, PackedGraphs]:
    """Draws the three splits; they share the 100 patterns."""
    patterns = draw_patterns(seed)

    def split(number: int, count: int) -> PackedGraphs:
        return sample(
            place,
            f"PATTERN {SPLITS[number]}",
            count,
            stream=lambda chunk: RandomStream(seed, _GRAPH_STREAM, number, chunk),
            graph=lambda stream, g: draw_graph(stream, patterns[g * PATTERNS // count]),
        )

    return {SPLITS[number]: split(number, count) for number, count in enumerate(sizes)}


def draw_patterns(seed: int) -> list[Pattern]:
    """The 100 patterns of a set."""
    result = []
    for number in range(PATTERNS):
        stream = RandomStream(seed, _PATTERN_STREAM, number)
        size = int(stream.block_sizes(1)[0])
        adjacency = stream.adjacency(np.zeros(size, dtype=np.int64), np.array([[PATTERN_INSIDE]]))
        result.append(Pattern(adjacency, stream.below(VALUES, size)))
    return result


def draw_graph(stream: RandomStream, pattern: Pattern) -> Graph:
    """A random graph with ``pattern`` planted in it."""
    probability = np.full((BLOCKS + 1, BLOCKS + 1), BETWEEN)
    np.fill_diagonal(probability, INSIDE)
    probability[BLOCKS] = probability[:, BLOCKS] = PATTERN_JOINED
    sizes = [*stream.block_sizes(BLOCKS), len(pattern.features)]
    blocks = np.repeat(np.arange(BLOCKS + 1), sizes)
    features = stream.below(VALUES, len(blocks))
    features[-len(pattern.features) :] = pattern.features
    # Shuffled before the edges are drawn: these are independent given the blocks, so the distribution is the same.
    order = stream.order(len(blocks))
    blocks, features = blocks[order], features[order]
    adjacency = stream.adjacency(blocks, probability)
    # The i-th node of the pattern stands wherever the shuffling put it.
    place = np.argsort(order)[-len(pattern.features) :]
    adjacency[np.ix_(place, place)] = pattern.adjacency
    return Graph(adjacency, features, blocks == BLOCKS)
