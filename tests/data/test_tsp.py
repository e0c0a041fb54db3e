import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from lrga.data import built_sets, load
from lrga.data.datasets import tsp
from lrga.data.datasets.place import BuildPlace
from lrga.data.datasets.tours import GRID, Tours
from lrga.errors import DataMissingError, OptionError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
FIELDS = ("x", "y", "edge_index", "edge_attr")


def place(folder: Path, source: Path | None = None, **options) -> BuildPlace:
    return BuildPlace(raw=folder / "raw", work=folder / "work", source=source, **options)


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
    if not (SHARED / "tsp").is_dir():
        pytest.skip("the prepared tours are not beside this checkout")
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in counts.items():
        with np.load(SHARED / f"tsp/tsp_{split}.npz") as arrays:
            n = arrays["n"][:count]
            rows = int(n.sum(dtype=int))
            np.savez(folder / f"tsp_{split}.npz", n=n, xy=arrays["xy"][:rows], tour=arrays["tour"][:rows])
    return folder


def test_the_prepared_tours_are_read_and_a_short_split_is_marked(tmp_path):
    source = few_prepared(tmp_path / "prepared", {"train": 35, "val": 20, "test": 40})
    graphs = tsp.build(place(tmp_path, source), **tsp.options(sizes=(100, 20, 30)))
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
    whole = tsp.build(place(tmp_path), **tsp.options(**options))
    source = tmp_path / "prepared"
    source.mkdir()
    for split in ("train", "val", "test"):
        (part,) = (tmp_path / "work").glob(f"{split}-*.npz")
        with np.load(part) as arrays:
            tours = Tours(**arrays).first(3 if split == "train" else 2)
            np.savez(source / f"tsp_{split}.npz", n=tours.n, xy=tours.xy, tour=tours.tour)
    filled = tsp.build(place(tmp_path / "b", source), **tsp.options(missing="generate", **options))
    assert same(whole, filled)
    assert filled["train"].meta["generated"] == 1
    assert "incomplete" not in filled["train"].meta


def test_the_number_of_workers_does_not_matter(tmp_path, monkeypatch):
    pytest.importorskip("elkai")
    monkeypatch.setattr(tsp, "PART_INSTANCES", 3)
    options = tsp.options(sizes=(7, 2, 4), nodes=(10, 20), neighbours=5)
    seen = []
    one = tsp.build(place(tmp_path / "1"), **options)
    two = tsp.build(place(tmp_path / "2", workers=2, progress=lambda *args: seen.append(args)), **options)
    assert same(one, two)
    tours = [done for label, done, _ in seen if label == "finding the tours of TSP"]
    assert tours[0] == 0
    assert tours[-1] == 13
    assert len(tours) > 3
    other = tsp.build(place(tmp_path / "3"), **(options | {"seed": 5}))
    assert not torch.equal(other["train"].x[:5], one["train"].x[:5])


SCRIPT = """
import sys
from pathlib import Path
from lrga.data import built_sets, load
from lrga.data.datasets import tsp
from lrga.data.datasets.place import BuildPlace
tsp.PART_INSTANCES = 5
folder = Path(sys.argv[1])
tsp.build(BuildPlace(raw=folder, work=folder / "work", workers=2), **tsp.options(sizes=(90, 5, 5), nodes=(60, 70)))
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
    monkeypatch.setattr(tsp, "PART_INSTANCES", 5)
    options = tsp.options(sizes=(90, 5, 5), nodes=(60, 70))
    whole = tsp.build(place(tmp_path / "whole"), **options)
    kept = {path: path.stat().st_mtime_ns for path in work.glob("*.npz")}
    assert 2 <= len(kept) < 20  # the workers finished what they had begun, and left
    assert same(whole, tsp.build(place(tmp_path / "broken"), **options))
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
        tsp.build(place(tmp_path, tmp_path), **tsp.options(sizes=(1, 1, 1)))


def test_an_incomplete_source_does_not_yield_to_the_data_root(tmp_path):
    """The data root has all tours, the folder that was named lacks two: they are named, nothing else is taken."""
    for folder, splits in ((tmp_path / "raw", ("train", "val", "test")), (tmp_path / "mine", ("train",))):
        folder.mkdir()
        for split in splits:
            tours = random_tours([30, 30])
            np.savez(folder / f"tsp_{split}.npz", n=tours.n, xy=tours.xy, tour=tours.tour)
    with pytest.raises(DataMissingError, match=r"got no tsp_val\.npz, tsp_test\.npz\."):
        tsp.build(place(tmp_path, tmp_path / "mine"), **tsp.options(sizes=(1, 1, 1)))
    assert len(tsp.build(place(tmp_path), **tsp.options(sizes=(1, 1, 1)))["train"]) == 1  # none was named
