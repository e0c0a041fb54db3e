"""Which of the paper's numbers stands beside a run."""

import pytest

from lrga.paper.printed import published
from lrga.paper.reference import published_for
from lrga.training.presets import make_config


@pytest.mark.parametrize(
    "cell", [c for c in published() if c.table != 2], ids=lambda c: f"{c.table}-{c.dataset}-{c.model}"
)
def test_a_run_of_a_cell_finds_its_number(cell):
    options = {"random_features": True} if cell.table == 3 else {}
    config = make_config(cell.dataset, model=cell.model, budget=cell.budget, lrga=cell.lrga, **options)
    assert published_for(config) == cell


@pytest.mark.parametrize("change", [{"hidden": 10}, {"layers": 2}, {"rank": 5}, {"budget": 77_000}, {"model": "gin"}])
def test_another_network_has_no_number(change):
    assert published_for(make_config("ZINC", **change)) is None


def test_own_data_have_no_number():
    assert published_for(make_config("my_graphs")) is None


def test_a_plain_network_has_no_rank_to_differ_in():
    assert published_for(make_config("ZINC", lrga=False).changed(rank=5)).mean == 0.459
