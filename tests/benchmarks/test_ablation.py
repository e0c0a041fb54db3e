"""Groups of kernels switched off in turn: each variant has the same first loss before anything is timed."""

import importlib
import json
from concurrent.futures import ThreadPoolExecutor

import ablation
import pytest
import torch

from lrga.ops.norm import definition as norm

SMALL = ["--device", "cpu", "--graphs", "4", "--budget", "100k", "--repeats", "1", "--no-compile"]


def test_every_group_of_a_network_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        ablation, "ProcessPoolExecutor", lambda n, _, start, shared: ThreadPoolExecutor(n, "", start, shared)
    )
    ablation.main([*SMALL, "--models", "gin", "--json", "--out", str(tmp_path / "ablation.json")])
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "ablation.json").read_text())
    rows = {row["method"]: row for row in record["rows"]}
    groups = {f"without {group}" for group in set(ablation.GROUPS) - set(ablation.ONLY_IN)}
    assert set(rows) == {"all kernels", "none"} | groups
    for row in rows.values():
        assert row["ratio"] == pytest.approx(rows["all kernels"]["ms"] / row["ms"])
        assert row["first_loss"] == pytest.approx(rows["all kernels"]["first_loss"], rel=ablation.TOLERANCE)
    ablation.show(record)
    assert "| without batch norm |" in capsys.readouterr().out


def test_every_group_names_a_module_that_chooses_and_is_off_within_the_context_alone(monkeypatch):
    for module in ablation.GROUPS.values():
        assert callable(importlib.import_module(f"lrga.ops.{module}").runs_on_gpu)
    monkeypatch.setattr(norm, "runs_on_gpu", lambda *tensors: True)
    with ablation.switched_off(["batch norm"]):
        assert not norm.runs_on_gpu(torch.zeros(1))
    assert norm.runs_on_gpu(torch.zeros(1))


def test_wrong_results_are_not_timed():
    variant = ablation.Variant.__new__(ablation.Variant)
    variant.name, variant.why_not, variant.loss = "attention", "", 0.7
    with pytest.raises(SystemExit, match="first loss"):
        variant.compare(0.6)
