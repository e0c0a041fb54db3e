"""What a benchmark needs is said in words before anything runs."""

import argparse
import importlib
from pathlib import Path

import pytest
import timing
import torch

from lrga.ops._triton import HAS_TRITON

FOLDER = Path(timing.__file__).parent
REPEATED = sorted(path.stem for path in FOLDER.glob("*.py") if '"--repeats"' in path.read_text(encoding="utf-8"))
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
with_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")


@without_gpu
def test_a_missing_gpu_is_said_in_words():
    timing.need_device("cpu")
    with pytest.raises(SystemExit, match=r"expected a CUDA GPU, got none .* To fix: "):
        timing.need_device("cuda")


@without_gpu
@with_triton
def test_kernels_without_gpu_and_interpreter_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr("lrga.ops._triton.why_not_triton", lambda tensor: "the tensors are on the CPU")
    with pytest.raises(SystemExit, match="expected a CUDA GPU .*, got a CPU without .* To fix: .*TRITON_INTERPRET=1"):
        importlib.import_module("memcheck").main(["--device", "cpu"])


@without_gpu
@pytest.mark.parametrize("script", ["attention", "scale", "wl"])
def test_a_gpu_that_is_asked_for_and_not_there_is_refused(script):
    with pytest.raises(SystemExit, match="expected a CUDA GPU"):
        importlib.import_module(script).main(["--device", "cuda"])


def test_there_are_scripts_with_repeats():
    assert {"attention", "scale", "walks", "wl"} <= set(REPEATED)


@pytest.mark.parametrize("script", REPEATED)
def test_no_repeats_are_refused_before_anything_runs(script, capsys):
    with pytest.raises(SystemExit) as stopped:
        importlib.import_module(script).main(["--repeats=0"])
    assert stopped.value.code == 2
    assert "--repeats: expected a whole number of at least 1, got '0'" in capsys.readouterr().err


def test_whole_numbers_are_taken():
    assert timing.at_least_one("7") == 7
    for wrong in ("1.5", "-3", "two"):
        with pytest.raises(argparse.ArgumentTypeError):
            timing.at_least_one(wrong)
