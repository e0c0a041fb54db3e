"""The eager loop: results are compared before anything is timed, and two versions stand in one table."""

import importlib
import json
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def eager():
    return importlib.import_module("eager")


@pytest.mark.slow
def test_the_baseline_is_measured_in_a_process_of_its_own(eager):
    assert set(eager.elsewhere(SOURCE, "cpu")) == {"attention", "layers", "large"}


def test_both_versions_are_measured_and_set_side_by_side(eager, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(eager, "elsewhere", lambda source, device: eager.measure(device, nodes=500, sizes=[3, 1, 20]))
    eager.main(["--device", "cpu", "--baseline", str(SOURCE), "--out", str(tmp_path / "eager.json")])
    record = json.loads((tmp_path / "eager.json").read_text())
    assert len({row["case"] for row in record["rows"]}) == len(record["rows"]) == 6
    for row in record["rows"]:
        assert row["error"] < 1e-4
        assert row["ratio"] == pytest.approx(row["baseline_ms"] / row["ms"])
    assert "LRGAConv minus GCNConv" in capsys.readouterr().out


def test_nothing_is_timed_on_wrong_values(eager, monkeypatch):
    monkeypatch.setattr(eager, "relative", lambda ours, theirs: 0.5)
    with pytest.raises(SystemExit, match="nothing is timed"):
        eager.measure("cpu", nodes=50, sizes=[3, 2])
