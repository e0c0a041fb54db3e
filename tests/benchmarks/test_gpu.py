"""The pieces of benchmarks/gpu.py at small sizes on a CPU: nothing wrong is timed, bytes and targets are counted."""

import importlib
import json

import pytest
import torch

from lrga.ops._triton import HAS_TRITON
from lrga.speed.record import make_record

DEVICE = "cpu"


@pytest.fixture(scope="module")
def gpu():
    return importlib.import_module("gpu")


@pytest.fixture(scope="module")
def attention():
    return importlib.import_module("gpu_attention")


@pytest.fixture(scope="module")
def steps():
    return importlib.import_module("gpu_steps")


def test_every_case_is_right_in_every_precision(attention):
    large = attention.large_case(1e12, device=DEVICE, nodes=500)
    small = attention.small_case(1e12, device=DEVICE, sizes=[1, 12, 30])
    linear = attention.linear_case(1e12, device=DEVICE, sizes=(100, 200))
    assert [row["precision"] for row in large] == list(attention.PRECISIONS)
    assert len(small) == 3
    assert all(rows[0]["error"] < 1e-5 for rows in (large, small, linear))
    assert linear[1]["floor_ms"] == pytest.approx(2 * linear[0]["floor_ms"])


def test_the_mixture_is_right_in_parts(gpu):
    (row,) = gpu.mix_case(1e12, device=DEVICE, sizes=(40,))
    assert row["error"] < 1e-5


def test_nothing_is_timed_on_wrong_values(attention, monkeypatch):
    right = attention.Authors.forward
    module = type("Wrong", (attention.Authors,), {"forward": lambda self, x: 1.01 * right(self, x)})
    monkeypatch.setattr(attention.lrga, "LowRankGlobalAttention", module)
    with pytest.raises(SystemExit, match="the result is wrong by 1.0e-02"):
        attention.large_case(1e12, device=DEVICE, nodes=50)


def test_the_small_case_is_as_published_and_bytes_are_counted_once_for_each_tensor_and_pass(attention):
    assert (len(attention.small_sizes()), sum(attention.small_sizes())) == (128, 14_384)
    # x in both passes and its gradient, 256 numbers each; the result and its gradient, 100 each; 4 bytes a number
    assert attention.floor_bytes(10, 256, 50) == 4 * 10 * (3 * 256 + 2 * 100)
    assert attention.floor_bytes(10, 256, 50, 4, 2) == 10 * (3 * 256 * 4 + 2 * 100 * 2)


@pytest.mark.parametrize(
    "conv", ["gcn", pytest.param("gatedgcn", marks=pytest.mark.skipif(not HAS_TRITON, reason="no Triton"))]
)
def test_both_steps_have_the_same_first_loss(steps, conv):
    splits = steps.pattern(6, DEVICE)
    rates = {"memory": 1e12, "cache": 1e13}
    rows = steps.step_case(conv, rates, splits, batch_size=3, layers=2, width=8, repeats=1)
    assert {row["method"] for row in rows} == {"lrga", "PyG", "PyG, batch on the device"}
    launches = {(row["precision"], row["launch"]) for row in rows if row["method"] == "lrga"}
    assert launches == {(precision, way) for precision in ("float32", "tf32") for way in ("eager", "replay")}
    losses = [row["first_loss"] for row in rows]
    assert losses == pytest.approx([losses[0]] * len(losses), abs=1e-5)
    assert all(row["both_ms"] > 0 and row["floor_ms"] > 0 for row in rows)


def test_different_first_losses_stop_it(steps, monkeypatch):
    monkeypatch.setattr(steps.Theirs, "first", lambda self, graphs: 1.0)
    with pytest.raises(SystemExit, match="no timing"):
        steps.step_case("gcn", {"memory": 1, "cache": 1}, steps.pattern(3, DEVICE), batch_size=3, layers=1, width=4)


def rows_of(times):
    return [
        {"case": case, "method": method, "precision": precision, "launch": launch, "both_ms": ms, "nodes": 1,
         "floor_ms": 0.1, "workspace_mb": 50.0}
        for (case, method, precision, launch), ms in times.items()
    ]  # fmt: skip


def test_targets_compare_with_the_named_baseline(gpu):
    rows = rows_of({
        ("large", "authors' arithmetic", "tf32", "eager"): 9.0,
        ("large", "authors' arithmetic", "tf32", "replay"): 4.0,
        ("large", "lrga", "tf32", "replay"): 2.0,
        ("large", "lrga", "tf32", "eager"): 2.3,
        ("large", "authors' arithmetic", "bf16 autocast, x bf16", "replay"): 3.0,
        ("large", "lrga", "bf16 autocast, x bf16", "replay"): 1.0,
    })  # fmt: skip
    found = {t["what"]: (t["got"], t["reached"]) for t in gpu.targets(rows)}
    assert found == {
        "large graph, tf32: authors' arithmetic / ours, replayed": ("2.00×", False),
        "large graph, bf16 autocast, x bf16: authors' arithmetic / ours, replayed": ("3.00×", True),
        "large graph, tf32: eager / replayed": ("1.15 ×", True),
        "large graph, tf32: workspace": ("50 MB", True),
    }


def test_every_row_says_how_many_times_faster_it_is_than_the_baseline(gpu, capsys):
    rows = rows_of({
        ("small", "padded LRGA", "tf32", "eager"): 2.0,
        ("small", "lrga", "tf32", "replay"): 0.1,
        ("mix", "concatenated", "tf32", "replay"): 3.0,
        ("mix", "in parts", "tf32", "replay"): 2.0,
        ("mix", "concatenated", "tf32", "eager"): 8.0,
        ("mix", "in parts", "tf32", "eager"): 4.0,
    })  # fmt: skip
    gpu.compare(rows)
    assert [row["ratio"] for row in rows] == pytest.approx([1, 20, 1, 1.5, 1, 2])
    assert rows[1]["baseline"] == "padded LRGA, eager, tf32"
    gpu.show(make_record("gpu", rows, device="a GPU", settings={"copy through memory, TB/s": 4.0}))
    shown = capsys.readouterr().out
    assert "20.0" in shown
    assert "reached" in shown


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(gpu):
    with pytest.raises(SystemExit, match="CUDA GPU"):
        gpu.main([])


@pytest.mark.gpu
def test_one_case_is_measured_and_written(gpu, tmp_path):
    gpu.main(["--only", "small", "--out", str(tmp_path / "record.json")])
    record = json.loads((tmp_path / "record.json").read_text())
    assert all(row["both_ms"] > 0 for row in record["rows"])
    assert {"commit", "date", "load"} <= record.keys()
    assert {row["launch"] for row in record["rows"] if row["method"] == "lrga"} == {"eager", "replay"}
