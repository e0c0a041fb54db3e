import gzip
from pathlib import Path

import numpy as np
import pytest

from lrga.data.datasets.superpixels.slic import CIFAR10_SETTINGS, MNIST_SETTINGS, slic_labels
from lrga.errors import DTypeError, ShapeError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"


def digits(count: int) -> np.ndarray:
    path = SHARED / "mnist/raw/train-images-idx3-ubyte.gz"
    if not path.is_file():
        pytest.skip("the MNIST images are not beside this checkout")
    with gzip.open(path) as file:
        return np.frombuffer(file.read(16 + 784 * count), np.uint8, offset=16).reshape(-1, 28, 28)


def test_the_benchmarks_numbers_of_superpixels_hold_where_todays_slic_gives_fewer():
    segmentation = pytest.importorskip("skimage.segmentation")
    images = digits(60)
    ours = [slic_labels(image, MNIST_SETTINGS).max() + 1 for image in images]
    with np.load(SHARED / "superpixels/mnist_sp_train.npz") as prepared:
        assert ours == prepared["count"][:60].tolist()

    def today(image):
        for asked in range(95, 0, -1):
            found = len(np.unique(segmentation.slic(image / 255.0, asked, compactness=0.25, channel_axis=None)))
            if found <= 75:
                return found
        return 0

    assert np.mean(ours) - np.mean([today(image) for image in images[:20]]) > 1


def test_the_first_images_of_each_split_have_the_published_numbers():
    images = digits(5001)
    assert slic_labels(images[5000], MNIST_SETTINGS).max() + 1 == 69  # the first of train
    assert slic_labels(images[0], MNIST_SETTINGS).max() + 1 == 71  # the first of val


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
