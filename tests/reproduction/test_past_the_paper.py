"""The campaign "Past the paper" is a file that ``lrga reproduce run`` reads."""

from pathlib import Path

import pytest

from lrga.experiments.files import read_study
from lrga.training import presets
from lrga.training.recipes import MODERN

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
    assert zinc.config.optimizer.max_epochs == 400
