"""A step of every network of the tables: both loops give the same first loss before anything is timed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "cells.py"
SMALL = ["--device", "cpu", "--graphs", "4", "--budget", "100k", "--repeats", "1"]


def run(*arguments):
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_a_network_is_measured_with_and_without_attention(tmp_path):
    done = run(*SMALL, "--models", "gin", "--json", "--out", str(tmp_path / "cells.json"))
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record == json.loads((tmp_path / "cells.json").read_text())
    assert [row["model"] for row in record["rows"]] == ["GIN", "LRGA + GIN"]
    for row in record["rows"]:
        assert row["times_faster"] == pytest.approx(row["plain_ms"] / row["captured_ms"])
        assert row["epoch_s"] == pytest.approx(2500 * row["captured_ms"] / 1e3)  # 10,000 graphs in batches of four


@pytest.mark.parametrize("arguments", [["--repeats", "0"], ["--models", "mlp"]])
def test_options_that_make_no_sense_are_refused(arguments):
    done = run(*SMALL, *arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
