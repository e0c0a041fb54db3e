"""A step of every network of the tables: both loops give the same first loss before anything is timed."""

import argparse
import importlib
import json
import threading

import pytest

SMALL = ["--device", "cpu", "--graphs", "4", "--budget", "100k", "--repeats", "1"]


@pytest.fixture
def cells():
    return importlib.import_module("cells")


def test_a_row_compares_both_loops(cells, monkeypatch):
    monkeypatch.setattr(cells, "turn", threading.Lock())
    monkeypatch.setattr(cells, "all_ready", threading.Barrier(1))
    row = cells.measure(
        "gin", True, argparse.Namespace(device="cpu", graphs=4, budget="100k", repeats=1, profile=False)
    )
    assert row["case"] == "LRGA + GIN"
    assert row["ratio"] == pytest.approx(row["baseline_ms"] / row["ms"])
    assert row["epoch_seconds"] == pytest.approx(2500 * row["ms"] / 1e3)  # 10,000 graphs in batches of four


@pytest.mark.slow
def test_a_network_is_measured_with_and_without_attention(cells, tmp_path, capsys):
    cells.main([*SMALL, "--models", "gin", "--json", "--out", str(tmp_path / "cells.json")])
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "cells.json").read_text())
    assert [row["case"] for row in record["rows"]] == ["GIN", "LRGA + GIN"]


@pytest.mark.parametrize("arguments", [["--repeats", "0"], ["--models", "mlp"]])
def test_options_that_make_no_sense_are_refused(cells, arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cells.main([*SMALL, *arguments])
    assert stopped.value.code == 2
    assert arguments[0] in capsys.readouterr().err
