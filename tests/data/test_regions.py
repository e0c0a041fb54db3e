import gzip
from pathlib import Path

import numpy as np
import pytest

from lrga.data.datasets.superpixels.regions import ARRAYS, Regions, cut_images, join, read_prepared
from lrga.errors import ChecksumError, DataError, DataMissingError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
SETTINGS = {"limit": 75, "extra": 20, "compactness": 0.25}


def write_images(folder: Path, images: np.ndarray) -> str:
    np.save(folder / "images.npy", images)
    return str(folder / "images.npy")


def test_images_cut_here_equal_the_prepared_superpixels(tmp_path):
    raw, prepared = SHARED / "mnist/raw/t10k-images-idx3-ubyte.gz", SHARED / "superpixels/mnist_sp_test.npz"
    if not raw.is_file() or not prepared.is_file():
        pytest.skip("the MNIST images and superpixels are not beside this checkout")
    pytest.importorskip("skimage")
    with gzip.open(raw) as file:
        images = np.frombuffer(file.read(16 + 784 * 50), np.uint8, offset=16).reshape(-1, 28, 28)
    path = write_images(tmp_path, images)
    parts = []
    for first, stop in ((0, 20), (20, 50)):
        np.savez(tmp_path / f"{first}.npz", **cut_images(path, first, stop, **SETTINGS))
        parts.append(tmp_path / f"{first}.npz")
    ours = join(parts)
    theirs, _ = read_prepared(prepared, pixels=784, channels=1)
    theirs = theirs.between(0, 50)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    for mine, other in zip(ours.features(28), theirs.features(28), strict=True):
        np.testing.assert_array_equal(mine, other)


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


def test_a_missing_or_truncated_file_is_named(tmp_path):
    with pytest.raises(DataMissingError, match=r"a\.npz"):
        read_prepared(tmp_path / "a.npz", pixels=4, channels=1)
    np.savez(tmp_path / "a.npz", **prepared_arrays())
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises((ChecksumError, DataError), match=r"a\.npz"):
        read_prepared(tmp_path / "a.npz", pixels=4, channels=1)
