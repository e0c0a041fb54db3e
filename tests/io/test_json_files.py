"""Writing: whole or not at all, refusals told in words."""

import os
import stat
from contextlib import contextmanager

import pytest

from lrga.errors import CheckpointError
from lrga.io.json_files import place_folder, read_json, replace_file, replace_json, to_json_bytes

resource = pytest.importorskip("resource", reason="limits on file sizes need a POSIX system")


@contextmanager
def small_files_only():
    """No file may grow beyond 1,000 bytes: what a full disk does, for this process alone (its log too: be brief)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "below" / "a.json"
    replace_json(path, {"a": 1})
    replace_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert os.listdir(path.parent) == ["a.json"]


def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path):
    path = tmp_path / "a"
    replace_file(path, b"old")
    with small_files_only(), pytest.raises(CheckpointError, match=r"File too large.*free some space"):
        replace_file(path, b"n" * 5_000)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_cannot_be_filled_does_not_appear(tmp_path):
    with small_files_only(), pytest.raises(CheckpointError):
        place_folder(tmp_path / "c", {"small": b"1", "large": b"n" * 5_000})
    assert os.listdir(tmp_path) == []


def test_a_folder_appears_with_all_its_files_and_replaces_a_damaged_one(tmp_path):
    place_folder(tmp_path / "c", {"a": b"1", "b": b"2"})
    place_folder(tmp_path / "c", {"a": b"3"})
    assert {name: (tmp_path / "c" / name).read_bytes() for name in os.listdir(tmp_path / "c")} == {"a": b"3"}
    assert os.listdir(tmp_path) == ["c"]


def read_only_folder(tmp_path):
    """A folder that refuses to be written to, for root too where the system has one."""
    if os.geteuid() != 0:
        folder = tmp_path / "fixed"
        folder.mkdir()
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
        return folder
    if os.path.isdir("/sys/kernel"):
        return type(tmp_path)("/sys/kernel")
    return pytest.skip("root may write everywhere on this system")


def test_a_read_only_folder_is_told_of(tmp_path):
    with pytest.raises(CheckpointError, match="to write"):
        replace_file(read_only_folder(tmp_path) / "lrga" / "a", b"1")


def test_json_that_others_could_not_read_is_not_written():
    with pytest.raises(ValueError):
        to_json_bytes({"loss": float("nan")})


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="no such file"):
        read_json(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"bad\.json"):
        read_json(tmp_path / "bad.json")
