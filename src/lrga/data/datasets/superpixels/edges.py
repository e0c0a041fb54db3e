"""Edges between superpixels by the benchmark's rule, many graphs at a time.

With D the distances between the positions of the n superpixels of an image:

    s_i  = (sum of the 9 smallest D_ij, i itself included) / 8 + 1e-8
    A_ij = (exp(-(D_ij / s_i)^2) + exp(-(D_ij / s_j)^2)) / 2,  A_ii = 0

Node i is joined to 8 of the 9 nodes with the largest A_ij: ``np.argpartition`` puts those 9 last, in no particular
order, and whichever stands at the very end is left out. That is the benchmark's published rule, kept to the letter;
which of the nine it leaves out is numpy's choice, the same in every run with the same numpy on the same kind of CPU.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from lrga.io.progress import Progress, silent

NEIGHBOURS = 8
_CHUNK_ENTRIES = 1 << 17  # of A at once: a megabyte an array stays in the cache


@dataclass(frozen=True)
class SuperpixelEdges:
    """Edges of all graphs, one after the other.

    ``count`` [G] edges of each; ``index`` [2, E] int16, counted inside the graph, ordered by source; ``weight`` [E]
    float32, A of the two ends.
    """

    count: np.ndarray
    index: np.ndarray
    weight: np.ndarray


def superpixel_edges(
    count: np.ndarray,
    position: np.ndarray,
    *,
    workers: int = 1,
    progress: Progress = silent,
    label: str = "edges between superpixels",
) -> SuperpixelEdges:
    """Joins every superpixel to 8 of its nearest ones; the result does not depend on the number of threads.

    Args:
        count: [G] superpixels of each graph.
        position: [N, 2] their mean positions, all graphs one after the other, float64.
        workers: Threads.
        progress: Is told of the graphs done, as work called ``label``.

    Example:
        >>> line = np.stack([np.arange(12.0), np.zeros(12)], axis=1)
        >>> edges = superpixel_edges(np.array([12]), line)
        >>> edges.count.tolist(), edges.index.shape, edges.weight.dtype
        ([96], (2, 96), dtype('float32'))
    """
    count = count.astype(np.int64)
    degree = np.where(count > NEIGHBOURS + 1, NEIGHBOURS, count - 1)
    edges_of = count * degree
    node_start = np.concatenate([[0], np.cumsum(count)])
    edge_start = np.concatenate([[0], np.cumsum(edges_of)])
    index = np.empty((2, int(edge_start[-1])), np.int16)
    weight = np.empty(int(edge_start[-1]), np.float32)

    def work(graphs: np.ndarray) -> int:
        n, k = int(count[graphs[0]]), int(degree[graphs[0]])
        nodes = node_start[graphs][:, None] + np.arange(n)
        target, value = _neighbours(position[nodes])
        places = edge_start[graphs][:, None] + np.arange(n * k)
        index[0, places] = np.repeat(np.arange(n), k)
        index[1, places] = target.reshape(len(graphs), -1)
        weight[places] = value.reshape(len(graphs), -1)
        return len(graphs)

    done = 0
    with ThreadPoolExecutor(max_workers=workers) as pool:  # numpy lets go of the interpreter in all that takes long
        for finished in pool.map(work, _groups(count)):
            done += finished
            progress(label, done, len(count))
    return SuperpixelEdges(edges_of, index, weight)


def _groups(count: np.ndarray) -> Iterator[np.ndarray]:
    """Graphs of equal size, so that a group is one array without padding."""
    order = np.argsort(count, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(count[order])) + 1):
        if same.size:
            size = max(1, _CHUNK_ENTRIES // int(count[same[0]]) ** 2)
            yield from (same[i : i + size] for i in range(0, len(same), size))


def _neighbours(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(neighbours, A of them) [B, n, k] of B graphs of n nodes at ``position`` [B, n, 2]."""
    n = position.shape[1]
    difference = position[:, :, None, :] - position[:, None, :, :]
    distance = np.sqrt(difference[..., 0] ** 2 + difference[..., 1] ** 2)
    if n > NEIGHBOURS:
        nearest = np.partition(distance, NEIGHBOURS, axis=-1)[..., : NEIGHBOURS + 1]
        scale = nearest.sum(axis=-1, keepdims=True) / NEIGHBOURS + 1e-8
    else:  # the benchmark's stand-in for images of so few superpixels
        scale = np.ones((len(position), n, 1)) + 1e-8
    closeness = np.exp(-((distance / scale) ** 2))
    closeness = 0.5 * (closeness + closeness.swapaxes(1, 2))
    diagonal = np.arange(n)
    closeness[:, diagonal, diagonal] = 0
    if n > NEIGHBOURS + 1:
        chosen = np.argpartition(closeness, n - NEIGHBOURS - 2, axis=-1)[..., n - NEIGHBOURS - 1 : -1]
    else:  # all others
        others = np.array([[j for j in range(n) if j != i] for i in range(n)], np.int64).reshape(n, n - 1)
        chosen = np.broadcast_to(others, (len(position), n, n - 1))
    return chosen, np.take_along_axis(closeness, chosen, axis=-1)
