"""Kernels touch no number before the first or after the last of any tensor."""

import signal
import sys
from pathlib import Path

import pytest

from lrga.ops._triton import HAS_TRITON
from tests.helpers.processes import run_alone

SCRIPT = Path(__file__).with_name("guarded_memory.py")
pytestmark = [
    pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="pages are guarded by calls of Linux"),
]


def test_one_number_too_far_is_noticed():
    assert run_alone(SCRIPT, "broken")[0] == -signal.SIGSEGV


@pytest.mark.parametrize("side", ["front", "back"])
def test_nothing_is_touched_beyond(side):
    code, out, errors = run_alone(SCRIPT, side)
    assert code == 0, errors
    assert out == "nothing out of bounds\n"
