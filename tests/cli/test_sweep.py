import json

from typer.testing import CliRunner

from lrga.cli.main import app
from lrga.errors import OptionError
from lrga.training.config import SECTION_OF
from tests.helpers.campaigns import TINY

runner = CliRunner()


def test_every_combination_is_trained_and_the_best_named(places):
    grid = ["--grid", "rank=0,4", "--grid", "lr=1e-3,1e-2"]
    result = runner.invoke(app, ["sweep", "CLUSTER", *grid, "--json", *TINY, *places])
    assert result.exit_code == 0, result.output
    table = json.loads(result.stdout)
    assert [row["labels"] for row in table["rows"]] == [{"rank": r, "lr": lr} for r in (0, 4) for lr in (1e-3, 1e-2)]
    assert all(row["n"] == 1 for row in table["rows"])
    shown = runner.invoke(app, ["sweep", "CLUSTER", *grid, "--quiet", *TINY, *places])
    assert "Best in validation: rank=" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100


def test_any_option_may_be_swept_and_unknown_ones_are_answered_with_the_choices(places):
    listed = runner.invoke(app, ["sweep", "ZINC", "--grid", "model=gcn,gin", "--grid", "lrga=yes,no", "--dry-run"])
    assert listed.exit_code == 0
    assert listed.stdout.count("gin") == 2
    result = runner.invoke(app, ["sweep", "ZINC", "--grid", "width=1,2", *places])
    assert isinstance(result.exception, OptionError)
    assert all(key in str(result.exception) for key in SECTION_OF)


def test_without_a_grid_there_is_nothing_to_sweep():
    result = runner.invoke(app, ["sweep", "ZINC"])
    assert isinstance(result.exception, OptionError)
    assert "--grid" in str(result.exception)
