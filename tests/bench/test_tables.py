"""A table shows means of finished runs only, beside the paper's, within 100 columns."""

import json
import math
import statistics
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from lrga.bench.cell import Cell, run_name
from lrga.bench.protocols import cells_of, paper_config, table1
from lrga.bench.records import RunRecord
from lrga.bench.runner import Outcome
from lrga.bench.tables import Spread, table_of

EPOCH = {
    "epoch": 9, "lr": 1e-3, "train_loss": 0.5, "train_metric": 70.0, "val_loss": 0.7, "val_metric": 69.0,
    "test_loss": 0.9, "test_metric": 68.0, "seconds": 1.0, "elapsed": 9.0,
}  # fmt: skip


def outcome(config, status="finished", test=68.0, val=69.0):
    last = None if status in ("failed", "pending") else EPOCH | {"test_metric": test, "val_metric": val}
    record = RunRecord(
        run=run_name(config), status=status, reason="why it ended", data={"name": config.data.name, "sha256": "0"},
        model={"parameters": 91131}, config=config.to_json(), seed=config.run.seed,
        metric="mae" if config.data.name == "ZINC" else "weighted_accuracy", epochs=9, seconds=9.0, last=last,
        best=last, curve={}, environment=[], published=None, time="",
    )  # fmt: skip
    return Outcome(name=record.run, config=config, status=status, record=None if status == "pending" else record)


def table(cells, outcomes, **options):
    return table_of("A title", cells, outcomes, **options)


def test_mean_and_standard_deviation_are_those_of_the_sample():
    values = [68.0, 69.5, 67.2, 70.1]
    spread = Spread.of(values)
    assert spread.mean == pytest.approx(statistics.mean(values))
    assert spread.std == pytest.approx(statistics.stdev(values))
    assert spread.text(2) == "68.70 ± 1.33"
    assert Spread.of([1.0]) == Spread(1, 1.0, None)
    assert Spread.of([1.0]).text(3) == "1.000"
    assert Spread.of([]) is None


def test_a_row_shows_ours_the_papers_and_the_difference():
    cell = table1("CLUSTER", "gcn", seeds=[41, 95])
    result = table([cell], [outcome(c, test=t) for c, t in zip(cell.runs(), (68.0, 70.0), strict=True)])
    text = result.to_text()
    assert "69.00 ± 1.41  2  68.44 ± 0.16  +0.56  91,131       9        9" in text
    assert (result.complete, result.failed) == (True, False)
    row = result.to_json()["rows"][0]
    assert (row["mean"], row["n"], row["published"]) == (69.0, 2, {"mean": 68.44, "std": 0.16})
    assert row["difference"] == pytest.approx(0.56)
    assert row["best_validation_epoch"]["mean"] == 69.0
    assert json.loads(json.dumps(row)) == row


def test_only_finished_runs_are_averaged():
    cell = table1("CLUSTER", "gcn", seeds=[41, 95, 12])
    runs = cell.runs()
    result = table([cell], [outcome(runs[0]), outcome(runs[1], "time-limited", test=10.0), outcome(runs[2], "failed")])
    assert result.rows[0].spread() == Spread(1, 68.0, None)
    assert (result.complete, result.failed) == (False, True)


@pytest.mark.parametrize("status", ["pending", "time-limited", "failed", "diverged"])
def test_a_row_without_a_finished_run_says_how_it_stands(status):
    cell = table1("CLUSTER", "gcn", seeds=[41])
    result = table([cell], [outcome(cell.runs()[0], status)])
    assert f" {status} " in result.to_text().splitlines()[3]
    assert result.to_json()["rows"][0]["mean"] is None
    assert result.failed == (status in ("failed", "diverged"))


def test_every_table_of_the_paper_fits_100_columns():
    for experiment in ("table1", "table3", "rank"):
        cells = cells_of(experiment)
        outcomes = [outcome(c, test=12.345 + c.run.seed) for cell in cells for c in cell.runs()]
        many = [replace(o, record=replace(o.record, seconds=123456.7, epochs=1000)) for o in outcomes]
        lines = table(cells, many).to_text().splitlines()
        assert max(map(len, lines)) <= 100
        assert not any("…" in line for line in lines)  # nothing was cut


@pytest.mark.parametrize("experiment", ["table1", "table3", "rank"])
def test_results_are_whole_on_80_columns(experiment):
    cells = cells_of(experiment)
    outcomes = [outcome(c, test=12.345 + c.run.seed) for cell in cells for c in cell.runs()]
    many = [replace(o, record=replace(o.record, seconds=1e5 + 7 * i, epochs=1000)) for i, o in enumerate(outcomes)]
    result = table(cells, many)
    file = StringIO()
    Console(file=file, width=80, color_system=None).print(result.to_rich())
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in file.getvalue()
    assert {"ours", "n", "paper", "diff"} <= set(lines[1].split())
    for row in result.rows:
        assert any(row.cell.labels["model"] in line for line in lines)
        assert any(row.spread().text(row.metric.decimals) in line for line in lines)
        assert any(f"{row.mean_of('seconds'):,.0f}" in line for line in lines)
        if row.difference is not None:  # beside the paper's, in one line
            assert any(f"{row.difference:+.{row.metric.decimals}f}" in line for line in lines)


def test_a_sweep_shows_validation_in_place_of_the_paper():
    cells = [Cell(labels={"lr": lr}, config=paper_config("CLUSTER", lr=lr), seeds=(41,)) for lr in (1e-3, 1e-4)]
    result = table(cells, [outcome(cells[0].runs()[0], val=50.0), outcome(cells[1].runs()[0], val=60.0)], paper=False)
    text = result.to_text()
    assert "paper" not in text.splitlines()[1]
    assert "0.0001" in text
    assert "60.00" in text


def test_the_paper_is_left_empty_where_it_has_no_number_and_lower_is_better_for_mae():
    cell = table1("ZINC", "gin", seeds=[41])
    result = table([cell], [outcome(cell.runs()[0], test=0.4, val=0.5)])
    assert result.to_json()["rows"][0]["published"] is None
    assert "0.400" in result.to_text()
    rows = [replace(cell, labels={"n": n}) for n in (1, 2)]
    mae = table(rows, [outcome(cell.runs()[0], val=v) for v in (0.5, 0.3)], paper=False)
    assert mae._best_by_validation() == 1
    assert math.isclose(mae.rows[0].spread(key="val_metric").mean, 0.5)
