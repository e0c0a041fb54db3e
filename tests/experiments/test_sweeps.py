"""Every combination of a grid is trained once, under the protocol of its own data set and network."""

import pytest

import lrga
from lrga.errors import OptionError
from lrga.experiments.sweeps import sweep_of


def test_every_combination_is_a_row_in_the_order_of_the_grid(tiny, tmp_path):
    grid = {"rank": [0, 4], "lr": [1e-3, 1e-2]}
    table = lrga.experiments.sweep("CLUSTER", grid, output=tmp_path, progress=False, **tiny)
    assert [row.cell.labels for row in table.rows] == [
        {"rank": 0, "lr": 1e-3}, {"rank": 0, "lr": 1e-2}, {"rank": 4, "lr": 1e-3}, {"rank": 4, "lr": 1e-2},
    ]  # fmt: skip
    assert table.complete
    assert table.notes[0].startswith("Best in validation: rank=")
    best = max(row.spread(key="val_metric").mean for row in table.rows)
    assert f"{best:.2f}" in table.notes[0]


def test_a_sweep_is_resumed(tiny, tmp_path):
    lrga.experiments.sweep("CLUSTER", {"rank": [0, 4]}, output=tmp_path, progress=False, **tiny)
    study = sweep_of("CLUSTER", {"rank": [0, 2, 4]}, **tiny)
    assert [row.outcomes[0].status for row in study.table(tmp_path).rows] == ["finished", "pending", "finished"]


def test_schedules_follow_the_network_and_the_data_of_each_combination():
    study = sweep_of("CLUSTER", {"model": ["gcn", "gat"], "budget": ["500K"], "name": ["CLUSTER", "TSP"]})
    found = [(c.config.data.name, c.config.model.model, c.config.optimizer.batch_size) for c in study.cells]
    assert found == [("CLUSTER", "gcn", 64), ("TSP", "gcn", 64), ("CLUSTER", "gat", 128), ("TSP", "gat", 64)]


def test_seeds_may_be_swept_or_given():
    swept = sweep_of("CLUSTER", {"seed": [1, 2], "rank": [3]})
    assert [cell.seeds for cell in swept.cells] == [(1,), (2,)]
    assert [cell.seeds for cell in sweep_of("CLUSTER", {"rank": [3]}, seeds=[7, 8]).cells] == [(7, 8)]
    with pytest.raises(OptionError, match="either in the grid or as seeds"):
        sweep_of("CLUSTER", {"seed": [1]}, seeds=[2])


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ({}, {}, "an empty grid"),
        ({"depth": [1]}, {}, "an option of training, one of attention_dropout, "),
        ({"rank": []}, {}, "a list of values for rank"),
        ({"wiring": "AB"}, {}, "a list of values for wiring"),
        ({"rank": [1]}, {"rank": 2}, "either in the grid or fixed"),
        ({"rank": [-1]}, {}, "rank"),
        ({"wiring": ["E"]}, {}, "one of authors-code"),
    ],
)
def test_a_bad_grid_is_refused_before_anything_runs(grid, options, message):
    with pytest.raises(OptionError, match=message):
        sweep_of("CLUSTER", grid, **options)


def test_ranks_keep_the_budget_where_one_is_given_and_the_width_elsewhere():
    def cells(**options):
        return sweep_of("ZINC", {"rank": [5, 60]}, **options).plan("nowhere").to_json()["cells"]

    at_budget = cells(budget="100k")
    assert all(abs(cell["parameters"] - 100_000) < 2_000 for cell in at_budget)
    assert [cell["layers"] for cell in at_budget] == [4, 4]
    assert [cell["hidden"] for cell in cells()] == [60, 60]


def test_progress_names_the_combination(tiny, tmp_path, capsys):
    lrga.experiments.sweep("CLUSTER", {"rank": [0, 4]}, output=tmp_path, seeds=[3], **tiny)
    said = capsys.readouterr().err
    assert "on CLUSTER, rank=0, seed 3\n" in said
    assert "on CLUSTER, rank=4, seed 3: finished" in said


def test_a_mistyped_option_is_answered_with_the_nearest_one():
    with pytest.raises(OptionError, match=r"got 'rnk'\. To fix: write rank\."):
        sweep_of("CLUSTER", {"rnk": [1, 2]})
