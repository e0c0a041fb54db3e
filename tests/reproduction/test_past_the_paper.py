"""The campaign "Past the paper" is a file that ``lrga reproduce run`` reads."""

from pathlib import Path

import pytest

from lrga.experiments.files import read_study
from lrga.training import presets
from lrga.training.recipes import MODERN
from reproduction import make_pages

ROOT = Path(__file__).resolve().parents[2]


def test_every_data_set_has_a_row_with_and_one_without_lrga_beside_the_papers_best(monkeypatch):
    solved = presets.recipe_options
    monkeypatch.setattr(  # widths take a while; tests/training/test_recipes.py solves for them
        presets, "recipe_options", lambda *given: solved(*given[:3], {**given[3], "hidden": 16})
    )
    study = read_study(ROOT / "reproduction" / "past_the_paper.py")
    rows = [(cell.config.data.name, cell.config.model.lrga) for cell in study.cells]
    assert set(rows) == {(name, lrga) for name in MODERN for lrga in (False, True)}
    best = {cell.config.data.name: cell.published and cell.published.mean for cell in study.cells}
    wanted = {"ZINC": 0.249, "PATTERN": 86.8, "CLUSTER": 76.4, "MNIST": 98.5, "CIFAR10": 73.5, "TSP": 0.808}
    for name, number in wanted.items():
        assert best[name] == pytest.approx(number, rel=0.005), name
    assert best["ogbl-ddi"] == pytest.approx(0.623, rel=0.005)
    assert best["Cora"] is None
    zinc = next(cell for cell in study.cells if cell.config.data.name == "ZINC")
    assert zinc.config.optimizer.max_epochs == 120


def test_the_table_sets_networks_beside_the_best_published_ones():
    cell = {"dataset": "ZINC", "metric": "MAE", "published": {"mean": 0.249}, "std": None, "n": 1, "epochs": 400}
    plain = cell | {"model": "GINE", "lrga": False, "mean": 0.08, "parameters": 491_550, "seconds": 300}
    augmented = cell | {"model": "GINE", "lrga": True, "mean": 0.07, "parameters": 494_364, "seconds": 360}
    plain["lrga_difference"], augmented["lrga_difference"] = None, {"n": 1, "mean": -0.01, "verdict": "one pair"}
    several = augmented | {"dataset": "Cora", "mean": 82.0, "std": 0.5, "n": 3, "published": None}
    several["lrga_difference"] = {"n": 3, "mean": 0.2, "verdict": "no clear difference"}
    unfinished = {"dataset": "PATTERN", "lrga": True, "mean": None}
    rows = [augmented, plain, several, plain | {"dataset": "Cora", "mean": None, "parameters": None, "seconds": None}]
    lines = make_pages.best([*rows, unfinished, unfinished | {"lrga": False}]).splitlines()
    assert lines[2] == (
        "| ZINC, MAE | GINE | 0.249 | 0.047 (GRASS) | 0.080 | 0.070 | -0.010, one seed "
        "| 491,550 / 494,364 | 400 | 5.0 / 6.0 |"
    )
    assert "| not run yet | 82.00 ± 0.50 (n = 3) | no clear difference |" in lines[3]
    assert lines[-1] == "Not run yet: PATTERN."
