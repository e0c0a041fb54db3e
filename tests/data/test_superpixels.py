"""MNIST and CIFAR10 on slices of the real files, and what they are made of."""

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import Hostile, context, shared
from scipy.spatial.distance import cdist

from lrga.data.datasets.source import BuildContext
from lrga.data.datasets.spec import dataset_specs
from lrga.data.datasets.superpixels import cifar10, mnist
from lrga.data.datasets.superpixels.cifar10 import ARCHIVE, BATCHES, FOLDER, read_batch
from lrga.data.datasets.superpixels.edges import superpixel_edges
from lrga.data.datasets.superpixels.images import VALIDATION, Images, ImageSet, Regions, cut_images, read_prepared
from lrga.data.datasets.superpixels.mnist import MD5, read_idx
from lrga.data.datasets.superpixels.slic import CIFAR10_SETTINGS, MNIST_SETTINGS, slic_labels
from lrga.errors import ChecksumError, DataError, DataMissingError, DTypeError, OptionError, ShapeError

MNIST = ImageSet("MNIST", 28, 1, MNIST_SETTINGS, mnist.read_images)
CIFAR10 = ImageSet("CIFAR10", 32, 3, CIFAR10_SETTINGS, cifar10.read_images)
FIELDS = ("x", "y", "edge_index", "edge_attr")


def test_mnist_from_images_equals_mnist_from_prepared_superpixels(tmp_path):
    pytest.importorskip("skimage")
    options = mnist.SPEC.options(sizes=(30, 20, 25))
    cut = MNIST.build(context(tmp_path, shared("mnist")), **options)
    prepared = MNIST.build(context(tmp_path, shared("superpixels")), **options)
    for split in ("train", "val", "test"):
        for name in FIELDS:
            assert torch.equal(getattr(cut[split], name), getattr(prepared[split], name)), (split, name)
    assert [len(cut[split]) for split in ("train", "val", "test")] == [30, 20, 25]
    assert cut["train"].meta["origin"] != prepared["train"].meta["origin"]


@pytest.mark.parametrize(
    ("module", "first_counts", "first_labels", "width"),
    [
        (mnist, (69, 71, 74), (7, 5, 7), 3),
        pytest.param(cifar10, (110, 123, 118), (6, 6, 3), 5, marks=pytest.mark.slow),
    ],
)
def test_the_first_graphs_are_those_the_benchmark_prints(module, first_counts, first_labels, width, tmp_path):
    graphs = module.SPEC.build(
        context(tmp_path, shared("superpixels"), workers=2), **module.SPEC.options(sizes=(40, 40, 40))
    )
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


def test_a_complete_set_with_other_means_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("skimage")
    few = {"train": 3, "val": 2, "test": 2}
    monkeypatch.setitem(dataset_specs(), "MNIST", replace(mnist.SPEC, splits=few))
    with pytest.raises(DataError, match="70.57"):
        tiny_set().build(context(tmp_path), sizes=[3, 2, 2])


def few_images(count: int, label: int = 0) -> Images:
    rng = np.random.default_rng(count)
    return Images(rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.full(count, label, np.uint8))


def tiny_set(train: int = VALIDATION + 6, test: int = 5) -> ImageSet:
    official = {"train": few_images(train), "test": few_images(test, 1)}
    return ImageSet("MNIST", 28, 1, MNIST_SETTINGS, lambda *_: official)


def test_a_build_cut_off_goes_on_where_it_was(tmp_path, monkeypatch):
    pytest.importorskip("skimage")
    monkeypatch.setattr("lrga.data.datasets.superpixels.images.SHARD_IMAGES", 2)
    images, here = tiny_set(), context(tmp_path, None)
    whole = images.build(here, sizes=[6, 4, 5])
    parts = sorted(here.work.glob("*.npz"))
    assert len(parts) == 3 + 2 + 3
    kept = {path: path.stat().st_mtime_ns for path in parts[2:]}
    parts[0].unlink()
    parts[1].write_bytes(parts[1].read_bytes()[:-30])  # a disk's fault
    seen = []
    again = images.build(context(tmp_path, None, progress=lambda *args: seen.append(args)), sizes=[6, 4, 5])
    assert {path: path.stat().st_mtime_ns for path in parts[2:]} == kept
    cutting = [done for label, done, _ in seen if label.startswith("cutting")]
    assert cutting[0] > 0
    assert cutting[-1] == 15
    for split, graphs in whole.items():
        for name in FIELDS:
            assert torch.equal(getattr(graphs, name), getattr(again[split], name))


