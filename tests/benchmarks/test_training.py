"""The benchmark of a training step compares the same model with itself."""

import importlib.util
from pathlib import Path

import pytest
import torch

from lrga import GNN
from lrga.data.datasets.building import load

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "training.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_of_training", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("conv", ["gcn", "gatedgcn"])
def test_both_models_have_the_same_first_loss(benchmark, tmp_path, conv):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        row = benchmark.measure(conv, load("PATTERN", tmp_path, sizes=(6, 1, 1))["train"], steps=1)
    finally:
        torch.set_num_threads(threads)
    assert row["first_loss"] == pytest.approx(row["baseline_first_loss"], abs=1e-5)
    assert row["ms"] > 0


def test_different_models_are_not_timed(benchmark):
    with pytest.raises(SystemExit, match="same parameters"):
        benchmark.copy_weights(
            GNN(3, 60, 2, 4, conv="gcn", rank=None, encoder="embedding"), benchmark.Peer("gcn", 60, 4, 30)
        )
