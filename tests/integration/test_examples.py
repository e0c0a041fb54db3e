"""The examples run as they are shown."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lrga_inside_gps_learns_and_does_not_leak():
    performer, ours = run("gps.py").splitlines()
    assert float(ours.split("LRGA")[1].split("%")[0]) > 90
    assert float(ours.split("by ")[1]) < 1e-5
    assert float(performer.split("by ")[1]) > 1e-3
