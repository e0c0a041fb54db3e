import json

import pytest

from lrga.data.datasets.manifest import FILE_NAME, read_manifest, verify_manifest, write_manifest
from lrga.errors import ChecksumError, DataMissingError
from lrga.version import __version__


def written(folder):
    (folder / "a.bin").write_bytes(b"abc")
    (folder / "b.bin").write_bytes(b"")
    return write_manifest(
        folder, name="SET", recipe={"version": 1, "options": {"seed": 3}}, files=["a.bin", "b.bin"], notes={"n": 1}
    )


def test_a_manifest_lists_every_file_the_recipe_and_the_version(tmp_path):
    manifest = written(tmp_path)
    assert read_manifest(tmp_path, remedy="rebuild") == manifest
    value = json.loads((tmp_path / FILE_NAME).read_text())
    assert value["files"]["a.bin"]["size"] == 3
    assert len(value["files"]["b.bin"]["sha256"]) == 64
    assert value["recipe"]["options"]["seed"] == 3
    assert value["lrga"] == __version__
    assert manifest.size == 3


def test_a_folder_without_a_manifest_has_none(tmp_path):
    assert read_manifest(tmp_path, remedy="rebuild") is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"name": "x", "files": {"a": {}}}', "\x00\x01"])
def test_a_damaged_manifest_is_named_and_refused(tmp_path, content):
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(ChecksumError, match=r"manifest\.json"):
        read_manifest(tmp_path, remedy="rebuild")


def test_sound_files_pass(tmp_path):
    verify_manifest(tmp_path, written(tmp_path), remedy="rebuild")


def test_a_changed_file_is_named(tmp_path):
    manifest = written(tmp_path)
    (tmp_path / "a.bin").write_bytes(b"abd")
    with pytest.raises(ChecksumError, match=r"a\.bin"):
        verify_manifest(tmp_path, manifest, remedy="rebuild")


def test_a_missing_file_is_named(tmp_path):
    manifest = written(tmp_path)
    (tmp_path / "b.bin").unlink()
    with pytest.raises(DataMissingError, match=r"b\.bin"):
        verify_manifest(tmp_path, manifest, remedy="rebuild")
