import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from lrga.data.datasets.place import BuildPlace
from lrga.data.datasets.superpixels.mnist import MD5, read_idx, read_images
from lrga.errors import ChecksumError, DataError, DataMissingError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"


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
    if not (SHARED / "mnist/raw").is_dir():
        pytest.skip("the MNIST images are not beside this checkout")
    images = read_images(BuildPlace(raw=tmp_path, work=tmp_path, source=SHARED))
    assert images["train"].pixels.shape == (60_000, 28, 28)
    assert images["test"].pixels.shape == (10_000, 28, 28)
    assert np.bincount(images["train"].label).tolist()[:3] == [5923, 6742, 5958]


def test_other_images_under_the_same_names_are_refused(tmp_path):
    for name in MD5:
        (tmp_path / name).write_bytes(idx(np.zeros((2, 28, 28), np.uint8)))
    with pytest.raises(ChecksumError, match="train-images-idx3-ubyte"):
        read_images(BuildPlace(raw=tmp_path, work=tmp_path, source=tmp_path))


def test_offline_all_missing_files_are_named_at_once(tmp_path):
    with pytest.raises(DataMissingError) as caught:
        read_images(BuildPlace(raw=tmp_path, work=tmp_path, download=False))
    for name in MD5:
        assert str(tmp_path / f"{name}.gz") in caught.value.expected
        assert f"{name}.gz and put it at {tmp_path}" in caught.value.remedy
