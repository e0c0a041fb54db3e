from pathlib import Path

import numpy as np
import pytest

from lrga.data.datasets.tours import GRID, Tours, draw_instance, geo_distances, join, read_tours, solve, solve_instances
from lrga.errors import DataError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"

# burma14 of TSPLIB: coordinates of its cities, all of its first row of distances, and the length of its shortest tour.
BURMA = np.array(
    [
        [16.47, 96.10], [16.47, 94.44], [20.09, 92.54], [22.39, 93.37], [25.23, 97.24], [22.00, 96.05], [20.47, 97.02],
        [17.20, 96.29], [16.30, 97.38], [14.05, 98.12], [16.53, 97.38], [21.52, 95.59], [19.41, 97.13], [20.09, 94.55],
    ]
)  # fmt: skip
BURMA_ROW = [0, 153, 510, 706, 966, 581, 455, 70, 160, 372, 157, 567, 342, 398]
BURMA_BEST = 3323


def length(distance: np.ndarray, tour: np.ndarray) -> int:
    return int(distance[tour, np.roll(tour, -1)].sum())


def test_distances_are_those_that_tsplib_prints_for_burma14():
    distance = geo_distances(BURMA)
    assert distance[0].tolist() == BURMA_ROW
    np.testing.assert_array_equal(distance, distance.T)


def test_the_shortest_tour_of_burma14_is_found():
    elkai = pytest.importorskip("elkai")
    tour = np.array(elkai.DistanceMatrix(geo_distances(BURMA).tolist()).solve_tsp(runs=1)[:-1])
    assert length(geo_distances(BURMA), tour) == BURMA_BEST


def test_points_in_one_place_are_one_apart_and_never_undefined():
    distance = geo_distances(np.zeros((3, 2)))
    assert distance.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_an_instance_depends_on_its_seed_split_and_number_alone():
    first = draw_instance(7, "train", 3, (50, 60))
    np.testing.assert_array_equal(first, draw_instance(7, "train", 3, (50, 60)))
    others = [draw_instance(8, "train", 3, (50, 60)), draw_instance(7, "val", 3, (50, 60))]
    others.append(draw_instance(7, "train", 4, (50, 60)))
    assert all(other.shape != first.shape or (other != first).any() for other in others)
    sizes = {len(draw_instance(0, "test", i, (50, 52))) for i in range(40)}
    assert sizes == {50, 51, 52}


def test_tours_are_near_the_best_and_the_same_again():
    pytest.importorskip("elkai")
    made = solve_instances("val", 0, 2, seed=3, nodes=(30, 40))
    again = solve_instances("val", 1, 2, seed=3, nodes=(30, 40))
    n = made["n"]
    np.testing.assert_array_equal(made["tour"][n[0] :], again["tour"])
    grid, tour = made["xy"][: n[0]], made["tour"][: n[0]]
    assert sorted(tour.tolist()) == list(range(n[0]))
    distance = geo_distances(grid / GRID)
    # No exchange of two edges makes it shorter: a tour that LKH leaves is at least locally best.
    best = length(distance, tour)
    for i in range(n[0]):
        for j in range(i + 2, n[0]):
            other = np.concatenate([tour[: i + 1], tour[i + 1 : j + 1][::-1], tour[j + 1 :]])
            assert length(distance, other) >= best


def test_the_prepared_instances_are_drawn_again_with_tours_of_the_same_length():
    path = SHARED / "tsp/tsp_test.npz"
    if not path.is_file():
        pytest.skip("the prepared tours are not beside this checkout")
    pytest.importorskip("elkai")
    prepared = read_tours(path)
    start = np.concatenate([[0], np.cumsum(prepared.n)])
    small = [i for i in range(30) if prepared.n[i] < 160][:4]
    for i in small:
        grid, tour = (values[start[i] : start[i + 1]] for values in (prepared.xy, prepared.tour))
        np.testing.assert_array_equal(draw_instance(1234, "test", i, (50, 500)), grid)
        distance = geo_distances(grid / GRID)
        assert abs(length(distance, solve(grid)) - length(distance, tour)) <= 1


def arrays() -> dict[str, np.ndarray]:
    return {
        "n": np.array([3, 4], np.int16),
        "xy": np.arange(14, dtype=np.uint16).reshape(7, 2),
        "tour": np.array([0, 2, 1, 3, 1, 0, 2], np.int16),
    }


def test_instances_are_read_joined_and_cut(tmp_path):
    np.savez(tmp_path / "a.npz", **arrays())
    tours = read_tours(tmp_path / "a.npz")
    twice = join([tours, tours])
    assert twice.n.tolist() == [3, 4, 3, 4]
    first = twice.first(3)
    assert isinstance(first, Tours)
    assert first.tour.tolist() == [0, 2, 1, 3, 1, 0, 2, 0, 2, 1]


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("tour", np.array([0, 2, 2, 3, 1, 0, 2], np.int16), "instance 0"),
        ("tour", np.array([0, 2, 1, 4, 1, 0, 2], np.int16), "instance 1"),
        ("tour", np.array([0, 2, 1, -1, 1, 0, 2], np.int16), "instance 1"),
        ("tour", np.array([0, 2, 1], np.int16), "n \\[2\\]"),
        ("n", np.array([3, 3], np.int16), "n \\[2\\]"),
        ("n", np.array([], np.int16), "n \\[0\\]"),
        ("xy", np.zeros((7, 2)), "float64"),
        ("xy", np.zeros((7, 3), np.uint16), "7, 3"),
    ],
)
def test_instances_that_do_not_fit_are_refused(name, value, match, tmp_path):
    np.savez(tmp_path / "a.npz", **(arrays() | {name: value}))
    with pytest.raises(DataError, match=match):
        read_tours(tmp_path / "a.npz")
