import errno
import gzip
import os
import stat
from pathlib import Path

import pytest

from lrga.errors import ChecksumError, DataError, DataMissingError
from lrga.io.files import (
    FileFacts,
    atomic_path,
    facts_of,
    sha256_of,
    verify_file,
    writable,
    write_bytes,
    write_json,
)


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
    write_json(tmp_path / "atomic", [1])
    mode = stat.S_IMODE((tmp_path / "atomic").stat().st_mode)
    assert mode == stat.S_IMODE(ordinary.stat().st_mode)


def test_json_is_written_readably_and_ends_with_a_line_break(tmp_path):
    write_json(tmp_path / "a.json", {"name": "Süß"})
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n  "name": "Süß"\n}\n'


def test_a_folder_in_the_way_of_a_file_is_reported_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="--data-root"):
        write_bytes(tmp_path / "file" / "below", b"")


def test_a_full_disk_is_reported_with_a_remedy():
    def write_to_a_full_disk():
        with writable(Path("/data/x")):
            raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space left on device.*free some space"):
        write_to_a_full_disk()


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO, errno.EINVAL, 999])
def test_whatever_the_system_answers_is_reported_with_a_remedy(number):
    def write_where_it_cannot_be():
        with writable(Path("/data/x")):
            raise OSError(number, "the reason")

    with pytest.raises(DataError, match=r"to write /data/x, got the reason.*--data-root"):
        write_where_it_cannot_be()


@pytest.mark.parametrize("error", [DataMissingError("a", "b", "c"), gzip.BadGzipFile("damaged"), KeyError("x")])
def test_errors_that_are_not_the_systems_pass_unchanged(error):
    def read_something():
        with writable(Path("/data/x")):
            raise error

    with pytest.raises(type(error)) as caught:
        read_something()
    assert caught.value is error


def test_facts_are_size_and_checksum(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    # The checksum that FIPS 180-2 prints for "abc".
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(tmp_path / "a") == expected
    assert facts_of(tmp_path / "a") == FileFacts(3, expected)


def test_a_sound_file_passes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    verify_file(tmp_path / "a", facts_of(tmp_path / "a"), remedy="none needed")
    verify_file(tmp_path / "a", FileFacts(), remedy="none needed")


def test_a_truncated_file_is_named(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"abcdef")
    facts = facts_of(path)
    path.write_bytes(b"abc")
    with pytest.raises(ChecksumError, match=r"a of 6 bytes, got 3 bytes \(truncated\). To fix: rebuild"):
        verify_file(path, facts, remedy="rebuild")


def test_a_file_with_something_appended_is_named(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    facts = facts_of(path)
    path.write_bytes(b"abcd")
    with pytest.raises(ChecksumError, match="too long"):
        verify_file(path, facts, remedy="rebuild")


def test_one_changed_bit_is_noticed(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(bytes(3_000_000))
    facts = facts_of(path)
    path.write_bytes(bytes(2_999_999) + b"\x01")
    with pytest.raises(ChecksumError, match="corrupted") as caught:
        verify_file(path, facts, remedy="rebuild")
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataMissingError, match="no such file"):
        verify_file(tmp_path / "a", FileFacts(1, None), remedy="rebuild")
