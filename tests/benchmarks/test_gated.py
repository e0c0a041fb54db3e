"""The benchmark of the GatedGCN edges times nothing that is wrong."""

import importlib.util
from pathlib import Path

import pytest
import torch

from lrga.ops._triton import HAS_TRITON

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gated.py"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_of_gated", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def case(benchmark):
    return benchmark.Case(benchmark.make_graph(2, 6, 40, DEVICE), 5, torch.float32)


def test_the_graph_has_about_as_many_edges_as_asked_for_in_both_directions(benchmark):
    layout = benchmark.make_graph(8, 30, 3_000, "cpu")
    assert 2_500 < layout.num_edges < 3_500
    edges = set(map(tuple, layout.edge_index.t().tolist()))
    assert edges == {(b, a) for a, b in edges}


@pytest.mark.parametrize(("tf32", "kind"), [(False, "float32"), (True, "tf32")])
def test_right_values_pass(benchmark, case, tf32, kind):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        errors = benchmark.check(case, benchmark.TOLERANCE[kind])
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert set(errors) == set(benchmark.NAMES)


def test_other_divisions_of_the_work_are_tried_and_then_the_usual_ones_are_back(benchmark, case, monkeypatch):
    usual = benchmark.gated_gpu.tiling, benchmark.gated_gpu.product_tiles
    seen = []

    def times(*_):
        seen.append((benchmark.gated_gpu.tiling, benchmark.gated_gpu.product_tiles))
        return {"forward_ms": 1.0, "both_ms": 2.0}

    monkeypatch.setattr(benchmark, "times_of", times)
    rows = benchmark.tune(case, 1)
    assert len(rows) == len(set(seen)) == len(benchmark.CHANGES)
    assert rows[0]["map"]["rows"] == usual[1].rows
    assert usual == (benchmark.gated_gpu.tiling, benchmark.gated_gpu.product_tiles)


def test_wrong_values_are_not_timed(benchmark, case, monkeypatch):
    right = benchmark.gated_edges_fused
    monkeypatch.setattr(benchmark, "gated_edges_fused", lambda *a, **k: tuple(1.01 * t for t in right(*a, **k)))
    with pytest.raises(SystemExit, match="means is wrong"):
        benchmark.check(case, 2e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(benchmark):
    with pytest.raises(SystemExit, match="CUDA GPU"):
        benchmark.main([])
