"""PATTERN and CLUSTER: random graphs with blocks, by the recipes of "Benchmarking Graph Neural Networks".

PATTERN: find the nodes of a planted pattern. Five blocks of 5 to 34 nodes; edges with probability .5 inside and .35
between blocks. One of 100 patterns of 5 to 34 nodes (edges with probability .5, fixed for the whole set) is joined to
every node with probability .5. Every node has one of three random values; those of a pattern are fixed too. Nodes are
shuffled; nodes of the pattern have label 1. Each pattern is in 100 / 20 / 20 consecutive graphs.

CLUSTER: find the block of every node, given one labelled node in each. Six blocks of 5 to 34 nodes; edges with
probability .55 inside and .25 between blocks; nodes are shuffled. One random node of block b has the value b + 1, all
others 0. The label of a node is its block.

The recipes fix no seed, so these are new samples from the same distributions, not the published files. All randomness
comes from raw 64-bit words of seeded streams, one for each fixed chunk of graphs, so the result does not depend on the
version of numpy.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from lrga.data.datasets import BENCHMARK, FRESH_DRAW, RECIPE
from lrga.data.datasets.source import BuildContext
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.data.packed.segments import narrow, pointer

MIN_BLOCK, MAX_BLOCK = 5, 34
GRAPHS_OF_A_CHUNK = 100  # part of the recipe: another value gives different graphs
PATTERNS = 100
PATTERN_BLOCKS, PATTERN_VALUES = 5, 3
CLUSTER_BLOCKS = 6
# The values are arbitrary. With the last, the 100 patterns of the default seed have 21.3 nodes on average, as in the
# published set (its graphs average 118.9 nodes, 97.5 of them in the blocks); over all seeds the mean is 19.5.
_PATTERN_GRAPHS, _CLUSTER_GRAPHS, _PATTERN_STREAM = 1, 2, 448


class RandomStream:
    """Raw random words of the stream ``(seed, *key)``.

    Example:
        >>> RandomStream(41, 0).words(4).dtype
        dtype('uint32')
    """

    def __init__(self, seed: int, *key: int) -> None:
        self._bits = np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key))

    def words(self, count: int) -> np.ndarray:
        """[count] uniform uint32."""
        raw: np.ndarray = self._bits.random_raw((count + 1) // 2)
        return raw.view(np.uint32)[:count]

    def below(self, limit: int, count: int) -> np.ndarray:
        """[count] integers from 0 to ``limit - 1``, uniform up to an error of 2⁻³²."""
        return ((self.words(count).astype(np.uint64) * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)

    def block_sizes(self, count: int) -> np.ndarray:
        """[count] uniform sizes from 5 to 34."""
        return MIN_BLOCK + self.below(MAX_BLOCK - MIN_BLOCK + 1, count)

    def order(self, count: int) -> np.ndarray:
        """A random permutation of ``count`` items."""
        raw: np.ndarray = self._bits.random_raw(count)
        return np.argsort(raw, kind="stable")

    def adjacency(self, blocks: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """Draws a symmetric adjacency matrix [n, n] bool without loops, given each node's block [n].

        ``probability`` [B, B], symmetric: the probability of an edge between nodes of two blocks.
        """
        n = len(blocks)
        threshold = np.round(probability * 2.0**32).astype(np.uint32)
        drawn = self.words(n * n).reshape(n, n) < threshold[:, blocks][blocks]
        drawn &= np.tri(n, k=-1, dtype=bool)
        return drawn | drawn.T


class Graph(NamedTuple):
    """One graph: ``adjacency`` [n, n] bool, ``features`` [n] and ``labels`` [n]."""

    adjacency: np.ndarray
    features: np.ndarray
    labels: np.ndarray


def build(name: str, context: BuildContext, *, seed: int, sizes: list[int]) -> dict[str, PackedGraphs]:
    """The three splits of PATTERN (which share the 100 patterns) or CLUSTER."""
    patterns = draw_patterns(seed) if name == "PATTERN" else []
    key = _PATTERN_GRAPHS if patterns else _CLUSTER_GRAPHS
    splits = {}
    for split, count in zip(SPLITS, sizes, strict=True):
        parts = []
        for number in range(count):
            chunk, place = divmod(number, GRAPHS_OF_A_CHUNK)
            if place == 0:
                words = RandomStream(seed, key, SPLITS.index(split), chunk)
            pattern = patterns[number * PATTERNS // count] if patterns else None
            graph = draw_cluster_graph(words) if pattern is None else draw_pattern_graph(words, pattern)
            parts.append(_flat(graph))
            if place == GRAPHS_OF_A_CHUNK - 1 or number == count - 1:
                context.progress(f"{name} {split}", number + 1, count)
        num_nodes, source, in_degree, x, y = map(torch.from_numpy, map(np.concatenate, zip(*parts, strict=True)))
        node_ptr = pointer(num_nodes)
        splits[split] = PackedGraphs(
            node_ptr=node_ptr,
            edge_ptr=pointer(in_degree)[node_ptr],
            source=source,
            in_degree=narrow(in_degree),
            columns={"x": Column("node", x, torch.int64), "y": Column("node", y, torch.int64)},
            y_level="node",
        )
    return splits


def draw_patterns(seed: int) -> list[Graph]:
    """The 100 patterns of a set: graphs to plant, with label 1 on all nodes."""
    result = []
    for number in range(PATTERNS):
        stream = RandomStream(seed, _PATTERN_STREAM, number)
        size = int(stream.block_sizes(1)[0])
        adjacency = stream.adjacency(np.zeros(size, dtype=np.int64), np.array([[0.5]]))
        result.append(Graph(adjacency, stream.below(PATTERN_VALUES, size), np.ones(size, dtype=bool)))
    return result


def draw_pattern_graph(stream: RandomStream, pattern: Graph) -> Graph:
    """A random graph with ``pattern`` planted in it."""
    probability = np.full((PATTERN_BLOCKS + 1, PATTERN_BLOCKS + 1), 0.35)
    np.fill_diagonal(probability, 0.5)
    probability[PATTERN_BLOCKS] = probability[:, PATTERN_BLOCKS] = 0.5
    sizes = [*stream.block_sizes(PATTERN_BLOCKS), len(pattern.features)]
    blocks = np.repeat(np.arange(PATTERN_BLOCKS + 1), sizes)
    features = stream.below(PATTERN_VALUES, len(blocks))
    features[-len(pattern.features) :] = pattern.features
    # Shuffled before the edges are drawn: edges are independent given the blocks, so the distribution is the same.
    order = stream.order(len(blocks))
    blocks, features = blocks[order], features[order]
    adjacency = stream.adjacency(blocks, probability)
    # Positions of the pattern's nodes after shuffling.
    place = np.argsort(order)[-len(pattern.features) :]
    adjacency[np.ix_(place, place)] = pattern.adjacency
    return Graph(adjacency, features, blocks == PATTERN_BLOCKS)


def draw_cluster_graph(stream: RandomStream) -> Graph:
    """One random graph."""
    probability = np.full((CLUSTER_BLOCKS, CLUSTER_BLOCKS), 0.25)
    np.fill_diagonal(probability, 0.55)
    sizes = stream.block_sizes(CLUSTER_BLOCKS)
    blocks = np.repeat(np.arange(CLUSTER_BLOCKS), sizes)
    features = np.zeros(len(blocks), dtype=np.int64)
    first = np.cumsum(sizes) - sizes
    # One node of each block: a random word times the block's size, as in RandomStream.below.
    chosen = (stream.words(CLUSTER_BLOCKS).astype(np.uint64) * sizes.astype(np.uint64)) >> np.uint64(32)
    features[first + chosen.astype(np.int64)] = np.arange(1, CLUSTER_BLOCKS + 1)
    order = stream.order(len(blocks))
    return Graph(stream.adjacency(blocks[order], probability), features[order], blocks[order])


def _flat(graph: Graph) -> tuple[np.ndarray, ...]:
    """Number of nodes; source of each edge; edges, feature and label of each node."""
    # Row-major order of a symmetric matrix is the order by target, then by source; there are at most 204 nodes.
    sources = graph.adjacency.nonzero()[1].astype(np.uint8)
    degree = graph.adjacency.sum(1)
    return np.array([len(degree)]), sources, degree, graph.features.astype(np.uint8), graph.labels.astype(np.uint8)


def _spec(
    name: str,
    inputs: Inputs,
    sizes: tuple[int, int, int],
    means: tuple[float, float],
    node_features: str,
    what: str,
) -> DatasetSpec:
    batch_sizes = (("gcn", 64), ("graphsage", 64), ("gatedgcn", 32))
    variants = [({"budget": "500K", "model": model}, {"batch_size": size}) for model, size in batch_sizes]
    return DatasetSpec(
        name=name,
        inputs=inputs,
        task=TaskSpec("classification", "weighted_cross_entropy", "weighted_accuracy_by_batch"),
        splits=dict(zip(SPLITS, sizes, strict=True)),
        mean_nodes=means[0],
        mean_edges=means[1],
        node_features=node_features,
        obtained="generated",
        origin=f"generated with the recipe of {RECIPE}: stochastic block models {what}",
        licence="MIT",
        terms="generated by this library, under its licence; the recipe's code is MIT too",
        citation=(BENCHMARK,),
        build=partial(build, name),
        reads_source=False,
        schedule=Schedule(patience=5, variants=tuple(variants)),
        note=FRESH_DRAW,
    )


PATTERN = _spec(
    "PATTERN",
    Inputs("node", 2, "embedding", 3),
    (10_000, 2_000, 2_000),
    (118.9, 6_079.0),
    "random category, one of 3",
    "with one of 100 patterns planted",
)
CLUSTER = _spec(
    "CLUSTER",
    Inputs("node", 6, "embedding", 7),
    (10_000, 1_000, 1_000),
    (117.2, 4_303.0),
    "community number (1 to 6) at one node of each community, 0 elsewhere",
    "of 6 blocks",
)
SPECS = (PATTERN, CLUSTER)
