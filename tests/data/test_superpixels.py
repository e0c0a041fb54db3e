"""MNIST and CIFAR10 on slices of the real files, and what they are made of."""

import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from data_files import Hostile, context, shared
from scipy.spatial.distance import cdist

from lrga.data.datasets.spec import dataset_specs, spec_of
from lrga.data.datasets.superpixels import VALIDATION, build, read_prepared, read_published, superpixel_edges
from lrga.errors import DataError, DataMissingError, OptionError


def published(count: int, channels: int = 1, **changed) -> bytes:
    """As the benchmark wrote its files: labels, and colours, positions and an order for each image."""
    rng = np.random.default_rng(count)
    sizes = rng.integers(10, 30, count)
    content = {
        "labels": (np.arange(count) % 10).astype(np.int32),
        "images": [
            (rng.random((n, channels), np.float32), 28 * rng.random((n, 1, 2), np.float32), rng.permutation(n))
            for n in sizes
        ],
    } | changed
    return pickle.dumps((content["labels"], content["images"]), 2)


@pytest.mark.parametrize(
    ("name", "first_counts", "first_labels", "width"),
    [
        ("MNIST", (69, 71, 74), (7, 5, 7), 3),
        pytest.param("CIFAR10", (110, 123, 118), (6, 6, 3), 5, marks=pytest.mark.slow),
    ],
)
def test_the_first_graphs_are_those_the_benchmark_prints(name, first_counts, first_labels, width, tmp_path):
    graphs = build(name, context(tmp_path, shared("superpixels")), sizes=[40, 40, 40])
    first = [graphs[split][0] for split in ("train", "val", "test")]
    assert tuple(data.num_nodes for data in first) == first_counts
    assert tuple(int(data.y) for data in first) == first_labels
    for data in first:
        assert data.x.shape == (data.num_nodes, width)
        assert data.x.dtype == torch.float32
        assert data.edge_attr.shape == (8 * data.num_nodes, 1)
        assert data.edge_attr.dtype == torch.float32
        assert 0 <= data.x.min() <= data.x.max() <= 1
        assert torch.bincount(data.edge_index[0]).tolist() == [8] * data.num_nodes


def test_the_published_means_hold_for_all_prepared_superpixels():
    for name, mean in (("mnist", 70.57), ("cifar10", 117.63)):
        counts = []
        for part in ("train", "test"):
            with np.load(shared("superpixels") / f"{name}_sp_{part}.npz") as arrays:
                counts.append(arrays["count"].astype(int))
        assert round(float(np.concatenate(counts).mean()), 2) == mean


def test_the_published_archive_gives_graphs_by_the_benchmarks_rule(tmp_path, monkeypatch):
    (tmp_path / "raw").mkdir()
    with zipfile.ZipFile(tmp_path / "raw/superpixels.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("superpixels/mnist_75sp_train.pkl", published(VALIDATION + 3))
        archive.writestr("superpixels/mnist_75sp_test.pkl", published(4))
    graphs = build("MNIST", context(tmp_path), sizes=[2, 2, 3])
    assert [len(graphs[split]) for split in ("train", "val", "test")] == [2, 2, 3]
    labels, images = pickle.loads(published(VALIDATION + 3))
    for split, begin in (("train", VALIDATION), ("val", 0)):
        data, (colour, position, _) = graphs[split][1], images[begin + 1]
        place = position.reshape(-1, 2) / 28
        assert int(data.y) == labels[begin + 1]
        np.testing.assert_array_equal(data.x, np.concatenate([colour, place], 1))
        neighbours, closeness = edges_of_one_graph(place.astype(np.float64))
        expected = {
            (i, int(j)): np.float32(a)
            for i, row in enumerate(neighbours)
            for j, a in zip(row, closeness[i], strict=True)
        }
        edges = map(tuple, data.edge_index.t().tolist())
        assert dict(zip(edges, data.edge_attr[:, 0].tolist(), strict=True)) == expected
    few = {"train": 2, "val": 2, "test": 3}
    monkeypatch.setitem(dataset_specs(), "MNIST", replace(spec_of("MNIST"), splits=few))
    with pytest.raises(DataError, match="70.57"):  # a complete set has the published mean
        build("MNIST", context(tmp_path), sizes=[2, 2, 3])


def test_too_few_images_are_refused(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"mnist_75sp_{part}.pkl").write_bytes(published(6))
    with pytest.raises(DataError, match="at least 5,001 images"):
        build("MNIST", context(tmp_path, tmp_path), sizes=[1, 1, 1])


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps([1, 2]),
        pickle.dumps(({}, {})),
        published(3, labels=[1, 2]),
        published(3, labels=[1, 2, 10]),
        published(3, images=[(np.zeros((2, 3)), np.zeros((3, 2)))] * 3),
        published(3, images=[(np.full((2, 1), np.nan), np.zeros((2, 2)))] * 3),
        published(3, images=[]),
        published(3)[:-200],
        b"",
    ],
)
def test_a_published_file_that_does_not_fit_is_named_and_refused(content, tmp_path):
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.pkl"):
        read_published(tmp_path / "a.pkl", 28, 1)


