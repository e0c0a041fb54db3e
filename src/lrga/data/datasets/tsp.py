"""TSP: find the edges of a nearest-neighbour graph that belong to the shortest tour.

Every point is joined to its 25 nearest neighbours. Node features are the coordinates, the edge feature is the distance;
the label of an edge is 1 if the tour uses it, in either direction.

Instances and tours are read from the benchmark's text files ``tsp50-500_{train,val,test}.txt`` (one instance per line:
coordinates, ``output``, the tour with nodes numbered from 1), or from prepared files ``tsp_{train,val,test}.npz``.

Instances are first packed as graphs without edges, with the attributes ``xy`` (in the unit square) and ``tour``: the
nodes in the order of the tour, numbered inside the instance.

Letters: G instances, N nodes of all instances.
"""

from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from lrga.data.datasets import BENCHMARK, FRESH_DRAW, RECIPE
from lrga.data.datasets.source import BuildContext, demand, read_arrays
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.io.download import RemoteFile
from lrga.io.limits import reading

NEIGHBOURS = 25
GRID = 65_536  # in prepared files coordinates are multiples of 1 / GRID, exact in 16 bits and in float32
PREPARED_NOTE = (
    FRESH_DRAW + " Tours are LKH's, at most a fraction of a percent from optimal; the benchmark used Concorde."
)


def build(context: BuildContext, *, sizes: list[int]) -> dict[str, PackedGraphs]:
    """Builds the graphs from the tours in the user's folder, else from the benchmark's archive."""
    texts, prepared = [f"tsp50-500_{split}.txt" for split in SPLITS], [f"tsp_{split}.npz" for split in SPLITS]
    paths, form = context.locate(SPEC.files, prepared, texts, below=("TSP", "tsp"))
    result = {}
    for done, (split, size, path) in enumerate(zip(SPLITS, sizes, paths, strict=True)):
        context.progress("graphs of TSP", done, len(SPLITS))
        tours = (read_text(path, size) if form else read_prepared(path))[:size]
        demand(len(tours) == size, path, f"{size:,} instances of {split}", f"{len(tours):,}")
        result[split] = tour_graphs(tours, meta={} if form else {"note": PREPARED_NOTE})
    return result


def read_text(path: Path, limit: int) -> PackedGraphs:
    """Reads at most ``limit`` instances of one of the benchmark's text files and checks every tour."""
    points, tours = [], []
    what = "coordinates, 'output' and the nodes of a tour on each line of"
    with reading(path, what, remedy="download the file again"), open(path, encoding="ascii") as file:
        for text in islice(file, limit):
            before, _, after = text.partition("output")
            points.append(np.array(before.split(), np.float64).reshape(-1, 2))
            tours.append(np.array(after.split(), np.int64)[:-1] - 1)  # the last node is the first again
    n = np.array([len(xy) for xy in points], np.int64)
    return _packed(path, n, np.concatenate([np.empty((0, 2)), *points]), np.concatenate([n[:0], *tours]))


def read_prepared(path: Path) -> PackedGraphs:
    """Reads and checks a prepared ``tsp_{train,val,test}.npz``: n [G], xy [N, 2] times 65,536, tour [N]."""
    arrays = read_arrays(path, ("n", "xy", "tour"))
    demand(arrays["xy"].dtype == np.uint16, path, "xy of uint16", arrays["xy"].dtype)
    return _packed(path, arrays["n"].astype(np.int64), arrays["xy"] / GRID, arrays["tour"].astype(np.int64))


