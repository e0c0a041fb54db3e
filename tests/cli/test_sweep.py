import json

import pytest

from lrga.errors import OptionError
from lrga.training.config import SECTION_OF
from tests.helpers.campaigns import TINY
from tests.helpers.commands import lrga


def test_every_combination_is_trained_and_the_best_named(places):
    grid = ["--grid", "rank=0,4", "--grid", "lr=1e-3,1e-2"]
    result = lrga("sweep", "CLUSTER", *grid, "--json", *TINY, *places)
    table = json.loads(result.stdout)
    assert [row["labels"] for row in table["rows"]] == [{"rank": r, "lr": lr} for r in (0, 4) for lr in (1e-3, 1e-2)]
    assert all(row["n"] == 1 for row in table["rows"])
    shown = lrga("sweep", "CLUSTER", *grid, "--quiet", *TINY, *places)
    assert "Best in validation: rank=" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100


def test_any_option_may_be_swept_and_unknown_ones_are_answered_with_the_choices(places):
    listed = lrga("sweep", "ZINC", "--grid", "model=gcn,gin", "--grid", "lrga=yes,no", "--dry-run")
    assert listed.stdout.count("gin") == 2
    with pytest.raises(OptionError) as refused:
        lrga("sweep", "ZINC", "--grid", "width=1,2", *places)
    assert all(key in str(refused.value) for key in SECTION_OF)


def test_without_a_grid_there_is_nothing_to_sweep():
    with pytest.raises(OptionError, match="--grid"):
        lrga("sweep", "ZINC")
