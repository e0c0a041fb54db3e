"""TSP: which edges of a nearest-neighbour graph belong to the shortest tour?

Every point is joined to its 25 nearest ones; node features are the coordinates, the edge feature is the distance, the
label of an edge is 1 where the tour uses it, in either direction.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lrga.data.datasets import BENCHMARK, FRESH_DRAW, RECIPE
from lrga.data.datasets.place import SPLITS, BuildPlace, check_seed, check_sizes
from lrga.data.datasets.prepared import find_files, missing_files
from lrga.data.datasets.shards import Shard, make_shards
from lrga.data.datasets.spec import DatasetSpec, Inputs, Schedule, TaskSpec
from lrga.data.datasets.tours import ARRAYS, GRID, Tours, join, read_tours
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataMissingError, OptionError

NEIGHBOURS = 25
PART_INSTANCES = 20  # about ten seconds of work
MISSING = ("accept", "generate")


def options(
    *,
    seed: int = 1234,
    sizes: Sequence[int] | None = None,
    nodes: Sequence[int] = (50, 500),
    neighbours: int = NEIGHBOURS,
    missing: str = "accept",
) -> dict[str, Any]:
    """Options of :func:`build`.

    Args:
        seed: Of the random points. Every instance has a seed of its own made from it, so instance i is the same
            whatever the sizes.
        sizes: Numbers of graphs of train, val and test; ``None`` for the benchmark's 10,000, 1,000 and 1,000.
        nodes: Least and greatest number of points of an instance.
        neighbours: Nearest points that every point is joined to.
        missing: What to do where prepared tours are fewer than ``sizes``: ``"accept"`` them and mark the set as
            incomplete, or ``"generate"`` the rest.
    """
    pair = list(nodes) if isinstance(nodes, Sequence) and not isinstance(nodes, str) else []
    if len(pair) != 2 or any(type(n) is not int for n in pair) or not 5 <= pair[0] <= pair[1] <= 30_000:
        raise OptionError("nodes, two numbers 5 <= least <= greatest <= 30,000", repr(nodes), "pass nodes=(50, 500)")
    if type(neighbours) is not int or not 1 <= neighbours < pair[0]:
        expected = f"neighbours, from 1 to {pair[0] - 1} (one less than the smallest instance has points)"
        raise OptionError(expected, repr(neighbours), "ask for fewer neighbours, or for larger instances")
    if missing not in MISSING:
        raise OptionError(f"missing, one of {', '.join(MISSING)}", repr(missing), "choose one of these")
    return {
        "seed": check_seed(seed),
        "sizes": check_sizes(sizes, SPEC.splits),
        "nodes": pair,
        "neighbours": neighbours,
        "missing": missing,
    }


def build(
    place: BuildPlace, *, seed: int, sizes: list[int], nodes: list[int], neighbours: int, missing: str
) -> dict[str, PackedGraphs]:
    """The graphs, from prepared tours where there are some, else with tours found here."""
    wanted = dict(zip(SPLITS, sizes, strict=True))
    prepared = {split: read_tours(path).first(wanted[split]) for split, path in _prepared_files(place).items()}
    have = {split: len(prepared[split].n) if split in prepared else 0 for split in SPLITS}
    lacking = {split: size - have[split] for split, size in wanted.items() if size > have[split]}
    notes: dict[str, dict[str, Any]] = {split: {"origin": "prepared tours"} for split in prepared}
    if prepared and missing == "accept":
        for split, count in lacking.items():
            short = f"{have[split]:,} of {wanted[split]:,} graphs of {split}, as the prepared tours hold no more"
            remedy = "build with --missing generate, in Python missing='generate', to have the rest made"
            notes[split] |= {"incomplete": f"{short} ({remedy})", "missing": count}
        generated: dict[str, Tours] = {}
    else:
        generated = _generate(place, {split: (have[split], wanted[split]) for split in lacking}, seed, nodes)
    result = {}
    for done, split in enumerate(SPLITS):
        place.progress("graphs of TSP", done, len(SPLITS))
        sources = [part[split] for part in (prepared, generated) if split in part]
        made = {"generated": len(generated[split].n), "seed": seed} if split in generated else {}
        result[split] = tour_graphs(join(sources), neighbours=neighbours, meta=notes.get(split, {}) | made)
    return result


def _prepared_files(place: BuildPlace) -> dict[str, Path]:
    names = [f"tsp_{split}.npz" for split in SPLITS]
    found = find_files(place.source or place.raw, names, below=("tsp",))
    if found is not None:
        return dict(zip(SPLITS, found, strict=True))
    if place.source is not None:
        remedy = f"put them into {place.source}, or leave the source out to generate instances here (takes an hour)"
        got = missing_files(place.source, names, below=("tsp",))
        raise DataMissingError(f"{', '.join(names)} in {place.source}", got, remedy)
    return {}


def _generate(place: BuildPlace, ranges: dict[str, tuple[int, int]], seed: int, nodes: list[int]) -> dict[str, Tours]:
    """Instances ``begin`` to ``end - 1`` of each split, drawn and solved."""
    jobs = {
        split: [
            _part(split, first, min(first + PART_INSTANCES, end), seed, nodes)
            for first in range(begin, end, PART_INSTANCES)
        ]
        for split, (begin, end) in ranges.items()
    }
    everything = [part for parts in jobs.values() for part in parts]
    label = "finding the tours of TSP"
    paths = make_shards(everything, place.work, workers=place.workers, progress=place.progress, label=label)
    files = {part.name: path for part, path in zip(everything, paths, strict=True)}
    return {split: join([read_tours(files[part.name]) for part in parts]) for split, parts in jobs.items()}


def _part(split: str, first: int, stop: int, seed: int, nodes: list[int]) -> Shard:
    arguments = {"split": split, "first": first, "stop": stop, "seed": seed, "nodes": nodes}
    return Shard(f"{split}-{first:06d}-{stop:06d}", "tours", arguments, stop - first, ARRAYS)


def tour_graphs(tours: Tours, *, neighbours: int = NEIGHBOURS, meta: dict[str, Any] | None = None) -> PackedGraphs:
    """The nearest-neighbour graphs of ``tours``: x [N, 2], edge_attr [E, 1], y [E] 0 or 1, edges i → its neighbours.

    Example:
        >>> square = Tours(np.array([4]), np.array([[0, 0], [0, 9], [9, 9], [9, 0]], np.uint16), np.arange(4))
        >>> graph = tour_graphs(square, neighbours=3)[0]
        >>> sorted(graph.edge_index[:, graph.y == 1].t().tolist())
        [[0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [2, 3], [3, 0], [3, 2]]
    """
    start = np.concatenate([[0], np.cumsum(tours.n)])
    parts = [_edges(tours.xy[a:b] / GRID, tours.tour[a:b], neighbours) for a, b in pairwise(start)]
    return pack_arrays(
        num_nodes=tours.n,
        num_edges=np.array([len(label) for _, _, label in parts]),
        edge_index=np.concatenate([index for index, _, _ in parts], axis=1),
        x=(tours.xy / GRID).astype(np.float32),
        edge_attr=np.concatenate([distance for _, distance, _ in parts])[:, None],
        y=np.concatenate([label for _, _, label in parts]),
        y_level="edge",
        meta=meta,
    )


def _edges(xy: np.ndarray, tour: np.ndarray, neighbours: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(index [2, E] int16, distance [E] float32, label [E] int64) of one instance."""
    n, k = len(xy), min(neighbours, len(xy) - 1)
    target = _nearest(xy, k).ravel()
    source = np.repeat(np.arange(n), k)
    follows = np.empty(n, np.int64)
    follows[tour] = np.roll(tour, -1)
    label = (follows[source] == target) | (follows[target] == source)
    distance = np.linalg.norm(xy[source] - xy[target], axis=1)
    return np.stack([source, target]).astype(np.int16), distance.astype(np.float32), label.astype(np.int64)


def _nearest(xy: np.ndarray, k: int) -> np.ndarray:
    """[n, k] the nearest other points of each."""
    from scipy.spatial import cKDTree  # slow to import

    _, found = cKDTree(xy).query(xy, k=k + 1)
    # The point itself is among them at distance 0, though not always first: two points may coincide. In the rare case
    # that so many coincide that it is not, the last one goes.
    own = found == np.arange(len(xy))[:, None]
    own[~own.any(axis=1), -1] = True
    return found[~own].reshape(len(xy), k)


SPEC = DatasetSpec(
    name="TSP",
    inputs=Inputs("edge", 2, "linear", 2),
    task=TaskSpec("classification", "cross_entropy", "f1_positive_by_batch"),
    splits={"train": 10_000, "val": 1_000, "test": 1_000},
    mean_nodes=275.4,
    mean_edges=6_885.0,
    node_features="coordinates in the unit square, 2 numbers",
    edge_features="distance of the two points, 1 number",
    obtained="generated",
    origin=f"generated here by the recipe of {RECIPE}: random points, 25 nearest neighbours, tours by LKH",
    licence="MIT",
    terms="generated by this library, under its licence; the recipe's code is MIT too",
    citation=(
        BENCHMARK,
        "Helsgaun: An Effective Implementation of the Lin-Kernighan Traveling Salesman Heuristic. "
        "European Journal of Operational Research 126(1), 2000",
    ),
    options=options,
    build=build,
    schedule=Schedule(batch_size=64, max_epochs=500),
    note=FRESH_DRAW + " Tours are LKH's, at most a fraction of a percent from optimal; the benchmark used Concorde.",
)
