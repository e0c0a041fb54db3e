"""A finished tour on disk."""

import json
import sys

import pytest

from lrga.errors import DataError
from lrga.theory.tour import Measurement, Series, Statement, run_tour, write_tour


def tour(holds=True):
    def curve():
        return Measurement("falls", holds, {"slope": -0.5}, Series("d", "e", [1, 4], {"c": [1.0, 0.5]}))

    def plain():
        return Measurement("equal", holds=True, values={})

    return run_tour([Statement("curve", "P 1", "c", curve), Statement("plain", "P 2", "c", plain)])


def test_rows_and_plots_are_written(tmp_path):
    report = write_tour(tour(), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "tour.json").read_text()) == report
    assert [row["key"] for row in report["statements"]] == ["curve", "plain"]
    assert report["statements"][0]["plot"] == str(tmp_path / "out" / "curve.png")
    assert report["statements"][1]["plot"] is None
    assert (report["holds"], report["plots_skipped"]) == (True, None)


def test_one_statement_that_fails_fails_the_tour(tmp_path):
    assert write_tour(tour(holds=False), tmp_path)["holds"] is False


def test_without_matplotlib_the_reason_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    report = write_tour(tour(), tmp_path)
    assert "matplotlib" in report["plots_skipped"]
    assert (tmp_path / "tour.json").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="--output"):
        write_tour(tour(), tmp_path / "file" / "folder")
