from pathlib import Path

import pytest

from lrga.data.datasets.root import cache_folder, data_root
from lrga.errors import OptionError


def test_the_argument_comes_before_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "environment"))
    assert data_root(tmp_path / "argument") == tmp_path / "argument"
    assert data_root() == tmp_path / "environment"


def test_an_empty_environment_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("LRGA_DATA", "")
    assert data_root().name in ("lrga", "Cache")


def test_the_home_folder_is_expanded(monkeypatch):
    monkeypatch.setenv("LRGA_DATA", "~/graphs")
    assert data_root() == Path.home() / "graphs"


def test_a_relative_root_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert data_root("here") == tmp_path / "here"


def test_a_file_as_root_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="file"):
        data_root(tmp_path / "file")


@pytest.mark.parametrize("name", ["a" * 300, "~no such user/x", "loop", "nul\0"])
def test_a_root_that_cannot_be_a_folder_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OptionError, match="--data-root"):
        data_root(name)


def test_an_empty_root_is_refused():
    with pytest.raises(OptionError, match="empty path"):
        data_root("")


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/cache"}, Path("/cache/lrga")),
        ("linux", {"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache/lrga"),
        ("linux", {}, Path.home() / ".cache/lrga"),
        ("darwin", {"XDG_CACHE_HOME": "/cache"}, Path.home() / "Library/Caches/lrga"),
        ("win32", {"LOCALAPPDATA": "/local"}, Path("/local/lrga/Cache")),
        ("win32", {}, Path.home() / "AppData/Local/lrga/Cache"),
    ],
)
def test_each_platform_has_its_cache_folder(platform, environment, expected):
    assert cache_folder(platform, environment) == expected