def test_a_hostile_file_is_refused_and_nothing_of_it_runs(tmp_path):
    mark = tmp_path / "ran"
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(([], Hostile(mark))))
    with pytest.raises(DataError, match="system"):
        read_published(tmp_path / "a.pkl", 28, 1)
    assert not mark.exists()


def test_more_graphs_than_there_are_cannot_be_asked_for():
    with pytest.raises(OptionError, match="at most 5,000 graphs of val"):
        spec_of("MNIST").options(sizes=(10, 5001, 10))
    assert spec_of("CIFAR10").options() == {"sizes": [45_000, 5_000, 10_000]}


@pytest.mark.parametrize(("name", "file"), [("MNIST", "mnist_75sp_train.pkl"), ("CIFAR10", "cifar10_150sp_train.pkl")])
def test_a_source_without_the_files_is_told_which_to_put_there(name, file, tmp_path):
    with pytest.raises(DataMissingError, match=rf"{name.lower()}_sp_test\.npz or {file}"):
        build(name, context(tmp_path, tmp_path), sizes=[1, 1, 1])
    with pytest.raises(DataMissingError, match=r"superpixels\.zip") as caught:
        build(name, context(tmp_path, None, download=False), sizes=[1, 1, 1])
    assert str(tmp_path / "raw/superpixels.zip") in str(caught.value)


def prepared_arrays() -> dict[str, np.ndarray]:
    return {
        "label": np.array([3, 7], np.uint8),
        "count": np.array([2, 1], np.uint8),
        "size": np.array([2, 2, 4], np.uint8),
        "pix_q": np.ones((3, 1), np.uint8),
        "pix_r": np.array([[0], [0], [2]], np.uint8),
        "pos_q": np.ones((3, 2), np.uint8),
        "pos_r": np.zeros((3, 2), np.uint8),
    }


def test_a_prepared_file_is_read(tmp_path):
    np.savez(tmp_path / "a.npz", **prepared_arrays())
    found = read_prepared(tmp_path / "a.npz", 2, 1)
    assert found.y.tolist() == [3, 7]
    np.testing.assert_allclose(found.attribute("colour")[:, 0], [1 / 255, 1 / 255, 1.5 / 255])
    np.testing.assert_allclose(found.attribute("position")[2], [0.5, 0.5])
    assert found.nodes_per_graph.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("count", np.array([1, 1], np.uint8), "one row per superpixel"),
        ("size", np.array([2, 3, 4], np.uint8), "5 in image 0"),
        ("size", np.array([4, 0, 4], np.uint8), "empty superpixel"),
        ("count", np.array([3, 0], np.uint8), "without superpixels"),
        ("label", np.array([3, 10], np.uint8), "above 9"),
        ("pix_q", np.ones((3, 3), np.uint8), "one row per superpixel"),
        ("label", None, "no label"),
    ],
)
def test_a_prepared_file_that_does_not_fit_is_refused(name, value, match, tmp_path):
    arrays = prepared_arrays()
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=match):
        read_prepared(tmp_path / "a.npz", 2, 1)


