"""Instances of TSP, their tours and the graphs made of them."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import context, shared

from lrga.data import built_sets, load
from lrga.data.datasets import tsp
from lrga.data.datasets.tsp import GRID, Tours, draw_instance, geo_distances, join, read_tours, solve, solve_instances
from lrga.errors import DataError, DataMissingError, OptionError

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
    path = shared("tsp/tsp_test.npz")
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


FIELDS = ("x", "y", "edge_index", "edge_attr")


def same(a, b) -> bool:
    return all(torch.equal(getattr(a[split], name), getattr(b[split], name)) for split in a for name in FIELDS)


def random_tours(sizes: list[int], seed: int = 0) -> Tours:
    rng = np.random.default_rng(seed)
    xy = [rng.integers(0, GRID, (n, 2), dtype=np.uint16) for n in sizes]
    return Tours(np.array(sizes), np.concatenate(xy), np.concatenate([rng.permutation(n) for n in sizes]))


def test_edges_are_the_nearest_neighbours_and_labels_the_tour():
    tours = random_tours([60, 45])
    graphs = tsp.tour_graphs(tours, neighbours=25)
    assert graphs.y_level == "edge"
    for g, (begin, end) in enumerate([(0, 60), (60, 105)]):
        data = graphs[g]
        xy, tour = tours.xy[begin:end] / GRID, tours.tour[begin:end].tolist()
        used = {frozenset(pair) for pair in zip(tour, tour[1:] + tour[:1], strict=True)}
        distance = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
        np.fill_diagonal(distance, np.inf)
        expected = {(i, j) for i in range(end - begin) for j in np.argsort(distance[i])[:25].tolist()}
        edges = [tuple(edge) for edge in data.edge_index.t().tolist()]
        assert len(edges) == 25 * (end - begin)
        assert set(edges) == expected
        assert data.y.tolist() == [int(frozenset(edge) in used) for edge in edges]
        np.testing.assert_allclose(data.edge_attr[:, 0], [distance[edge] for edge in edges], rtol=1e-6)
        np.testing.assert_array_equal(data.x.numpy(), xy.astype(np.float32))


def test_points_that_coincide_are_joined_to_each_other_and_never_to_themselves():
    xy = np.array([[5, 5]] * 4 + [[9, 9], [100, 3], [7, 80]], np.uint16)
    data = tsp.tour_graphs(Tours(np.array([7]), xy, np.arange(7)), neighbours=2)[0]
    source, target = data.edge_index
    assert (source != target).all()
    assert torch.bincount(source).tolist() == [2] * 7


def few_prepared(folder: Path, counts: dict[str, int]) -> Path:
    """The first instances of the real prepared files."""
    shared("tsp")
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in counts.items():
        with np.load(shared(f"tsp/tsp_{split}.npz")) as arrays:
            n = arrays["n"][:count]
            rows = int(n.sum(dtype=int))
            np.savez(folder / f"tsp_{split}.npz", n=n, xy=arrays["xy"][:rows], tour=arrays["tour"][:rows])
    return folder


def test_the_prepared_tours_are_read_and_a_short_split_is_marked(tmp_path):
    source = few_prepared(tmp_path / "prepared", {"train": 35, "val": 20, "test": 40})
    graphs = tsp.build(context(tmp_path, source), **tsp.options(sizes=(100, 20, 30)))
    assert graphs["train"].meta["incomplete"].startswith("35 of 100")
    assert "--missing generate" in graphs["train"].meta["incomplete"]
    assert graphs["train"].meta["missing"] == 65
    assert "incomplete" not in graphs["val"].meta
    assert [len(graphs[split]) for split in ("train", "val", "test")] == [35, 20, 30]
    test = graphs["test"]
    assert test.num_edges == 25 * test.num_nodes
    # Every node has two tour edges, and nearly all of them join near neighbours, seen from both ends.
    assert int(test.y.sum()) == pytest.approx(2 * test.num_nodes, rel=0.002)
    assert 50 <= int(test.nodes_per_graph.min()) <= int(test.nodes_per_graph.max()) <= 500


def test_loading_an_incomplete_set_says_so_every_time_and_its_manifest_keeps_it(tmp_path):
    source = few_prepared(tmp_path / "prepared", {"train": 5, "val": 3, "test": 3})
    for _ in range(2):
        with pytest.warns(UserWarning, match="TSP is incomplete: 5 of 7 graphs of train"):
            graphs = load("TSP", tmp_path, source=source, sizes=(7, 3, 3))
    assert len(graphs["train"]) == 5
    (built,) = built_sets("TSP", tmp_path)
    statistics = built.manifest.notes["statistics"]
    assert statistics["train"]["incomplete"].startswith("5 of 7")
    assert "incomplete" not in statistics["val"]


def test_what_prepared_tours_lack_can_be_generated(tmp_path):
    pytest.importorskip("elkai")
    options = {"sizes": (4, 2, 2), "nodes": (8, 12), "neighbours": 3}
    whole = tsp.build(context(tmp_path), **tsp.options(**options))
    source = tmp_path / "prepared"
    source.mkdir()
    for split in ("train", "val", "test"):
        (part,) = (tmp_path / "work").glob(f"{split}-*.npz")
        with np.load(part) as arrays:
            tours = Tours(**arrays).first(3 if split == "train" else 2)
            np.savez(source / f"tsp_{split}.npz", n=tours.n, xy=tours.xy, tour=tours.tour)
    filled = tsp.build(context(tmp_path / "b", source), **tsp.options(missing="generate", **options))
    assert same(whole, filled)
    assert filled["train"].meta["generated"] == 1
    assert "incomplete" not in filled["train"].meta


def test_the_number_of_workers_does_not_matter(tmp_path, monkeypatch):
    pytest.importorskip("elkai")
    monkeypatch.setattr(tsp, "SHARD_INSTANCES", 4)
    options = tsp.options(sizes=(7, 2, 4), nodes=(10, 20), neighbours=5)
    seen = []
    one = tsp.build(context(tmp_path / "1"), **options)
    two = tsp.build(context(tmp_path / "2", workers=2, progress=lambda *args: seen.append(args)), **options)
    assert same(one, two)
    tours = [done for label, done, _ in seen if label == "finding the tours of TSP"]
    assert tours[0] == 0
    assert tours[-1] == 13
    assert len(tours) > 3
    other = tsp.build(context(tmp_path / "3"), **(options | {"seed": 5}))
    assert not torch.equal(other["train"].x[:5], one["train"].x[:5])


SCRIPT = """
import sys
from pathlib import Path
from lrga.data.datasets import tsp
from lrga.data.datasets.source import BuildContext
tsp.SHARD_INSTANCES = 5
folder = Path(sys.argv[1])
tsp.build(BuildContext(raw=folder, work=folder / "work", workers=2), **tsp.options(sizes=(20, 5, 5), nodes=(55, 60)))
"""


def test_killed_in_the_middle_it_goes_on_and_ends_with_the_same_graphs(tmp_path, monkeypatch):
    pytest.importorskip("elkai")
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "broken")])
    work = tmp_path / "broken/work"
    deadline = time.monotonic() + 90
    while len(list(work.glob("*.npz"))) < 2 and time.monotonic() < deadline:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    monkeypatch.setattr(tsp, "SHARD_INSTANCES", 5)
    options = tsp.options(sizes=(20, 5, 5), nodes=(55, 60))
    whole = tsp.build(context(tmp_path / "whole"), **options)
    kept = {path: path.stat().st_mtime_ns for path in work.glob("*.npz")}
    assert 2 <= len(kept) < 6  # the workers finished what they had begun, and left
    assert same(whole, tsp.build(context(tmp_path / "broken"), **options))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # what was finished was not done again


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": (50,)},
        {"nodes": "ab"},
        {"nodes": (60, 50)},
        {"nodes": (2, 50)},
        {"nodes": (50, 40_000)},
        {"nodes": (50.0, 60)},
        {"nodes": (20, 30)},  # fewer than 25 neighbours
        {"neighbours": 0},
        {"neighbours": 50},
        {"missing": "ignore"},
        {"seed": -1},
        {"sizes": (1, 2)},
    ],
)
def test_options_outside_their_range_are_refused(options):
    with pytest.raises(OptionError):
        tsp.options(**options)


def test_a_source_without_tours_is_told_which_files_belong_there(tmp_path):
    with pytest.raises(DataMissingError, match=r"tsp_train\.npz"):
        tsp.build(context(tmp_path, tmp_path), **tsp.options(sizes=(1, 1, 1)))


def test_an_incomplete_source_does_not_yield_to_the_data_root(tmp_path):
    """The data root has all tours, the folder that was named lacks two: they are named, nothing else is taken."""
    for folder, splits in ((tmp_path / "raw", ("train", "val", "test")), (tmp_path / "mine", ("train",))):
        folder.mkdir()
        for split in splits:
            tours = random_tours([30, 30])
            np.savez(folder / f"tsp_{split}.npz", n=tours.n, xy=tours.xy, tour=tours.tour)
    with pytest.raises(DataMissingError, match=r"got no tsp_val\.npz, tsp_test\.npz\."):
        tsp.build(context(tmp_path, tmp_path / "mine"), **tsp.options(sizes=(1, 1, 1)))
    assert len(tsp.build(context(tmp_path), **tsp.options(sizes=(1, 1, 1)))["train"]) == 1  # none was named