def test_too_few_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="at least 5,001 images"):
        tiny_set(train=VALIDATION).build(context(tmp_path, None), sizes=[1, 1, 1])


def test_more_graphs_than_there_are_cannot_be_asked_for():
    with pytest.raises(OptionError, match="at most 5,000 graphs of val"):
        mnist.SPEC.options(sizes=(10, 5001, 10))
    assert cifar10.SPEC.options() == {"sizes": [45_000, 5_000, 10_000]}


def test_a_source_without_the_files_is_told_which_to_put_there(tmp_path):
    for module, name in ((mnist, "train-images-idx3-ubyte.gz"), (cifar10, "cifar-10-python.tar.gz")):
        with pytest.raises(DataMissingError, match=name):
            module.SPEC.build(context(tmp_path, tmp_path), **module.SPEC.options(sizes=(1, 1, 1)))
        with pytest.raises(DataMissingError, match=name) as caught:
            module.SPEC.build(context(tmp_path, None, download=False), **module.SPEC.options(sizes=(1, 1, 1)))
        assert str(tmp_path / "raw" / name) in str(caught.value)


@pytest.mark.parametrize("module", [mnist, cifar10])
def test_an_incomplete_source_does_not_yield_to_the_data_root(tmp_path, module):
    name = module.__name__.rpartition(".")[2]
    for folder, parts in ((tmp_path / "raw", ("train", "test")), (tmp_path / "mine", ("train",))):
        folder.mkdir()
        for part in parts:
            (folder / f"{name}_sp_{part}.npz").touch()
    with pytest.raises(DataMissingError, match=rf"{name}_sp_test\.npz there"):
        module.SPEC.build(context(tmp_path, tmp_path / "mine"), **module.SPEC.options(sizes=(1, 1, 1)))


SETTINGS = {"limit": 75, "extra": 20, "compactness": 0.25}


def write_images(folder: Path, images: np.ndarray) -> str:
    np.save(folder / "images.npy", images)
    return str(folder / "images.npy")


def test_superpixels_tile_the_image_and_their_sums_are_the_images(tmp_path):
    pytest.importorskip("skimage")
    images = np.random.default_rng(1).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    cut = cut_images(write_images(tmp_path, images), 0, 3, limit=150, extra=50, compactness=10.0)
    ends = np.cumsum(cut["count"].astype(int))
    for image, size, colour, position in zip(
        images,
        np.split(cut["size"], ends[:-1]),
        np.split(cut["colour"], ends[:-1]),
        np.split(cut["position"], ends[:-1]),
        strict=True,
    ):
        assert size.sum() == 32 * 32
        np.testing.assert_array_equal(colour.sum(axis=0), image.reshape(-1, 3).sum(axis=0, dtype=np.int64))
        np.testing.assert_array_equal(position.sum(axis=0), [32 * sum(range(32))] * 2)


def test_features_are_means_between_zero_and_one():
    regions = Regions(np.array([1, 1]), np.array([4, 784]), np.array([[510], [784 * 255]]), np.array([[6, 54], [0, 0]]))
    colour, position = regions.features(28)
    np.testing.assert_allclose(colour[:, 0], [0.5, 1.0])
    np.testing.assert_allclose(position[0], [1.5 / 28, 13.5 / 28])


def prepared_arrays() -> dict[str, np.ndarray]:
    return {
        "label": np.array([3, 7], np.uint8),
        "count": np.array([2, 1], np.uint8),
        "size": np.array([2, 2, 4], np.uint8),
        "pix_q": np.ones((3, 1), np.uint8),
        "pix_r": np.zeros((3, 1), np.uint8),
        "pos_q": np.ones((3, 2), np.uint8),
        "pos_r": np.zeros((3, 2), np.uint8),
    }


