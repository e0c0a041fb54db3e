"""The script that a memory checker watches."""

import importlib.util
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "memcheck.py"


def test_it_runs_and_names_the_operators():
    spec = importlib.util.spec_from_file_location("memcheck", PATH)
    memcheck = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(memcheck)
    assert "mixed_linear" in memcheck.run("cpu")
