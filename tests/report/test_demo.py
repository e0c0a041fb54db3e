"""The demo trains both networks on data made on the spot, and draws their curves."""

import sys

import pytest
import torch

from lrga.report.demo import demo_study, free_cores, run_demo
from tests.helpers.commands import lrga


def test_the_demo_has_the_shapes_of_the_100k_budget_and_fresh_norm_statistics():
    study = demo_study()
    plan = study.plan("nowhere").to_json()["cells"]
    assert [(c["hidden"], c["layers"], c["rank"]) for c in plan] == [(146, 4, None), (60, 4, 30)]
    assert [c["published"]["mean"] for c in plan] == [53.44, 68.44]
    for cell in study.cells:
        assert cell.config.optimizer.recalibrate_norm == 20
        assert cell.config.run.device == "cpu"


def test_a_small_demo_prints_both_beside_the_paper_and_draws(tmp_path):
    before = torch.get_num_threads()
    table, picture = run_demo(tmp_path, sizes=(8, 4, 4), epochs=2, threads=1, progress=False)
    assert torch.get_num_threads() == before
    assert table.complete
    assert picture == tmp_path / "curves.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = table.to_text()
    assert "53.44 ± 2.02" in text
    assert "68.44 ± 0.16" in text
    assert "compare the gain, not the level" in text
    assert "Not the published protocol: data sizes 8/4/4; max_epochs 2 (published 1000)" in text.replace("\n", " ")
    assert (tmp_path / "data" / "CLUSTER").is_dir()  # nothing outside its folder


def test_without_matplotlib_the_demo_has_no_picture(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    table, picture = run_demo(tmp_path, sizes=(8, 4, 4), epochs=1, threads=1, progress=False)
    assert table.complete
    assert picture is None
    printed = lrga("demo", "--sizes", "8,4,4", "--epochs", "1", "--output", tmp_path).stdout
    assert "pip install lrga[plot]" in printed


@pytest.mark.parametrize(("cores", "load", "free"), [(2, 0.1, 2), (2, 1.2, 1), (2, 9.0, 1), (64, 3.0, 4), (4, 1.0, 3)])
def test_threads_are_the_cores_that_nobody_uses(cores, load, free, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(cores), raising=False)
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    assert free_cores() == free
