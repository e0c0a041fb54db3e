import io
import tarfile
import zipfile

import pytest

from lrga.errors import ChecksumError, DataError, UnsupportedError
from lrga.io.archive import extract


def make_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def make_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_files_come_out_below_their_paths(tmp_path, make):
    archive = make(tmp_path / "archive", {"a/b.txt": b"one", "c.txt": b"two"})
    paths = extract(archive, tmp_path / "out")
    assert sorted(paths) == [tmp_path / "out/a/b.txt", tmp_path / "out/c.txt"]
    assert (tmp_path / "out/a/b.txt").read_bytes() == b"one"


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_only_what_is_asked_for_comes_out(tmp_path, make):
    archive = make(tmp_path / "archive", {"a.txt": b"one", "b.txt": b"two"})
    assert extract(archive, tmp_path / "out", members=["b.txt"]) == [tmp_path / "out/b.txt"]
    assert not (tmp_path / "out/a.txt").exists()


def test_a_member_that_is_not_there_is_named(tmp_path):
    archive = make_zip(tmp_path / "archive", {"a.txt": b"one"})
    with pytest.raises(DataError, match=r"without b\.txt"):
        extract(archive, tmp_path / "out", members=["a.txt", "b.txt"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "..\\evil.txt", "C:/evil.txt"])
def test_a_path_that_leaves_the_folder_is_refused_before_anything_is_written(tmp_path, make, name):
    archive = make(tmp_path / "archive", {"good.txt": b"good", name: b"evil"})
    with pytest.raises(DataError, match="outside the folder"):
        extract(archive, tmp_path / "deep/out")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["archive"]


def test_a_link_in_a_tar_is_refused(tmp_path):
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("link")
        info.type = tarfile.SYMTYPE
        info.linkname = "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match="a link or device"):
        extract(path, tmp_path / "out")


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    path = tmp_path / "links.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match="a link"):
        extract(path, tmp_path / "out")


def test_a_damaged_member_is_refused_and_leaves_no_file(tmp_path):
    path = make_zip(tmp_path / "a.zip", {"a.txt": b"content that is stored as it is"})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"content", b"CONTENT", 1))
    with pytest.raises(ChecksumError, match=r"a\.zip"):
        extract(path, tmp_path / "out")
    assert not (tmp_path / "out/a.txt").exists()


def test_a_truncated_tar_is_refused(tmp_path):
    path = make_tar(tmp_path / "a.tar.gz", {"a.txt": bytes(range(256)) * 400})
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises((ChecksumError, UnsupportedError)):
        extract(path, tmp_path / "out")


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "page.zip").write_text("<html>not found</html>")
    with pytest.raises(UnsupportedError, match=r"page\.zip"):
        extract(tmp_path / "page.zip", tmp_path / "out")