def _packed(path: Path, n: np.ndarray, xy: np.ndarray, tour: np.ndarray) -> PackedGraphs:
    fits = n.ndim == 1 and len(n) and (n >= 3).all() and xy.shape == (n.sum(), 2) and tour.shape == (n.sum(),)
    got = f"n {list(n.shape)}, xy {list(xy.shape)}, tour {list(tour.shape)}"
    demand(fits and np.isfinite(xy).all(), path, "instances of n [G] points xy [N, 2] with tour [N]", got)
    # Each tour visits each node once: with the offsets of the instances added, all tours together are a permutation.
    instance = np.repeat(np.arange(len(n)), n)
    shifted = np.where((tour >= 0) & (tour < n[instance]), tour + (np.cumsum(n) - n)[instance], -1)
    missed = np.ones(len(tour) + 1, bool)  # the last entry collects invalid nodes
    missed[shifted] = False
    bad = "" if not missed[:-1].any() else f"a tour that does not in instance {instance[np.argmax(missed[:-1])]}"
    demand(not bad, path, "tours that visit every node once", bad)
    return pack_arrays(num_nodes=n, node={"xy": xy, "tour": tour})


def tour_graphs(
    tours: PackedGraphs, *, neighbours: int = NEIGHBOURS, meta: dict[str, Any] | None = None
) -> PackedGraphs:
    """The nearest-neighbour graphs of ``tours``: x [N, 2], edge_attr [E, 1], y [E] 0 or 1, edges i → its neighbours.

    Example:
        >>> xy = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
        >>> square = pack_arrays(num_nodes=np.array([4]), node={"xy": xy, "tour": np.arange(4)})
        >>> graph = tour_graphs(square, neighbours=3)[0]
        >>> sorted(graph.edge_index[:, graph.y == 1].t().tolist())
        [[0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [2, 3], [3, 0], [3, 2]]
    """
    xy, tour = (tours.columns[name].values.numpy() for name in ("xy", "tour"))
    parts = [_edges(xy[a:b], tour[a:b], neighbours) for a, b in pairwise(tours.node_ptr.tolist())]
    return pack_arrays(
        num_nodes=tours.nodes_per_graph,
        num_edges=np.array([len(label) for _, _, label in parts]),
        edge_index=np.concatenate([index for index, _, _ in parts], axis=1),
        x=xy.astype(np.float32),
        edge_attr=np.concatenate([distance for _, distance, _ in parts])[:, None],
        y=np.concatenate([label for _, _, label in parts]),
        y_level="edge",
        meta=meta,
    )


def _edges(xy: np.ndarray, tour: np.ndarray, neighbours: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(index [2, E] int16, distance [E] float32, label [E] int64) of one instance."""
    n, k = len(xy), min(neighbours, len(xy) - 1)
    _, found = cKDTree(xy).query(xy, k=k + 1)
    # The point itself is usually among them, at distance 0, but not always first, because points may coincide. If so
    # many coincide that it is not among them, the last one is dropped.
    own = found == np.arange(n)[:, None]
    own[~own.any(axis=1), -1] = True
    target = found[~own]
    source = np.repeat(np.arange(n), k)
    follows = np.empty(n, np.int64)
    follows[tour] = np.roll(tour, -1)
    label = (follows[source] == target) | (follows[target] == source)
    distance = np.linalg.norm(xy[source] - xy[target], axis=1)
    return np.stack([source, target]).astype(np.int16), distance.astype(np.float32), label.astype(np.int64)


SPEC = DatasetSpec(
    name="TSP",
    inputs=Inputs("edge", 2, "linear", 2),
    task=TaskSpec("classification", "cross_entropy", "f1_positive_by_batch"),
    splits={"train": 10_000, "val": 1_000, "test": 1_000},
    mean_nodes=275.4,
    mean_edges=6_885.0,
    node_features="coordinates in the unit square, 2 numbers",
    edge_features="distance of the two points, 1 number",
    origin=f"the instances of {RECIPE}: random points and their shortest tours; joined here to 25 nearest neighbours",
    licence="MIT",
    terms="MIT, as the benchmark's repository states",
    citation=(BENCHMARK,),
    build=build,
    files=(RemoteFile("https://www.dropbox.com/s/1wf6zn5nq7qjg0e/TSP.zip?dl=1", "TSP.zip"),),
    schedule=Schedule(batch_size=64, max_epochs=500),
)
