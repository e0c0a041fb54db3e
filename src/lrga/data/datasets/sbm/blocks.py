"""Random graphs with blocks: the arithmetic behind PATTERN and CLUSTER.

All randomness comes as raw 64-bit words of a counter-seeded stream, one stream for each fixed chunk of graphs, so the
result depends neither on the number of workers nor on the version of numpy.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from lrga.data.datasets.place import BuildPlace
from lrga.data.datasets.spec import Schedule
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.data.packed.segments import narrow, pointer

SMALLEST_BLOCK, LARGEST_BLOCK = 5, 34
GRAPHS_OF_A_CHUNK = 100  # part of the recipe: another value gives other graphs
SCHEDULE = Schedule(
    patience=5,
    variants=tuple(
        ({"budget": "500K", "model": model}, {"batch_size": size})
        for model, size in (("gcn", 64), ("graphsage", 64), ("gatedgcn", 32))
    ),
)


class RandomStream:
    """Raw random words of the stream ``(seed, *key)``.

    Example:
        >>> RandomStream(41, 0).words(4).dtype
        dtype('uint32')
    """

    def __init__(self, seed: int, *key: int) -> None:
        self._bits = np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key))

    def words(self, count: int) -> np.ndarray:
        """[count] uint32, uniform over all of them."""
        raw: np.ndarray = self._bits.random_raw((count + 1) // 2)
        return raw.view(np.uint32)[:count]

    def below(self, limit: int, count: int) -> np.ndarray:
        """[count] integers from 0 to ``limit - 1``, uniform up to 2⁻³²."""
        return ((self.words(count).astype(np.uint64) * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)

    def block_sizes(self, count: int) -> np.ndarray:
        """[count] sizes from 5 to 34, uniform."""
        return SMALLEST_BLOCK + self.below(LARGEST_BLOCK - SMALLEST_BLOCK + 1, count)

    def order(self, count: int) -> np.ndarray:
        """A random order of ``count`` things."""
        raw: np.ndarray = self._bits.random_raw(count)
        return np.argsort(raw, kind="stable")

    def adjacency(self, blocks: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """Edges drawn once for each pair of nodes, [n, n] bool, symmetric, no loops.

        Args:
            blocks: [n] block of each node.
            probability: [B, B] symmetric, of an edge between nodes of two blocks.
        """
        n = len(blocks)
        threshold = np.round(probability * 2.0**32).astype(np.uint32)
        drawn = self.words(n * n).reshape(n, n) < threshold[:, blocks][blocks]
        drawn &= _below_diagonal(n)
        return drawn | drawn.T


class Graph(NamedTuple):
    """One graph: ``adjacency`` [n, n] bool, ``features`` [n] and ``labels`` [n]."""

    adjacency: np.ndarray
    features: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class _Chunk:
    num_nodes: np.ndarray
    source: np.ndarray
    in_degree: np.ndarray
    features: np.ndarray
    labels: np.ndarray


def sample(
    place: BuildPlace, label: str, count: int, *, stream: Callable[[int], RandomStream], graph: Callable[..., Graph]
) -> PackedGraphs:
    """``count`` graphs, drawn chunk by chunk.

    Args:
        place: Gives the number of threads and is told of the progress.
        label: What the progress is called.
        count: Number of graphs.
        stream: Random words of a chunk, by its number.
        graph: Draws the graph of a given number: ``graph(stream, number)``.
    """
    starts = range(0, count, GRAPHS_OF_A_CHUNK)

    def draw(start: int) -> _Chunk:
        words = stream(start // GRAPHS_OF_A_CHUNK)
        return _pack_chunk([graph(words, g) for g in range(start, min(start + GRAPHS_OF_A_CHUNK, count))])

    chunks = []
    with ThreadPoolExecutor(max(place.workers, 1)) as pool:
        for chunk in pool.map(draw, starts):
            chunks.append(chunk)
            place.progress(label, min(len(chunks) * GRAPHS_OF_A_CHUNK, count), count)

    joined = {name: np.concatenate([getattr(c, name) for c in chunks]) for name in _Chunk.__annotations__}
    node_ptr = pointer(torch.from_numpy(joined["num_nodes"]))
    in_ptr = pointer(torch.from_numpy(joined["in_degree"]))
    return PackedGraphs(
        node_ptr=node_ptr,
        edge_ptr=in_ptr[node_ptr],
        source=torch.from_numpy(joined["source"]),
        in_degree=narrow(torch.from_numpy(joined["in_degree"])),
        columns={
            "x": Column("node", torch.from_numpy(joined["features"]), torch.int64),
            "y": Column("node", torch.from_numpy(joined["labels"]), torch.int64),
        },
        y_level="node",
    )


def _pack_chunk(graphs: list[Graph]) -> _Chunk:
    # Row-major order of a symmetric matrix is the order by target, then by source.
    return _Chunk(
        num_nodes=np.array([len(g.labels) for g in graphs]),
        source=np.concatenate([_columns(len(g.labels))[g.adjacency] for g in graphs]),
        in_degree=np.concatenate([g.adjacency.sum(1) for g in graphs]),
        features=np.concatenate([g.features for g in graphs]).astype(np.uint8),
        labels=np.concatenate([g.labels for g in graphs]).astype(np.uint8),
    )


@cache
def _below_diagonal(n: int) -> np.ndarray:
    return np.tri(n, k=-1, dtype=bool)


@cache
def _columns(n: int) -> np.ndarray:
    """[n, n] uint8, every entry its column; graphs have at most 6 x 34 = 204 nodes."""
    return np.tile(np.arange(n, dtype=np.uint8), (n, 1))