def test_a_prepared_file_is_read(tmp_path):
    np.savez(tmp_path / "a.npz", **prepared_arrays())
    regions, label = read_prepared(tmp_path / "a.npz", pixels=4, channels=1)
    assert label.tolist() == [3, 7]
    np.testing.assert_array_equal(regions.colour[:, 0], [2, 2, 4])
    assert regions.between(1, 2).size.tolist() == [4]


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("count", np.array([1, 1], np.uint8), "one row each"),
        ("size", np.array([2, 3, 4], np.uint8), "5 in image 0"),
        ("size", np.array([4, 0, 4], np.uint8), "empty superpixel"),
        ("count", np.array([3, 0], np.uint8), "without superpixels"),
        ("label", np.array([3, 10], np.uint8), "above 9"),
        ("pix_q", np.ones((3, 3), np.uint8), "one row each"),
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
        read_prepared(tmp_path / "a.npz", pixels=4, channels=1)


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def test_idx_files_are_read_compressed_or_not(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5), dtype=np.uint8)
    (tmp_path / "images").write_bytes(idx(images))
    (tmp_path / "images.gz").write_bytes(gzip.compress(idx(images)))
    for name in ("images", "images.gz"):
        np.testing.assert_array_equal(read_idx(tmp_path / name), images)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", DataError),
        (b"\x00\x00", DataError),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00\x00\x00\x00", DataError),  # floats
        (b"hello, this is no IDX file", DataError),
        (idx(np.zeros((4, 4), np.uint8))[:-1], ChecksumError),
        (idx(np.zeros((4, 4), np.uint8)) + b"x", ChecksumError),
    ],
)
def test_a_file_that_is_no_idx_file_is_named_and_refused(content, error, tmp_path):
    (tmp_path / "labels").write_bytes(content)
    with pytest.raises(error, match="labels"):
        read_idx(tmp_path / "labels")


def test_a_truncated_or_changed_archive_is_named_and_refused(tmp_path):
    whole = gzip.compress(idx(np.arange(200, dtype=np.uint8)))
    (tmp_path / "labels.gz").write_bytes(whole[:-12])
    with pytest.raises(ChecksumError, match=r"labels\.gz"):
        read_idx(tmp_path / "labels.gz")
    (tmp_path / "labels.gz").write_bytes(b"no gzip at all")
    with pytest.raises(ChecksumError, match=r"labels\.gz"):
        read_idx(tmp_path / "labels.gz")
    (tmp_path / "labels.gz").write_bytes(whole)
    with pytest.raises(ChecksumError, match="MD5"):
        read_idx(tmp_path / "labels.gz", md5="0" * 32)


def test_the_real_files_have_the_published_sums_and_shapes(tmp_path):
    shared("mnist/raw")
    images = mnist.read_images(MNIST, BuildContext(raw=tmp_path, work=tmp_path, source=shared()))
    assert images["train"].pixels.shape == (60_000, 28, 28)
    assert images["test"].pixels.shape == (10_000, 28, 28)
    assert np.bincount(images["train"].label).tolist()[:3] == [5923, 6742, 5958]


def test_other_images_under_the_same_names_are_refused(tmp_path):
    for name in MD5:
        (tmp_path / name).write_bytes(idx(np.zeros((2, 28, 28), np.uint8)))
    with pytest.raises(ChecksumError, match="train-images-idx3-ubyte"):
        mnist.read_images(MNIST, BuildContext(raw=tmp_path, work=tmp_path, source=tmp_path))


def test_offline_all_missing_files_are_named_at_once(tmp_path):
    with pytest.raises(DataMissingError) as caught:
        mnist.read_images(MNIST, BuildContext(raw=tmp_path, work=tmp_path, download=False))
    for name in MD5:
        assert str(tmp_path / f"{name}.gz") in caught.value.expected
        assert f"{name}.gz and put it at {tmp_path}" in caught.value.remedy


def batch(count: int = 3, **changed) -> bytes:
    """As Python 2 wrote the official ones: text keys read back as bytes."""
    rng = np.random.default_rng(0)
    content = {
        b"batch_label": b"training batch 1 of 5",
        b"labels": [i % 10 for i in range(count)],
        b"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
        b"filenames": [b"a.png"] * count,
    }
    content.update({key.encode(): value for key, value in changed.items()})
    return pickle.dumps(content, protocol=2)


