"""Which of the paper's numbers stands beside a run."""

import pytest

from lrga.experiments.cell import cell_beside
from lrga.paper.printed import published, published_for
from lrga.paper.reference import THE_PAPER
from lrga.training.presets import make_config


@pytest.mark.parametrize(
    "cell", [c for c in published() if c.table != 2], ids=lambda c: f"{c.table}-{c.dataset}-{c.model}"
)
def test_a_run_of_a_cell_finds_its_number(cell):
    options = {"random_features": True} if cell.table == 3 else {}
    config = make_config(cell.dataset, model=cell.model, budget=cell.budget, lrga=cell.lrga, **options)
    assert published_for(config) == cell


CHANGES = [
    {"hidden": 10}, {"layers": 2}, {"rank": 5}, {"budget": 77_000}, {"model": "gin"}, {"encoding": ["rwse:20"]},
    {"attention_heads": 2}, {"normalize": "row"}, {"qk_norm": True}, {"gate": True}, {"dropout": 0.1},
    {"residual": False}, {"batch_norm": False}, {"readout": "sum"}, {"recipe": "modern"}, {"metric": "mse"},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_another_network_or_metric_has_no_number(change):
    assert published_for(make_config("ZINC", **change)) is None


def test_own_data_have_no_number_and_a_plain_network_no_rank_to_differ_in():
    assert published_for(make_config("my_graphs")) is None
    assert published_for(make_config("ZINC", lrga=False).changed(rank=5)).mean == 0.459


@pytest.mark.parametrize("change", [{"preset": "2020"}, {"wiring": "norm-first"}, {"lr": 0.1}, {"max_epochs": 2}])
def test_what_the_paper_leaves_open_and_the_schedule_keep_the_number(change):
    assert published_for(make_config("ZINC", **change)).mean == 0.448


@pytest.mark.parametrize(
    "change",
    [{"hidden": 10}, {"rank": 25}, {"skip": True}, {"validation_edges": True}, {"dropout": 0.1},
     {"predictor_layers": 5}, {"negatives": "uniform"}, {"metric": "mrr"}, {"recipe": "modern"}],
)  # fmt: skip
def test_another_network_of_links_has_no_number(change):
    assert published_for(make_config("ogbl-ddi")).mean == 0.623
    changed = make_config("ogbl-ddi", **change)
    assert changed != make_config("ogbl-ddi")
    assert published_for(changed) is None


def test_changes_of_a_link_schedule_are_stated_beside_the_number():
    config = make_config("ogbl-ddi", lr=0.1)
    cell = cell_beside(THE_PAPER, labels={}, config=config, seeds=[1])
    assert cell.published.mean == 0.623
    assert cell.deviations()["lr"][0] == 0.1
