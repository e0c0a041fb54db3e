"""TSP: which edges of a nearest-neighbour graph belong to the shortest tour?

Every point is joined to its 25 nearest ones; node features are the coordinates, the edge feature is the distance, the
label of an edge is 1 where the tour uses it, in either direction.

Points are uniform in the unit square; a tour is short in the integer distances that TSPLIB calls GEO, taken of the raw
coordinates, as in the benchmark's own generator (so not in Euclidean distances). The benchmark solved with Concorde;
here LKH does (package ``elkai``): optimal or within a fraction of a percent of it.

Letters: G instances, N nodes of all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lrga.data.datasets import BENCHMARK, FRESH_DRAW, RECIPE
from lrga.data.datasets.shards import Shard, make_shards
from lrga.data.datasets.source import BuildContext, check_seed, check_sizes, find_files, read_arrays
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec
from lrga.errors import DataError, MissingDependencyError, OptionError

if TYPE_CHECKING:
    from lrga.data.packed.graphs import PackedGraphs

NEIGHBOURS = 25
SHARD_INSTANCES = 20  # about ten seconds of work
MISSING = ("accept", "generate")
ARRAYS = ("n", "xy", "tour")
GRID = 65_536  # coordinates are multiples of 1 / GRID: exact in 16 bits, in float32 and in float64
SPLIT_NUMBER = {"test": 0, "val": 1, "train": 2}  # part of every instance's seed


@dataclass(frozen=True)
class Tours:
    """Instances one after the other.

    Attributes:
        n: [G] nodes of each.
        xy: [N, 2] coordinates times :data:`GRID`.
        tour: [N] the nodes of each instance in the order of its tour, counted inside the instance; the last returns to
            the first.
    """

    n: np.ndarray
    xy: np.ndarray
    tour: np.ndarray

    def first(self, instances: int) -> "Tours":
        """The first ``instances``."""
        rows = int(self.n[:instances].sum())
        return Tours(self.n[:instances], self.xy[:rows], self.tour[:rows])


def draw_instance(seed: int, split: str, number: int, nodes: tuple[int, int]) -> np.ndarray:
    """Coordinates [n, 2] times :data:`GRID` of one instance, a function of the arguments alone.

    Example:
        >>> draw_instance(1234, "test", 0, (50, 500)).shape
        (491, 2)
    """
    generator = np.random.default_rng([seed, SPLIT_NUMBER[split], number])
    n = int(generator.integers(nodes[0], nodes[1] + 1))
    return generator.integers(0, GRID, (n, 2), dtype=np.uint16)


def geo_distances(xy: np.ndarray) -> np.ndarray:
    """[n, n] integer distances of type GEO of TSPLIB 95, section 2.4, between points (latitude, longitude) ``xy``.

    A coordinate 12.34 means 12 degrees and 34 minutes. The constants, rounded π included, are TSPLIB's.

    Example:
        >>> geo_distances(np.array([[16.47, 96.10], [16.47, 94.44]])).tolist()  # cities 1 and 2 of burma14
        [[0, 153], [153, 0]]
    """
    degrees = np.trunc(xy)
    latitude, longitude = (3.141592 * (degrees + 5.0 * (xy - degrees) / 3.0) / 180.0).T
    q1 = np.cos(longitude[:, None] - longitude[None, :])
    q2 = np.cos(latitude[:, None] - latitude[None, :])
    q3 = np.cos(latitude[:, None] + latitude[None, :])
    cosine = np.clip(0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3), -1.0, 1.0)
    distance = (6378.388 * np.arccos(cosine) + 1.0).astype(np.int64)
    np.fill_diagonal(distance, 0)
    return distance


def solve(grid: np.ndarray) -> np.ndarray:
    """[n] the nodes at ``grid`` (coordinates times :data:`GRID`) in the order of a short tour from node 0."""
    try:
        import elkai
    except ImportError as error:
        raise MissingDependencyError(
            "elkai, which finds the tours of TSP", "no such package", 'pip install "lrga[tsp]"'
        ) from error
    closed = elkai.DistanceMatrix(geo_distances(grid / GRID).tolist()).solve_tsp(runs=1)
    return np.asarray(closed[:-1], np.int64)


def solve_instances(split: str, first: int, stop: int, seed: int, nodes: tuple[int, int]) -> dict[str, np.ndarray]:
    """Draws and solves the instances ``first`` to ``stop - 1``; the arrays of :class:`Tours`."""
    grids = [draw_instance(seed, split, number, nodes) for number in range(first, stop)]
    tours = [solve(grid) for grid in grids]
    return {
        "n": np.array([len(grid) for grid in grids], np.int32),
        "xy": np.concatenate(grids),
        "tour": np.concatenate(tours).astype(np.int32),
    }


def read_tours(path: Path) -> Tours:
    """The instances of a prepared ``tsp_{train,val,test}.npz`` or of one part of a build, every tour checked."""
    arrays = read_arrays(path, ARRAYS)
    n, xy, tour = arrays["n"].astype(np.int64), arrays["xy"], arrays["tour"].astype(np.int64)
    remedy = f"make {path.name} again, or name the folder of the right files"
    fits = n.ndim == 1 and len(n) and (n >= 3).all() and xy.shape == (n.sum(), 2) and tour.shape == (n.sum(),)
    if not fits or xy.dtype != np.uint16:
        got = f"n {list(n.shape)}, xy {xy.dtype} {list(xy.shape)}, tour {list(tour.shape)}"
        raise DataError(f"instances with n [G], xy uint16 [N, 2] and tour [N] in {path}", got, remedy)
    # Each tour visits each node once: shifted by its instance's first node, all tours together are one permutation.
    start = np.concatenate([[0], np.cumsum(n)])
    instance = np.repeat(np.arange(len(n)), n)
    inside = (tour >= 0) & (tour < n[instance])
    visits = np.bincount((tour + start[instance])[inside], minlength=len(tour))
    if not inside.all() or (visits != 1).any():
        bad = instance[np.argmax(~inside)] if not inside.all() else instance[np.argmax(visits != 1)]
        raise DataError(f"tours that visit every node once in {path}", f"another in instance {bad}", remedy)
    return Tours(n, xy, tour)


def join(parts: list[Tours]) -> Tours:
    """Several lists of instances as one."""
    return Tours(*(np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS))


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
    context: BuildContext, *, seed: int, sizes: list[int], nodes: list[int], neighbours: int, missing: str
) -> "dict[str, PackedGraphs]":
    """The graphs, from prepared tours where there are some, else with tours found here."""
    wanted = dict(zip(SPLITS, sizes, strict=True))
    prepared = {split: read_tours(path).first(wanted[split]) for split, path in _prepared_files(context).items()}
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
        generated = _generate(context, {split: (have[split], wanted[split]) for split in lacking}, seed, nodes)
    result = {}
    for done, split in enumerate(SPLITS):
        context.progress("graphs of TSP", done, len(SPLITS))
        sources = [part[split] for part in (prepared, generated) if split in part]
        made = {"generated": len(generated[split].n), "seed": seed} if split in generated else {}
        result[split] = tour_graphs(join(sources), neighbours=neighbours, meta=notes.get(split, {}) | made)
    return result


def _prepared_files(context: BuildContext) -> dict[str, Path]:
    names = [f"tsp_{split}.npz" for split in SPLITS]
    if context.source is not None:
        remedy = "put them there, or leave the source out to generate instances here (takes an hour)"
        found: list[Path] | None = context.find(names, remedy, below=("tsp",))
    else:
        found = find_files(context.raw, names, below=("tsp",))
    return {} if found is None else dict(zip(SPLITS, found, strict=True))


def _generate(
    context: BuildContext, ranges: dict[str, tuple[int, int]], seed: int, nodes: list[int]
) -> dict[str, Tours]:
    """Instances ``begin`` to ``end - 1`` of each split, drawn and solved."""
    shards: dict[str, list[Shard]] = {}
    for split, (begin, end) in ranges.items():
        for first in range(begin, end, SHARD_INSTANCES):
            stop = min(first + SHARD_INSTANCES, end)
            arguments = {"split": split, "first": first, "stop": stop, "seed": seed, "nodes": nodes}
            shard = Shard(f"{split}-{first:06d}-{stop:06d}", "tours", arguments, stop - first, ARRAYS)
            shards.setdefault(split, []).append(shard)
    every = [shard for parts in shards.values() for shard in parts]
    label = "finding the tours of TSP"
    make_shards(every, context.work, workers=context.workers, progress=context.progress, label=label)
    return {split: join([read_tours(shard.path(context.work)) for shard in parts]) for split, parts in shards.items()}


def tour_graphs(tours: Tours, *, neighbours: int = NEIGHBOURS, meta: dict[str, Any] | None = None) -> "PackedGraphs":
    """The nearest-neighbour graphs of ``tours``: x [N, 2], edge_attr [E, 1], y [E] 0 or 1, edges i → its neighbours.

    Example:
        >>> square = Tours(np.array([4]), np.array([[0, 0], [0, 9], [9, 9], [9, 0]], np.uint16), np.arange(4))
        >>> graph = tour_graphs(square, neighbours=3)[0]
        >>> sorted(graph.edge_index[:, graph.y == 1].t().tolist())
        [[0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [2, 3], [3, 0], [3, 2]]
    """
    from lrga.data.packed.arrays import pack_arrays  # PyTorch, which the processes that find tours do without

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
