import errno
import gzip
import os
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from lrga.errors import CheckpointError, ChecksumError, DataError, DataMissingError
from lrga.io.files import (
    FileFacts,
    append_bytes,
    atomic_path,
    facts_of,
    sha256_of,
    verify_file,
    write_bytes,
    write_folder,
    write_new,
    writing,
)

try:
    import resource
except ImportError:  # Windows
    resource = None


@contextmanager
def small_files_only():
    """No file may grow beyond 1,000 bytes: what a full disk does, for this process alone (its log too: be brief)."""
    if resource is None:
        pytest.skip("limits on file sizes need a POSIX system")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with atomic_path(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
        assert temporary.parent == path.parent
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "file.txt"
    write_bytes(path, b"old")

    def interrupted():
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX's")
def test_a_written_file_has_the_permissions_of_any_other(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_text("")
    write_bytes(tmp_path / "atomic", b"1")
    write_folder(tmp_path / "folder", {"inside": b"1"})
    for name in ("atomic", "folder/inside"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)
    (tmp_path / "other").mkdir()
    assert (tmp_path / "folder").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_folder_in_the_way_of_a_file_is_reported_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="--data-root"):
        write_bytes(tmp_path / "file" / "below", b"", error=DataError)


def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path):
    path = tmp_path / "a"
    write_bytes(path, b"old")
    with small_files_only(), pytest.raises(CheckpointError, match=r"File too large.*free disk space"):
        write_bytes(path, b"n" * 5_000)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_appears_with_all_its_files_or_not_at_all_and_replaces_a_damaged_one(tmp_path):
    with small_files_only(), pytest.raises(CheckpointError):
        write_folder(tmp_path / "c", {"small": b"1", "large": b"n" * 5_000})
    assert os.listdir(tmp_path) == []
    write_folder(tmp_path / "c", {"a": b"1", "b": b"2"})
    write_folder(tmp_path / "c", {"a": b"3"})
    assert {name: (tmp_path / "c" / name).read_bytes() for name in os.listdir(tmp_path / "c")} == {"a": b"3"}
    assert os.listdir(tmp_path) == ["c"]


def test_a_new_file_never_replaces_another(tmp_path):
    path = tmp_path / "below" / "a"
    assert write_new(path, b"first")
    assert not write_new(path, b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(path.parent) == ["a"]


def test_bytes_are_appended_to_plain_files_only(tmp_path):
    append_bytes(tmp_path / "log", b"1")
    append_bytes(tmp_path / "log", b"2")
    assert (tmp_path / "log").read_bytes() == b"12"
    (tmp_path / "link").symlink_to(tmp_path / "log")
    with pytest.raises(CheckpointError, match="a regular file"):
        append_bytes(tmp_path / "link", b"3")
    assert (tmp_path / "log").read_bytes() == b"12"


def read_only_folder(tmp_path):
    """A folder that refuses to be written to, for root too where the system has one."""
    if os.geteuid() != 0:
        folder = tmp_path / "fixed"
        folder.mkdir()
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
        return folder
    if os.path.isdir("/sys/kernel"):
        return Path("/sys/kernel")
    return pytest.skip("root may write everywhere on this system")


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX's")
def test_a_read_only_folder_is_told_of(tmp_path):
    with pytest.raises(CheckpointError, match="to write"):
        write_bytes(read_only_folder(tmp_path) / "lrga" / "a", b"1")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOSPC, errno.EINVAL, 999])
def test_whatever_the_system_answers_is_reported_with_a_remedy(number):
    def write_where_it_cannot_be():
        with writing(Path("/data/x"), error=DataError):
            raise OSError(number, "the reason")

    with pytest.raises(DataError, match=r"to write /data/x, got the reason.*--data-root"):
        write_where_it_cannot_be()


@pytest.mark.parametrize("error", [DataMissingError("a", "b", "c"), gzip.BadGzipFile("damaged"), KeyError("x")])
def test_errors_that_are_not_the_systems_pass_unchanged(error):
    def read_something():
        with writing(Path("/data/x"), error=DataError):
            raise error

    with pytest.raises(type(error)) as caught:
        read_something()
    assert caught.value is error


def test_a_sound_file_passes_by_its_size_and_checksum(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    # The checksum that FIPS 180-2 prints for "abc".
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(tmp_path / "a") == expected
    assert facts_of(tmp_path / "a") == FileFacts(3, expected)
    (tmp_path / "a").write_bytes(b"abc")
    verify_file(tmp_path / "a", facts_of(tmp_path / "a"), remedy="none needed")
    verify_file(tmp_path / "a", FileFacts(), remedy="none needed")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (bytes(3), r"a of 3,000,000 bytes, got 3 bytes \(truncated\). To fix: rebuild"),
        (bytes(3_000_001), "too long"),
        (bytes(2_999_999) + b"\x01", "corrupted"),
        (None, "no such file"),
    ],
)
def test_a_changed_or_missing_file_is_named(content, match, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(bytes(3_000_000))
    facts = facts_of(path)
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises((ChecksumError, DataMissingError), match=match) as caught:
        verify_file(path, facts, remedy="rebuild")
    assert str(path) in str(caught.value)
