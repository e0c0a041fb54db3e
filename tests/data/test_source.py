"""What builders are given: the data root, options, files of the user."""

import hashlib
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import Hostile

from lrga.data.datasets.source import (
    BuildContext,
    check_sums,
    data_root,
    read_arrays,
)
from lrga.data.datasets.spec import spec_of
from lrga.errors import ChecksumError, DataError, DataMissingError, OptionError
from lrga.io.download import RemoteFile


def test_the_root_is_the_argument_or_else_the_environment_and_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "environment"))
    assert data_root(tmp_path / "argument") == tmp_path / "argument"
    assert data_root("here") == tmp_path / "here"
    assert data_root() == tmp_path / "environment"
    monkeypatch.setenv("LRGA_DATA", "~/graphs")
    assert data_root() == Path.home() / "graphs"
    monkeypatch.setenv("LRGA_DATA", "")  # as if it were not set
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_root() == Path.home() / ".cache/lrga"
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_root() == Path("/cache/lrga")


@pytest.mark.parametrize(
    ("name", "match"),
    [("a" * 300, "--data-root"), ("~no such user/x", "--data-root"), ("loop", "--data-root"), ("nul\0", "--data-root"),
     ("file", "the file"), ("", "empty path")],
)  # fmt: skip
def test_a_root_that_cannot_be_a_folder_is_refused(name, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match=match):
        data_root(name)


FULL = {"train": 10, "val": 2, "test": 3}


def test_a_place_needs_only_its_folders(tmp_path):
    place = BuildContext(tmp_path / "raw", tmp_path / "work")
    place.progress("step", 1, None)
    assert (place.source, place.download) == (None, True)


def test_sizes_have_defaults_in_the_order_of_the_splits():
    generated = replace(spec_of("CLUSTER"), splits=FULL)
    assert generated.options()["sizes"] == [10, 2, 3]
    assert generated.options(sizes=(4, 5, 6))["sizes"] == [4, 5, 6]


@pytest.mark.parametrize("sizes", [(1, 2), (1, 2, 3, 4), (0, 1, 1), (1, -1, 1), (1.0, 1, 1), "123", 5, (True, 1, 1)])
def test_what_is_no_size_is_refused(sizes):
    with pytest.raises(OptionError, match="three numbers of graphs"):
        spec_of("CLUSTER").options(sizes=sizes)


def test_the_first_layout_that_is_whole_is_taken_and_what_is_missing_named(tmp_path):
    context = BuildContext(tmp_path / "raw", tmp_path / "work", tmp_path / "mine")
    files = [RemoteFile("https://example.org/all.zip", "all.zip")]
    layouts = (["prepared"], ["a", "b"])
    (tmp_path / "mine/sub").mkdir(parents=True)
    (tmp_path / "mine/a").write_text("")
    with pytest.raises(DataMissingError, match=r"prepared or a, b in .*got no prepared\. .*example\.org/all\.zip"):
        context.locate(files, *layouts)
    (tmp_path / "mine/sub/b").write_text("")
    found = context.locate(files, *layouts, below=["sub"])
    assert found == ([tmp_path / "mine/./a", tmp_path / "mine/sub/b"], 1)
    (tmp_path / "mine/prepared").write_text("")
    assert context.locate(files, *layouts)[1] == 0


def test_an_archive_is_unpacked_and_its_files_found(tmp_path):
    context = BuildContext(tmp_path / "raw", tmp_path / "work", download=False)
    files = [RemoteFile("https://example.org/all.zip", "all.zip"), RemoteFile("https://example.org/b", "b")]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/prepared").write_text("")  # only a source may hold other forms
    (tmp_path / "raw/b").write_text("")
    with zipfile.ZipFile(tmp_path / "raw/all.zip", "w") as archive:
        archive.writestr("set/a", "")
    found = context.locate(files, ["prepared"], ["a", "b"], below=["set"])
    assert found == ([tmp_path / "work/set/a", tmp_path / "raw/b"], 1)


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


def test_objects_in_an_archive_are_refused_and_not_run(tmp_path):
    np.savez(tmp_path / "a.npz", n=np.array([Hostile(tmp_path / "ran")], dtype=object))
    with pytest.raises(ChecksumError, match="numeric arrays"):
        read_arrays(tmp_path / "a.npz", ["n"])
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("n.npy", pickle.dumps(Hostile(tmp_path / "ran")))
    with pytest.raises(ChecksumError, match="numeric arrays"):
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


def test_sizes_beyond_what_is_there_are_refused():
    options = replace(spec_of("ZINC"), splits=FULL).options
    assert options() == {"sizes": [10, 2, 3]}
    assert options(sizes=(1, 2, 3)) == {"sizes": [1, 2, 3]}
    with pytest.raises(OptionError, match="at most 2 graphs of val"):
        options(sizes=(1, 3, 3))
