import hashlib
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lrga.data.datasets.prepared import check_md5, check_sums, find_files, limited_sizes, read_arrays
from lrga.errors import ChecksumError, DataError, DataMissingError, OptionError


def test_files_are_found_in_the_folder_or_together_in_a_subfolder(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "a").write_text("")
    (tmp_path / "raw/b").write_text("")
    assert find_files(tmp_path, ["a", "b"], below=["raw"]) is None
    (tmp_path / "raw/a").write_text("")
    assert find_files(tmp_path, ["a", "b"], below=["raw"]) == [tmp_path / "raw/a", tmp_path / "raw/b"]
    (tmp_path / "b").write_text("")
    assert find_files(tmp_path, ["a", "b"], below=["raw"]) == [tmp_path / "a", tmp_path / "b"]


def test_a_list_of_checksums_above_a_file_is_heeded(tmp_path):
    (tmp_path / "zinc").mkdir()
    path = tmp_path / "zinc/a.npz"
    path.write_bytes(b"content")
    check_sums(path)  # no list, no check
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{hashlib.sha256(b'content').hexdigest()}  ./zinc/a.npz\n")
    check_sums(path)
    sums.write_text(f"{hashlib.sha256(b'other').hexdigest()} *zinc/a.npz\n")
    with pytest.raises(ChecksumError, match=r"a\.npz"):
        check_sums(path)
    sums.write_text(f"{hashlib.sha256(b'other').hexdigest()}  ./zinc/b.npz\n")
    check_sums(path)


def test_arrays_come_back_and_a_missing_one_is_named(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", n=np.arange(3), m=np.zeros(2))
    assert read_arrays(tmp_path / "a.npz", ["n"])["n"].tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="no k"):
        read_arrays(tmp_path / "a.npz", ["n", "k"])
    with pytest.raises(DataMissingError, match=r"b\.npz"):
        read_arrays(tmp_path / "b.npz", ["n"])


class Hostile:
    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def test_objects_in_an_archive_are_refused_and_not_run(tmp_path):
    np.savez(tmp_path / "a.npz", n=np.array([Hostile(tmp_path / "ran")], dtype=object))
    with pytest.raises(DataError, match="plain arrays"):
        read_arrays(tmp_path / "a.npz", ["n"])
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("n.npy", pickle.dumps(Hostile(tmp_path / "ran")))
    with pytest.raises(DataError, match="plain arrays"):
        read_arrays(tmp_path / "b.npz", ["n"])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", ["empty", "text", "half", "flipped", "npy"])
def test_a_damaged_archive_is_named(kind, tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, n=np.random.default_rng(0).integers(0, 99, 500))
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "empty": b"",
            "text": b"hello",
            "half": whole[:middle],
            "flipped": whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :],
            "npy": b"\x93NUMPY\x01\x00",
        }[kind]
    )
    with pytest.raises(ChecksumError, match=r"a\.npz"):
        read_arrays(path, ["n"])


def test_md5_of_a_content_is_compared(tmp_path):
    check_md5(tmp_path / "a", b"abc", "900150983cd24fb0d6963f7d28e17f72", what="the file")
    with pytest.raises(ChecksumError, match="the file with MD5 0000"):
        check_md5(tmp_path / "a", b"abc", "0000", what="the file")


def test_sizes_beyond_what_is_there_are_refused():
    available = {"train": 10, "val": 2, "test": 3}
    assert limited_sizes(None, available) == [10, 2, 3]
    assert limited_sizes((1, 2, 3), available) == [1, 2, 3]
    with pytest.raises(OptionError, match="at most 2 graphs of val"):
        limited_sizes((1, 3, 3), available)
