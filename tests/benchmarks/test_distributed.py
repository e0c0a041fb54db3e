"""The benchmark of divided graphs, on two real processes."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "distributed.py"


def test_bytes_are_counted_and_the_attentions_do_not_grow_with_the_graph(tmp_path):
    command = [sys.executable, str(SCRIPT), "--nodes", "1000", "--ranks", "2", "--steps", "1", "--json"]
    done = subprocess.run([*command, "--out", str(tmp_path / "record.json")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    record = json.loads(done.stdout)
    assert record == json.loads((tmp_path / "record.json").read_text())
    rows = {(row["case"], row["nodes"]): row for row in record["rows"]}
    assert all(max(row["loss_error"], row["gradient_error"]) < 1e-8 for row in rows.values())
    small, large = rows["LRGA + GCN", 100], rows["LRGA + GCN", 1000]
    assert small["attention_bytes"] == large["attention_bytes"] == 2 * 2 * (32 * 32 + 2 * 32) * 4
    assert small["halo_bytes"] < large["halo_bytes"]
    assert rows["GCN", 1000]["attention_bytes"] == 0


def test_options_are_checked_before_anything_runs(tmp_path, capsys):
    main = importlib.import_module("distributed").main
    for wrong, said in (
        (["--ranks", "0"], "1 or more"),
        (["--out", str(tmp_path / "none" / "record.json")], "there is no folder"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)
        assert said in capsys.readouterr().err
