import zipfile

import pytest

from lrga.errors import ChecksumError, DataMissingError
from lrga.io.download import extract, is_whole


def make_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_files_come_out_below_their_paths_or_only_those_asked_for(tmp_path):
    archive = make_zip(tmp_path / "archive", {"a/b.txt": b"one", "c.txt": b"two"})
    extract(archive, tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_bytes() == b"one"
    assert (tmp_path / "out/c.txt").read_bytes() == b"two"
    archive = make_zip(tmp_path / "archive", {"set/a.txt": b"one", "set/b.txt": b"two"})
    extract(archive, tmp_path / "out", ["b.txt", "no.txt"])
    assert [path.name for path in (tmp_path / "out/set").iterdir()] == ["b.txt"]


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "a/../../evil.txt"])
def test_no_path_leaves_the_folder(tmp_path, name):
    extract(make_zip(tmp_path / "archive", {name: b"evil"}), tmp_path / "deep/out")
    (found,) = (path for path in tmp_path.rglob("evil.txt"))
    assert found.is_relative_to(tmp_path / "deep/out")


def test_a_link_comes_out_as_a_plain_file(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "links.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    extract(tmp_path / "links.zip", tmp_path / "out")
    assert not (tmp_path / "out/link").is_symlink()
    assert (tmp_path / "out/link").read_text() == "/etc/passwd"


def test_damaged_and_foreign_archives_are_named_and_refused(tmp_path):
    path = make_zip(tmp_path / "a.zip", {"a.txt": b"content that is stored as it is"})
    assert is_whole(path)
    path.write_bytes(path.read_bytes().replace(b"content", b"CONTENT", 1))
    (tmp_path / "page.zip").write_text("<html>not found</html>")
    for name in ("a.zip", "page.zip"):
        assert not is_whole(tmp_path / name)
        with pytest.raises(ChecksumError, match=name):
            extract(tmp_path / name, tmp_path / "out")
    with pytest.raises(DataMissingError, match=r"none\.zip"):
        extract(tmp_path / "none.zip", tmp_path / "out")


@pytest.mark.parametrize(("place", "value"), [(6, 1), (8, 97)])  # encrypted, and compressed in an unknown way
def test_members_that_cannot_be_read_are_refused(tmp_path, place, value):
    content = bytearray(make_zip(tmp_path / "a.zip", {"a": b"12"}).read_bytes())
    for at in (content.index(b"PK\x03\x04") + place, content.index(b"PK\x01\x02") + place + 2):
        content[at] = value
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ChecksumError, match="a valid archive"):
        extract(tmp_path / "a.zip", tmp_path / "out")
