"""An epoch of link prediction in three loops: the same first loss before anything is timed."""

import importlib
import json

import pytest

SMALL = ["--device", "cpu", "--nodes", "60", "--edges", "300", "--repeats", "1"]


def test_three_loops_are_measured(tmp_path, capsys):
    importlib.import_module("links").main([*SMALL, "--json", "--out", str(tmp_path / "links.json")])
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "links.json").read_text())
    assert record["first_loss"][0] == pytest.approx(record["first_loss"][2], rel=1e-3)
    assert record["last_loss"][0] == pytest.approx(record["last_loss"][1], rel=1e-3)
    captured, plain, dense = record["rows"]
    assert [row["loop"] for row in record["rows"]] == ["captured", "plain", "dense"]
    assert captured["captured_times_faster"] == 1.0
    for row in (plain, dense):
        assert row["captured_times_faster"] == pytest.approx(row["epoch_seconds"] / captured["epoch_seconds"])
