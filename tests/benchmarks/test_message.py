"""The benchmark of sums and normalisation times nothing that is wrong."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lrga.ops._triton import has_triton

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "message.py"
pytestmark = pytest.mark.skipif(not has_triton(), reason="Triton is not installed")


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_of_message", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_graphs_are_as_dense_as_asked_for_and_symmetric(benchmark):
    layout = benchmark.sbm_batch(4, 30, 10, "cpu")
    assert layout.num_nodes == 120
    assert 900 < layout.num_edges < 1500
    assert torch.equal(layout.in_degree, layout.out_degree)


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton's interpreter is for machines without a GPU")
def test_every_case_agrees_with_its_definition(benchmark):
    for case in benchmark.cases("cpu", benchmark.CASES):
        assert benchmark.check(case) < 1e-5


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton's interpreter is for machines without a GPU")
def test_nothing_is_timed_on_wrong_values(benchmark):
    (case,) = benchmark.cases("cpu", ["edges"])
    with pytest.raises(SystemExit, match="wrong by"):
        benchmark.check(replace(case, ours=lambda values: case.ours(values * 1.001)))
