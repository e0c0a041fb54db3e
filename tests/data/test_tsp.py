"""Instances of TSP, their tours and the graphs made of them."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import context, shared

from lrga.data import built_sets, load
from lrga.data.datasets import tsp
from lrga.data.datasets.tsp import GRID, SPEC, read_prepared, read_text
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, OptionError

SPLITS = ("train", "val", "test")


def arrays() -> dict[str, np.ndarray]:
    return {
        "n": np.array([3, 4], np.int16),
        "xy": np.arange(14, dtype=np.uint16).reshape(7, 2),
        "tour": np.array([0, 2, 1, 3, 1, 0, 2], np.int16),
    }


def test_prepared_instances_are_read_and_cut(tmp_path):
    np.savez(tmp_path / "a.npz", **arrays())
    tours = read_prepared(tmp_path / "a.npz")
    assert tours.nodes_per_graph.tolist() == [3, 4]
    np.testing.assert_array_equal(tours.attribute("xy") * GRID, arrays()["xy"])
    assert tours[:1].attribute("tour").tolist() == [0, 2, 1]


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
        read_prepared(tmp_path / "a.npz")


def line_of(xy: np.ndarray, tour: np.ndarray) -> str:
    """As the benchmark writes an instance: nodes from 1, the first again at the end, and a space."""
    nodes = [*(tour + 1), tour[0] + 1]
    return f"{' '.join(map(str, xy.ravel().tolist()))} output {' '.join(map(str, nodes))} \n"


def tours_of(sizes: list[int], xy: np.ndarray, tour: np.ndarray) -> PackedGraphs:
    return pack_arrays(num_nodes=np.array(sizes), node={"xy": xy, "tour": tour})


def random_tours(sizes: list[int], seed: int = 0) -> PackedGraphs:
    rng = np.random.default_rng(seed)
    xy = [rng.integers(0, GRID, (n, 2)) / GRID for n in sizes]
    return tours_of(sizes, np.concatenate(xy), np.concatenate([rng.permutation(n) for n in sizes]))


def text_of(tours: PackedGraphs) -> str:
    return "".join(line_of(data.xy.numpy(), data.tour.numpy()) for data in tours)


def test_the_benchmarks_text_is_read_up_to_the_limit(tmp_path):
    tours = random_tours([30, 40, 50])
    (tmp_path / "a.txt").write_text(text_of(tours))
    for limit in (2, 9):
        found, expected = read_text(tmp_path / "a.txt", limit), tours[:limit]
        assert found.nodes_per_graph.tolist() == expected.nodes_per_graph.tolist()
        for name in ("xy", "tour"):
            np.testing.assert_array_equal(found.attribute(name), expected.attribute(name))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 0 1 1 0 1 output 1 2 2 1 \n",
        "0 0 1 1 0 output 1 2 1 \n",
        "0 0 1 1 0 1\n",
        "0 0 nan 1 0 1 output 1 2 3 1 ",
    ],
)
def test_another_text_is_named_and_refused(text, tmp_path):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError, match=r"a\.txt"):
        read_text(tmp_path / "a.txt", 5)


def test_the_published_archive_gives_the_graphs_of_its_tours(tmp_path):
    tours = {split: random_tours([30, 35, 40], seed) for seed, split in enumerate(SPLITS)}
    (tmp_path / "raw").mkdir()
    with zipfile.ZipFile(tmp_path / "raw/TSP.zip", "w") as archive:
        for split, found in tours.items():
            archive.writestr(f"TSP/tsp50-500_{split}.txt", text_of(found))
    graphs = tsp.build(context(tmp_path), sizes=[3, 2, 1])
    assert [len(graphs[split]) for split in SPLITS] == [3, 2, 1]
    expected = tsp.tour_graphs(tours["train"])
    for name in ("x", "y", "edge_index", "edge_attr"):
        assert torch.equal(getattr(graphs["train"], name), getattr(expected, name))
    with pytest.raises(DataError, match=r"4 instances of val .*got 3"):
        tsp.build(context(tmp_path), sizes=[1, 4, 1])


def test_edges_are_the_nearest_neighbours_and_labels_the_tour():
    tours = random_tours([60, 45])
    graphs = tsp.tour_graphs(tours, neighbours=25)
    assert graphs.y_level == "edge"
    for g, (begin, end) in enumerate([(0, 60), (60, 105)]):
        data = graphs[g]
        xy, tour = tours[g].xy.numpy(), tours[g].tour.tolist()
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
    xy = np.array([[5, 5]] * 4 + [[9, 9], [100, 3], [7, 80]]) / GRID
    data = tsp.tour_graphs(tours_of([7], xy, np.arange(7)), neighbours=2)[0]
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


def test_the_prepared_tours_are_read_and_said_to_be_a_new_sample(tmp_path):
    source = few_prepared(tmp_path / "prepared", {"train": 35, "val": 20, "test": 40})
    graphs = load("TSP", tmp_path, source=source, sizes=(35, 20, 30))
    assert [len(graphs[split]) for split in SPLITS] == [35, 20, 30]
    test = graphs["test"]
    assert test.num_edges == 25 * test.num_nodes
    # Every node has two tour edges, and nearly all of them join near neighbours, seen from both ends.
    assert int(test.y.sum()) == pytest.approx(2 * test.num_nodes, rel=0.002)
    assert 50 <= int(test.nodes_per_graph.min()) <= int(test.nodes_per_graph.max()) <= 500
    (built,) = built_sets("TSP", tmp_path)
    assert "new sample" in built.manifest.notes["note"]


def test_a_source_without_tours_is_told_which_files_belong_there(tmp_path):
    with pytest.raises(DataMissingError, match=r"tsp_train\.npz.* or tsp50-500_train\.txt"):
        tsp.build(context(tmp_path, tmp_path), sizes=[1, 1, 1])
    with pytest.raises(OptionError, match="at most 1,000 graphs of val"):
        SPEC.options(sizes=(1, 1001, 1))
