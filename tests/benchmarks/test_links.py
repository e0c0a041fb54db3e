"""An epoch of link prediction in three loops: the same first loss before anything is timed."""

import importlib
import json

import pytest

SMALL = ["--device", "cpu", "--nodes", "60", "--edges", "300", "--repeats", "1"]


def test_three_loops_are_measured(tmp_path, capsys):
    importlib.import_module("links").main([*SMALL, "--json", "--out", str(tmp_path / "links.json")])
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "links.json").read_text())
    captured, plain, dense = record["rows"]
    assert captured["first_loss"] == pytest.approx(dense["first_loss"], rel=1e-3)
    assert captured["last_loss"] == pytest.approx(plain["last_loss"], rel=1e-3)
    assert [row["method"] for row in record["rows"]] == ["captured", "plain", "dense"]
    assert dense["ratio"] == 1.0
    for row in (plain, captured):
        assert row["ratio"] == pytest.approx(dense["epoch_seconds"] / row["epoch_seconds"])
