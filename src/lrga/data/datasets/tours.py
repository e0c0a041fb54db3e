"""Instances of the travelling salesman problem with their tours, by the benchmark's recipe.

Points are uniform in the unit square; a tour is short in the integer distances that TSPLIB calls GEO, taken of the raw
coordinates, as in the benchmark's own generator (so not in Euclidean distances). The benchmark solved with Concorde;
here LKH does (package ``elkai``): optimal or within a fraction of a percent of it.

Letters: G instances, N nodes of all of them.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lrga.data.datasets.prepared import read_arrays
from lrga.errors import DataError, MissingDependencyError

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
