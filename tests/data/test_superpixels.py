"""MNIST and CIFAR10 on slices of the real files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lrga.data.datasets.place import BuildPlace
from lrga.data.datasets.superpixels import cifar10, mnist
from lrga.data.datasets.superpixels.images import VALIDATION, Images, ImageSet, build_superpixels
from lrga.data.datasets.superpixels.slic import MNIST_SETTINGS
from lrga.errors import DataError, DataMissingError, OptionError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
FIELDS = ("x", "y", "edge_index", "edge_attr")


def place(folder: Path, source: Path | None, **options) -> BuildPlace:
    return BuildPlace(raw=folder / "raw", work=folder / "work", source=source, **options)


def shared(name: str) -> Path:
    if not (SHARED / name).exists():
        pytest.skip(f"{name} is not beside this checkout")
    return SHARED / name


def test_mnist_from_images_equals_mnist_from_prepared_superpixels(tmp_path):
    pytest.importorskip("skimage")
    options = mnist.options(sizes=(30, 20, 25))
    cut = mnist.build(place(tmp_path, shared("mnist")), **options)
    prepared = mnist.build(place(tmp_path, shared("superpixels")), **options)
    for split in ("train", "val", "test"):
        for name in FIELDS:
            assert torch.equal(getattr(cut[split], name), getattr(prepared[split], name)), (split, name)
    assert [len(cut[split]) for split in ("train", "val", "test")] == [30, 20, 25]
    assert cut["train"].meta["origin"] != prepared["train"].meta["origin"]


@pytest.mark.parametrize(
    ("module", "first_counts", "first_labels", "width"),
    [(mnist, (69, 71, 74), (7, 5, 7), 3), (cifar10, (110, 123, 118), (6, 6, 3), 5)],
)
def test_the_first_graphs_are_those_the_benchmark_prints(module, first_counts, first_labels, width, tmp_path):
    graphs = module.build(place(tmp_path, shared("superpixels"), workers=2), **module.options(sizes=(40, 40, 40)))
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
    source = shared("superpixels")
    few = {"train": 3, "val": 2, "test": 2}
    monkeypatch.setattr(mnist, "SPEC", replace(mnist.SPEC, splits=few))
    with pytest.raises(DataError, match="70.57"):
        mnist.build(place(tmp_path, source), **mnist.options(sizes=(3, 2, 2)))


def few_images(count: int, label: int = 0) -> Images:
    rng = np.random.default_rng(count)
    return Images(rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.full(count, label, np.uint8))


def tiny_set(train: int = VALIDATION + 6, test: int = 5) -> ImageSet:
    official = {"train": few_images(train), "test": few_images(test, 1)}
    return ImageSet(mnist.SPEC, 28, 1, MNIST_SETTINGS, lambda _: official)


def test_a_build_cut_off_goes_on_where_it_was(tmp_path, monkeypatch):
    pytest.importorskip("skimage")
    monkeypatch.setattr("lrga.data.datasets.superpixels.images.PART_IMAGES", 2)
    images, here = tiny_set(), place(tmp_path, None)
    whole = build_superpixels(images, here, [6, 4, 5])
    parts = sorted(here.work.glob("*.npz"))
    assert len(parts) == 3 + 2 + 3
    kept = {path: path.stat().st_mtime_ns for path in parts[2:]}
    parts[0].unlink()
    parts[1].write_bytes(parts[1].read_bytes()[:-30])  # a disk's fault
    seen = []
    again = build_superpixels(images, place(tmp_path, None, progress=lambda *args: seen.append(args)), [6, 4, 5])
    assert {path: path.stat().st_mtime_ns for path in parts[2:]} == kept
    cutting = [done for label, done, _ in seen if label.startswith("cutting")]
    assert cutting[0] > 0
    assert cutting[-1] == 15
    for split, graphs in whole.items():
        for name in FIELDS:
            assert torch.equal(getattr(graphs, name), getattr(again[split], name))


def test_too_few_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="at least 5,001 images"):
        build_superpixels(tiny_set(train=VALIDATION), place(tmp_path, None), [1, 1, 1])


def test_more_graphs_than_there_are_cannot_be_asked_for():
    with pytest.raises(OptionError, match="at most 5,000 graphs of val"):
        mnist.options(sizes=(10, 5001, 10))
    assert cifar10.options() == {"sizes": [45_000, 5_000, 10_000]}


def test_a_source_without_the_files_is_told_which_to_put_there(tmp_path):
    for module, name in ((mnist, "train-images-idx3-ubyte.gz"), (cifar10, "cifar-10-python.tar.gz")):
        with pytest.raises(DataMissingError, match=name):
            module.build(place(tmp_path, tmp_path), **module.options(sizes=(1, 1, 1)))
        with pytest.raises(DataMissingError, match=name) as caught:
            module.build(place(tmp_path, None, download=False), **module.options(sizes=(1, 1, 1)))
        assert str(tmp_path / "raw" / name) in str(caught.value)


@pytest.mark.parametrize("module", [mnist, cifar10])
def test_an_incomplete_source_does_not_yield_to_the_data_root(tmp_path, module):
    name = module.__name__.rpartition(".")[2]
    for folder, parts in ((tmp_path / "raw", ("train", "test")), (tmp_path / "mine", ("train",))):
        folder.mkdir()
        for part in parts:
            (folder / f"{name}_sp_{part}.npz").touch()
    with pytest.raises(DataMissingError, match=rf"and no {name}_sp_test\.npz\."):
        module.build(place(tmp_path, tmp_path / "mine"), **module.options(sizes=(1, 1, 1)))