def edges_of_one_graph(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The benchmark's rule written out for one graph of more than nine nodes."""
    n = len(position)
    distance = cdist(position, position)
    sigma = np.sort(distance, axis=-1)[:, :9].sum(axis=1).reshape(n, 1) / 8 + 1e-8
    a = np.exp(-((distance / sigma) ** 2))
    a = 0.5 * (a + a.T)
    a[np.diag_indices(n)] = 0
    neighbours = np.argpartition(a.astype(complex), n - 10, axis=-1)[:, n - 9 : -1]
    return neighbours, np.take_along_axis(a, neighbours, axis=-1)


def test_edges_equal_the_rule_written_out_for_each_graph():
    rng = np.random.default_rng(0)
    count = rng.integers(10, 60, 80)
    # Half of the graphs on a grid: there many distances are equal, and rounding decides.
    position = [rng.random((n, 2)) if g % 2 else rng.integers(0, 9, (n, 2)) / 28 for g, n in enumerate(count)]
    num_edges, all_index, all_weight = superpixel_edges(count, np.concatenate(position))
    assert num_edges.tolist() == (8 * count).tolist()
    ends = np.cumsum(num_edges)[:-1]
    for place, index, weight in zip(
        position, np.split(all_index, ends, axis=1), np.split(all_weight, ends), strict=True
    ):
        neighbours, closeness = edges_of_one_graph(place)
        np.testing.assert_array_equal(index[0], np.repeat(np.arange(len(place)), 8))
        np.testing.assert_array_equal(index[1], neighbours.ravel())
        np.testing.assert_array_equal(weight, closeness.ravel().astype(np.float32))


def test_the_node_that_is_dropped_is_the_one_numpy_1_drops_on_every_cpu():
    """How often the nearest is dropped, the second nearest, …: counted with numpy 1.23.5 and 1.26.4."""
    position = np.random.default_rng(0).random((40, 70, 2))
    dropped = np.zeros(9, int)
    for place in position:
        _, index, _ = superpixel_edges(np.array([70]), place)
        difference = place[:, None] - place
        distance = np.sqrt((difference**2).sum(axis=-1))
        scale = np.sort(distance)[:, :9].sum(axis=1, keepdims=True) / 8 + 1e-8
        closeness = np.exp(-((distance / scale) ** 2))
        closeness = closeness + closeness.T - 3 * np.eye(70)
        kept = (np.argsort(-closeness)[:, :9, None] == index[1].reshape(70, 1, 8)).any(axis=2)
        assert (kept.sum(axis=1) == 8).all()
        dropped += np.bincount(np.argmin(kept, axis=1), minlength=9)
    assert dropped.tolist() == [682, 542, 478, 357, 271, 211, 134, 82, 43]


@pytest.mark.parametrize("n", [1, 2, 8, 9])
def test_so_few_superpixels_are_all_joined_to_each_other(n):
    position = np.random.default_rng(n).random((n, 2))
    num_edges, index, weight = superpixel_edges(np.array([n, n]), np.concatenate([position, position]))
    assert num_edges.tolist() == [n * (n - 1)] * 2
    first = index[:, : n * (n - 1)].T.tolist()
    assert sorted(first) == sorted([i, j] for i in range(n) for j in range(n) if i != j)
    assert np.isfinite(weight).all()


def test_progress_is_told():
    rng = np.random.default_rng(5)
    count = rng.integers(10, 80, 300)
    position = rng.random((count.sum(), 2))
    seen = []
    superpixel_edges(count, position, progress=lambda *args: seen.append(args))
    assert seen[-1] == ("edges", 300, 300)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_superpixels_at_the_same_place_give_finite_weights():
    assert np.isfinite(superpixel_edges(np.array([12]), np.zeros((12, 2)))[2]).all()
