"""CLUSTER: tell the six blocks of a random graph apart from one labelled node in each.

The recipe of Dwivedi et al., "Benchmarking Graph Neural Networks": six blocks of 5 to 34 nodes, edges with probability
.55 inside and .25 between blocks; nodes shuffled; one random node of block b carries the value b + 1, all others 0; the
label of a node is its block. The recipe fixes no seed, so this is a fresh draw of the same distribution, not the
published files.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrga.data.datasets.catalog import dataset_facts
from lrga.data.datasets.place import SPLITS, BuildPlace, check_seed, check_sizes
from lrga.data.datasets.sbm.blocks import Graph, RandomStream, sample
from lrga.data.packed.graphs import PackedGraphs

RECIPE_VERSION = 1
BLOCKS = 6
INSIDE, BETWEEN = 0.55, 0.25

_GRAPH_STREAM = 2


def options(*, seed: int = 41, sizes: Sequence[int] | None = None) -> dict[str, Any]:
    """Checks the options: ``seed`` of the draw, ``sizes`` (train, val, test) in place of 10,000/1,000/1,000."""
    return {"seed": check_seed(seed), "sizes": check_sizes(sizes, dataset_facts("CLUSTER").splits)}


def build(place: BuildPlace, *, seed: int, sizes: list[int]) -> dict[str, PackedGraphs]:
    """Draws the three splits."""

    def split(number: int, count: int) -> PackedGraphs:
        return sample(
            place,
            f"CLUSTER {SPLITS[number]}",
            count,
            stream=lambda chunk: RandomStream(seed, _GRAPH_STREAM, number, chunk),
            graph=lambda stream, _: draw_graph(stream),
        )

    return {SPLITS[number]: split(number, count) for number, count in enumerate(sizes)}


def draw_graph(stream: RandomStream) -> Graph:
    """One random graph."""
    probability = np.full((BLOCKS, BLOCKS), BETWEEN)
    np.fill_diagonal(probability, INSIDE)
    sizes = stream.block_sizes(BLOCKS)
    blocks = np.repeat(np.arange(BLOCKS), sizes)
    features = np.zeros(len(blocks), dtype=np.int64)
    first = np.cumsum(sizes) - sizes
    # One node of each block: a random word times the block's size, as in RandomStream.below.
    chosen = (stream.words(BLOCKS).astype(np.uint64) * sizes.astype(np.uint64)) >> np.uint64(32)
    features[first + chosen.astype(np.int64)] = np.arange(1, BLOCKS + 1)
    order = stream.order(len(blocks))
    return Graph(stream.adjacency(blocks[order], probability), features[order], blocks[order])
