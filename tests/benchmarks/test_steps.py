"""Steps and epochs of each benchmark: nothing wrong is timed, and every row is compared with its baseline."""

import argparse
import importlib
import json
import threading
from pathlib import Path

import cells
import eager
import pytest
import training
import vectors

from lrga import GNN
from lrga.data.datasets.building import load

# A step of every network of the tables: both loops give the same first loss before anything is timed.
SMALL = ["--device", "cpu", "--graphs", "4", "--budget", "100k", "--repeats", "1"]


def test_a_row_compares_both_loops(monkeypatch):
    monkeypatch.setattr(cells, "turn", threading.Lock())
    monkeypatch.setattr(cells, "all_ready", threading.Barrier(1))
    row = cells.measure(
        "gin", True, argparse.Namespace(device="cpu", graphs=4, budget="100k", repeats=1, profile=False)
    )
    assert row["case"] == "LRGA + GIN"
    assert row["ratio"] == pytest.approx(row["baseline_ms"] / row["ms"])
    assert row["epoch_seconds"] == pytest.approx(2500 * row["ms"] / 1e3)  # 10,000 graphs in batches of four


@pytest.mark.slow
def test_a_network_is_measured_with_and_without_attention(tmp_path, capsys):
    cells.main([*SMALL, "--models", "gin", "--json", "--out", str(tmp_path / "cells.json")])
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "cells.json").read_text())
    assert [row["case"] for row in record["rows"]] == ["GIN", "LRGA + GIN"]


@pytest.mark.parametrize("arguments", [["--repeats", "0"], ["--models", "mlp"]])
def test_options_that_make_no_sense_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cells.main([*SMALL, *arguments])
    assert stopped.value.code == 2
    assert arguments[0] in capsys.readouterr().err


# An epoch of link prediction in three loops: the same first loss before anything is timed.
SMALL_LINKS = ["--device", "cpu", "--nodes", "60", "--edges", "300", "--repeats", "1"]


def test_three_loops_are_measured(tmp_path, capsys):
    importlib.import_module("links").main([*SMALL_LINKS, "--json", "--out", str(tmp_path / "links.json")])
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "links.json").read_text())
    captured, plain, dense = record["rows"]
    assert captured["first_loss"] == pytest.approx(dense["first_loss"], rel=1e-3)
    assert captured["last_loss"] == pytest.approx(plain["last_loss"], rel=1e-3)
    assert [row["method"] for row in record["rows"]] == ["captured", "plain", "dense"]
    assert dense["ratio"] == 1.0
    for row in (plain, captured):
        assert row["ratio"] == pytest.approx(dense["epoch_seconds"] / row["epoch_seconds"])


# The eager loop: results are compared before anything is timed, and two versions stand in one table.
SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.slow
def test_the_baseline_is_measured_in_a_process_of_its_own():
    assert set(eager.elsewhere(SOURCE, "cpu")) == {"attention", "layers", "large"}


def test_both_versions_are_measured_and_set_side_by_side(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(eager, "elsewhere", lambda source, device: eager.measure(device, nodes=500, sizes=[3, 1, 20]))
    eager.main(["--device", "cpu", "--baseline", str(SOURCE), "--out", str(tmp_path / "eager.json")])
    record = json.loads((tmp_path / "eager.json").read_text())
    assert len({row["case"] for row in record["rows"]}) == len(record["rows"]) == 6
    for row in record["rows"]:
        assert row["error"] < 1e-4
        assert row["ratio"] == pytest.approx(row["baseline_ms"] / row["ms"])
    assert "LRGAConv minus GCNConv" in capsys.readouterr().out


def test_nothing_is_timed_on_wrong_values_or_different_models(monkeypatch):
    monkeypatch.setattr(eager, "relative", lambda ours, theirs: 0.5)
    with pytest.raises(SystemExit, match="no timing"):
        eager.measure("cpu", nodes=50, sizes=[3, 2])
    with pytest.raises(SystemExit, match="different parameters"):
        training.copy_weights(
            GNN(3, 60, 2, 4, conv="gcn", rank=None, encoder="embedding"), training.Peer("gcn", 60, 4, 30)
        )
    step = vectors.Step(8, 3, 20, "cpu")
    step.window = 4
    with pytest.raises(SystemExit, match="no timing"):
        step.check()


# The benchmark of a training step compares the same model with itself.


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("conv", ["gcn", "gatedgcn"])
def test_both_models_have_the_same_first_loss(tmp_path, conv):
    row = training.measure(conv, load("PATTERN", tmp_path, sizes=(6, 1, 1))["train"], steps=1)
    assert row["first_loss"] == pytest.approx(row["baseline_first_loss"], abs=1e-5)
    assert row["ms"] > 0


# The benchmark of Node2Vec's vectors times nothing that is wrong.


@pytest.fixture(autouse=True)
def twenty_walks(monkeypatch):
    cases = {name: (length, window, 20) for name, (length, window, _) in vectors.CASES.items()}
    monkeypatch.setattr(vectors, "CASES", cases)


@pytest.mark.usefixtures("one_thread")
def test_a_record_is_written(tmp_path):
    assert vectors.main(["--repeats", "1", "--threads", "1", "--out", str(tmp_path / "new" / "record.json")]) == 0
    rows = json.loads((tmp_path / "new" / "record.json").read_text())["rows"]
    assert [(row["window"], row["walks"]) for row in rows] == [(20, 20), (3, 20)]
    assert all(row["error"] < 1e-5 and row["ms"] > 0 and row["baseline_ms"] > 0 for row in rows)
