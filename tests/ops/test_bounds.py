"""Kernels touch no number before the first or after the last of any tensor."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lrga.ops._triton import HAS_TRITON

SCRIPT = Path(__file__).with_name("guarded_memory.py")
pytestmark = [
    pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="pages are guarded by calls of Linux"),
]


def run(side):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, str(SCRIPT), side], capture_output=True, text=True, env=environment)


def test_one_number_too_far_is_noticed():
    assert run("broken").returncode == -signal.SIGSEGV


@pytest.mark.parametrize("side", ["front", "back"])
def test_nothing_is_touched_beyond(side):
    done = run(side)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "nothing out of bounds\n"
