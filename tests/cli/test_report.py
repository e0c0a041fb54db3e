"""``lrga report`` as a user types it."""

import json
import os
from pathlib import Path

import pytest

from lrga.errors import DataError, DataMissingError, LRGAError
from tests.helpers.commands import lrga

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


def test_a_page_is_written_and_what_it_holds_is_told(tmp_path):
    result = lrga("report", RESULTS, "-o", tmp_path / "page.html")
    assert "page.html" in result.stdout
    assert "MB" in result.stdout
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_without_a_path_a_clone_shows_its_records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lrga.cli.clone.ROOT", tmp_path / "clone")
    (tmp_path / "clone" / "reproduction").mkdir(parents=True)
    (tmp_path / "clone" / "reproduction" / "results").symlink_to(RESULTS / "speed")
    result = lrga("report", "-o", "page.html", "--json")
    assert "Reading" in result.stderr
    assert json.loads(result.stdout)["benchmarks"] > 1


def test_json_is_pure(tmp_path):
    (tmp_path / "broken.json").write_text("{")
    told = json.loads(lrga("report", RESULTS / "table1", tmp_path, "-o", tmp_path / "a.html", "--json").stdout)
    assert told["runs"] >= 8
    assert told["bytes"] == (tmp_path / "a.html").stat().st_size
    assert [Path(entry["place"]).name for entry in told["unreadable"]] == ["broken.json"]


def test_nothing_to_show_and_nowhere_to_write_are_errors(tmp_path):
    with pytest.raises(DataMissingError, match="nowhere"):
        lrga("report", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="lrga train"):
        lrga("report", tmp_path / "empty")
    with pytest.raises(LRGAError, match="folder"):
        lrga("report", RESULTS / "speed", "-o", tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_may_not_be_written_is_an_error(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(LRGAError, match="-o page.html"):
        lrga("report", RESULTS / "speed", "-o", tmp_path / "closed" / "a.html")
