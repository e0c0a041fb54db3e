"""The benchmark of Node2Vec's vectors times nothing that is wrong."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "vectors.py"


@pytest.fixture
def benchmark(monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmark_of_vectors", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(
        module, "CASES", {name: (length, window, 20) for name, (length, window, _) in module.CASES.items()}
    )
    return module


def test_a_record_is_written(benchmark, tmp_path):
    assert benchmark.main(["--repeats", "1", "--out", str(tmp_path / "new" / "record.json")]) == 0
    rows = json.loads((tmp_path / "new" / "record.json").read_text())["rows"]
    assert [(row["window"], row["walks"]) for row in rows] == [(20, 20), (3, 20)]
    assert all(row["error"] < 1e-5 and row["ms"] > 0 and row["baseline_ms"] > 0 for row in rows)


def test_nothing_is_timed_on_wrong_values(benchmark):
    step = benchmark.Step(8, 3, 20, "cpu")
    step.window = 4
    with pytest.raises(SystemExit, match="no timing"):
        step.check()
