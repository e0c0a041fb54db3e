import io
import os
import pickle
import tarfile

import numpy as np
import pytest

from lrga.data.datasets.place import BuildPlace
from lrga.data.datasets.superpixels.cifar10 import ARCHIVE, BATCHES, FOLDER, read_batch, read_images, unpack_batches
from lrga.errors import ChecksumError, DataError


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


def test_a_batch_of_the_official_archive_is_read_as_images(tmp_path):
    (tmp_path / ARCHIVE).write_bytes(archive_of({f"{FOLDER}/{name}": batch() for name in BATCHES}))
    paths = unpack_batches(tmp_path / ARCHIVE, tmp_path / "work")
    assert [path.name for path in paths] == list(BATCHES)
    images = read_batch(paths[0])
    data = pickle.loads(batch())[b"data"]
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


class Hostile:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


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
    here = BuildPlace(raw=tmp_path / "raw", work=tmp_path / "work", source=tmp_path)
    (tmp_path / ARCHIVE).write_bytes(archive_of({f"{FOLDER}/{name}": batch() for name in BATCHES}))
    with pytest.raises(ChecksumError, match="c58f30108f718f92721af3b95e74349a"):
        read_images(here)
    (tmp_path / FOLDER).mkdir()
    for name in BATCHES:
        (tmp_path / FOLDER / name).write_bytes(batch())
    with pytest.raises(ChecksumError, match="c99cafc152244af753f735de768cd75f"):
        read_images(here)