def archive_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_the_batches_of_the_official_archive_are_read_as_images(tmp_path, monkeypatch):
    archive = archive_of({f"{FOLDER}/{name}": batch() for name in BATCHES})
    (tmp_path / ARCHIVE).write_bytes(archive)
    monkeypatch.setattr(cifar10, "ARCHIVE_MD5", hashlib.md5(archive).hexdigest())
    monkeypatch.setattr(cifar10, "BATCHES", dict.fromkeys(BATCHES, hashlib.md5(batch()).hexdigest()))
    found = cifar10.read_images(CIFAR10, context(tmp_path, tmp_path))
    images, data = found["test"], pickle.loads(batch())[b"data"]
    assert found["train"].pixels.shape == (15, 32, 32, 3)
    assert images.pixels.shape == (3, 32, 32, 3)
    assert images.label.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(images.pixels[1, 5, 7], data[1, [5 * 32 + 7, 1024 + 5 * 32 + 7, 2048 + 5 * 32 + 7]])


def test_a_batch_written_by_python_2_itself_is_read(tmp_path):
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I1\nI3072\ntcnumpy\ndtype\n"
        b"(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\nS'" + b"\\x07" * 3072 + b"'\ntb"
    )
    (tmp_path / "data_batch_1").write_bytes(b"(dS'labels'\n(lI9\nasS'data'\n" + array + b"s.")
    images = read_batch(tmp_path / "data_batch_1")
    assert images.label.tolist() == [9]
    assert (images.pixels == 7).all()


def test_a_hostile_batch_is_refused_and_nothing_of_it_runs(tmp_path):
    mark = tmp_path / "ran"
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Hostile(mark), b"labels": []}))
    with pytest.raises(DataError, match="system"):
        read_batch(tmp_path / "data_batch_1")
    assert not mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps([1, 2]),
        pickle.dumps({b"data": 1}),
        batch(data=np.zeros((3, 5), np.uint8)),
        batch(data=np.zeros((3, 3072), np.float32)),
        batch(labels=[1, 2]),
        batch(labels=[1, 2, 10]),
        batch(labels=[1, 2, 0.5]),
        batch()[:-200],
        b"",
    ],
)
def test_a_batch_that_does_not_fit_is_named_and_refused(content, tmp_path):
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(DataError, match="data_batch_1"):
        read_batch(tmp_path / "data_batch_1")


def test_an_archive_or_batches_other_than_the_official_ones_are_refused(tmp_path):
    here = BuildContext(raw=tmp_path / "raw", work=tmp_path / "work", source=tmp_path)
    (tmp_path / ARCHIVE).write_bytes(archive_of({f"{FOLDER}/{name}": batch() for name in BATCHES}))
    with pytest.raises(ChecksumError, match="c58f30108f718f92721af3b95e74349a"):
        cifar10.read_images(CIFAR10, here)
    (tmp_path / FOLDER).mkdir()
    for name in BATCHES:
        (tmp_path / FOLDER / name).write_bytes(batch())
    with pytest.raises(ChecksumError, match="c99cafc152244af753f735de768cd75f"):
        cifar10.read_images(CIFAR10, here)


def digits(count: int) -> np.ndarray:
    path = shared("mnist/raw/train-images-idx3-ubyte.gz")
    if not path.is_file():
        pytest.skip("the MNIST images are not beside this checkout")
    with gzip.open(path) as file:
        return np.frombuffer(file.read(16 + 784 * count), np.uint8, offset=16).reshape(-1, 28, 28)


def test_the_benchmarks_numbers_of_superpixels_hold_where_todays_slic_gives_fewer():
    segmentation = pytest.importorskip("skimage.segmentation")
    images = digits(60)
    ours = [slic_labels(image, MNIST_SETTINGS).max() + 1 for image in images]
    with np.load(shared("superpixels/mnist_sp_train.npz")) as prepared:
        assert ours == prepared["count"][:60].tolist()

    def today(image):
        for asked in range(95, 0, -1):
            found = len(np.unique(segmentation.slic(image / 255.0, asked, compactness=0.25, channel_axis=None)))
            if found <= 75:
                return found
        return 0

    assert np.mean(ours) - np.mean([today(image) for image in images[:20]]) > 1


def test_every_region_is_numbered_and_the_limit_holds_for_colours():
    pytest.importorskip("skimage")
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    labels = slic_labels(image, CIFAR10_SETTINGS)
    assert labels.shape == (32, 32)
    assert set(labels.ravel().tolist()) == set(range(labels.max() + 1))
    assert 1 < labels.max() + 1 <= 150
    np.testing.assert_array_equal(labels, slic_labels(image.copy(), CIFAR10_SETTINGS))


@pytest.mark.parametrize("value", [0, 255])
def test_an_image_of_one_colour_is_cut_into_a_grid(value):
    pytest.importorskip("skimage")
    labels = slic_labels(np.full((28, 28), value, np.uint8), MNIST_SETTINGS)
    assert 1 < labels.max() + 1 <= 75


def test_other_images_are_refused():
    pytest.importorskip("skimage")
    with pytest.raises(DTypeError, match="float64"):
        slic_labels(np.zeros((28, 28)), MNIST_SETTINGS)
    with pytest.raises(ShapeError, match="28, 28, 4"):
        slic_labels(np.zeros((28, 28, 4), np.uint8), MNIST_SETTINGS)


def edges_of_one_graph(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The benchmark's rule written out for one graph of more than nine nodes."""
    n = len(position)
    distance = cdist(position, position)
    sigma = np.partition(distance, 8, axis=-1)[:, :9].sum(axis=1).reshape(n, 1) / 8 + 1e-8
    a = np.exp(-((distance / sigma) ** 2))
    a = 0.5 * (a + a.T)
    a[np.diag_indices(n)] = 0
    neighbours = np.argpartition(a, n - 10, axis=-1)[:, n - 9 : -1]
    return neighbours, np.take_along_axis(a, neighbours, axis=-1)


def test_many_graphs_at_once_equal_the_rule_graph_by_graph():
    rng = np.random.default_rng(0)
    count = rng.integers(10, 60, 80)
    # Half of the graphs on a grid: there many distances are equal, and rounding decides.
    position = [rng.random((n, 2)) if g % 2 else rng.integers(0, 9, (n, 2)) / 28 for g, n in enumerate(count)]
    edges = superpixel_edges(count, np.concatenate(position))
    assert edges.count.tolist() == (8 * count).tolist()
    ends = np.cumsum(edges.count)[:-1]
    for place, index, weight in zip(
        position, np.split(edges.index, ends, axis=1), np.split(edges.weight, ends), strict=True
    ):
        neighbours, closeness = edges_of_one_graph(place)
        np.testing.assert_array_equal(index[0], np.repeat(np.arange(len(place)), 8))
        np.testing.assert_array_equal(index[1], neighbours.ravel())
        np.testing.assert_array_equal(weight, closeness.ravel().astype(np.float32))


@pytest.mark.parametrize("n", [1, 2, 8, 9])
def test_so_few_superpixels_are_all_joined_to_each_other(n):
    position = np.random.default_rng(n).random((n, 2))
    edges = superpixel_edges(np.array([n, n]), np.concatenate([position, position]))
    assert edges.count.tolist() == [n * (n - 1)] * 2
    first = edges.index[:, : n * (n - 1)].T.tolist()
    assert sorted(first) == sorted([i, j] for i in range(n) for j in range(n) if i != j)
    assert np.isfinite(edges.weight).all()


def test_the_number_of_threads_does_not_matter_and_progress_is_told():
    rng = np.random.default_rng(5)
    count = rng.integers(10, 80, 300)
    position = rng.random((count.sum(), 2))
    seen = []
    one = superpixel_edges(count, position, workers=1)
    two = superpixel_edges(count, position, workers=2, progress=lambda *args: seen.append(args))
    np.testing.assert_array_equal(one.index, two.index)
    np.testing.assert_array_equal(one.weight, two.weight)
    assert seen[-1] == ("edges between superpixels", 300, 300)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_superpixels_at_the_same_place_give_finite_weights():
    edges = superpixel_edges(np.array([12]), np.zeros((12, 2)))
    assert np.isfinite(edges.weight).all()
