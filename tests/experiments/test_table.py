"""A table shows means of finished runs only, beside the paper's, within 100 columns."""

import csv
import json
import math
import statistics
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pandas
import pytest
import scipy.stats
from rich.console import Console

from lrga.data.datasets.spec import spec_of
from lrga.errors import MissingDependencyError
from lrga.experiments.campaign import Outcome
from lrga.experiments.cell import Cell, run_name
from lrga.experiments.loading import load_runs, rows_of
from lrga.experiments.notes import general_notes
from lrga.experiments.table import (
    ALONE,
    BESIDE,
    RECORDED,
    Spread,
    best_by_validation,
    lrga_pairs,
    paired_difference,
    table_of,
)
from lrga.paper.protocols import cells_of, paper_config, table1
from lrga.paper.reproduction import reproduction
from lrga.training.presets import make_config
from tests.helpers.records import EPOCH, record_of

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


def outcome(config, status="finished", test=68.0, val=69.0):
    last = None if status in ("failed", "pending") else EPOCH | {"epoch": 9, "test_metric": test, "val_metric": val}
    facts = {"data": {"name": config.data.name, "sha256": "0"}, "model": {"parameters": 91131}, "curve": {}}
    facts |= {"metric": "mae" if config.data.name == "ZINC" else "weighted_accuracy", "last": last, "best": last}
    record = record_of(config, run=run_name(config), status=status, epochs=9, seconds=9.0, **facts)
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


@pytest.mark.parametrize(
    ("status", "word"),
    [("pending", "not yet run"), ("time-limited", "paused"), ("failed", "failed"), ("diverged", "diverged")],
)
def test_a_row_without_a_finished_run_says_how_it_stands(status, word):
    cell = table1("CLUSTER", "gcn", seeds=[41])
    result = table([cell], [outcome(cell.runs()[0], status)])
    assert f" {word} " in result.to_text().splitlines()[3]
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
    Console(file=file, width=80, color_system=None).print(result.sheet())
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in file.getvalue()
    assert {"test", "n", "published", "diff"} <= set(lines[1].split())
    for row in result.rows:
        assert any(row.cell.labels["model"] in line for line in lines)
        assert any(row.spread().text(row.metric.decimals) in line for line in lines)
        assert any(f"{row.mean_of('seconds'):,.0f}" in line for line in lines)
        if row.difference is not None:  # beside the paper's, in one line
            assert any(f"{row.difference:+.{row.metric.decimals}f}" in line for line in lines)


def test_a_sweep_shows_validation_in_place_of_the_paper():
    cells = [Cell(labels={"lr": lr}, config=paper_config("CLUSTER", lr=lr), seeds=(41,)) for lr in (1e-3, 1e-4)]
    result = table(cells, [outcome(cells[0].runs()[0], val=50.0), outcome(cells[1].runs()[0], val=60.0)], columns=ALONE)
    text = result.to_text()
    assert "published" not in text.splitlines()[1]
    assert "0.0001" in text
    assert "60.00" in text


def test_the_paper_is_left_empty_where_it_has_no_number_and_lower_is_better_for_mae():
    cell = table1("ZINC", "gin", seeds=[41])
    result = table([cell], [outcome(cell.runs()[0], test=0.4, val=0.5)])
    assert result.to_json()["rows"][0]["published"] is None
    assert "0.400" in result.to_text()
    rows = [replace(cell, labels={"n": n}) for n in (1, 2)]
    mae = table(rows, [outcome(cell.runs()[0], val=v) for v in (0.5, 0.3)], columns=ALONE)
    assert best_by_validation(mae.rows) == 1
    assert math.isclose(mae.rows[0].spread(key="val_metric").mean, 0.5)


def notes_of(cell, outcomes):
    return table_of("", [cell], outcomes).notes


def pending(cell):
    return [Outcome(name=f"r{c.run.seed}", config=c, status="pending") for c in cell.runs()]


def test_a_regenerated_set_is_said_to_be_a_new_sample():
    notes = general_notes([table1("PATTERN"), table1("CLUSTER"), table1("CLUSTER", lrga=False), table1("ZINC")], [])
    fresh = [note for note in notes if "new sample" in note]
    assert fresh == [f"{name}: {spec_of(name).note}" for name in ("PATTERN", "CLUSTER")]


def test_graphs_that_were_rebuilt_are_told_by_their_checksum():
    cell = reproduction("table1", dataset="ZINC", model="gat", lrga=False, budget="100k").cells[0]
    (row,) = rows_of([cell], load_runs([RESULTS / "table1"]))
    assert any(
        "ZINC: validation and test are the published graphs" in note for note in general_notes([cell], row.outcomes)
    )
    others = [
        replace(outcome, record=replace(outcome.record, data=outcome.record.data | {"sha256": "0" * 64}))
        for outcome in row.outcomes
        if outcome.record is not None
    ]
    assert others
    assert not any("published graphs" in note for note in general_notes([cell], others))


def test_preset_reading_and_norm_statistics_are_named():
    plain = general_notes([table1("ZINC", lrga=False, preset="2020")], [])[0]
    assert "preset 2020" in plain
    assert "wiring" not in plain
    assert "BatchNorm" not in plain
    mixed = general_notes([table1("ZINC", wiring="norm-first"), table1("ZINC", recalibrate_norm=20)], [])[0]
    assert "LRGA wiring norm-first, authors-code" in mixed
    assert "over 0, 20 batches" in mixed


def test_changes_of_the_protocol_are_listed_once():
    changes = {"max_epochs": 2, "data_options": {"sizes": (1500, 250, 250)}}
    notes = general_notes([table1("CLUSTER", lrga=lrga, **changes) for lrga in (False, True)], [])
    assert "Not the published protocol: data sizes 1,500/250/250; max_epochs 2 (published 1000)." in notes
    assert not any("Not the published" in note for note in general_notes([table1("CLUSTER")], []))


def test_what_is_not_done_is_said_and_how_to_go_on():
    cell = table1("ZINC", seeds=[1, 2, 3])
    first, second, third = pending(cell)
    notes = notes_of(cell, [replace(first, status="finished"), second, replace(third, status="busy")])
    assert "1 of 3 runs are done, 1 not started; run the same command to resume." in notes
    assert any("seed 3: in training by another process" in note for note in notes)


def test_a_run_that_was_stopped_before_it_had_a_record_is_not_called_unbegun():
    cell = table1("ZINC", seeds=[1, 2, 3])
    first, second, third = pending(cell)
    notes = notes_of(cell, [replace(first, begun=True), second, third])
    assert "0 of 3 runs are done, 2 not started; run the same command to resume." in notes
    assert any("seed 1: interrupted; run the same command to resume" in note for note in notes)
    assert not any("not started" in note or "interrupted" in note for note in notes_of(cell, [first, second, third]))


def test_a_difference_is_paired_over_the_seeds_that_both_have():
    plain, augmented = {1: 60.0, 2: 70.0, 3: 80.0, 9: 0.0}, {1: 61.1, 2: 70.9, 3: 81.0, 8: 99.0}
    found = paired_difference(plain, augmented)
    low, high = scipy.stats.ttest_rel(
        [augmented[s] for s in (1, 2, 3)], [plain[s] for s in (1, 2, 3)]
    ).confidence_interval()
    assert (found.n, found.mean) == (3, pytest.approx(1.0))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.verdict == "better"  # though the seeds differ by far more than that
    assert paired_difference(plain, augmented, higher_is_better=False).verdict == "worse"


def test_a_difference_that_may_be_none_or_has_one_pair_is_no_verdict():
    assert paired_difference({1: 60.0, 2: 61.0}, {1: 65.0, 2: 58.0}).verdict == "no clear difference"
    one = paired_difference({1: 60.0}, {1: 65.0})
    assert (one.verdict, one.low) == ("one pair", None)
    assert paired_difference({1: 60.0}, {2: 65.0}) is None


def test_only_clear_differences_are_counted_as_better():
    cells = [table1("CLUSTER", model, lrga=lrga, seeds=[1, 2]) for model in ("gcn", "gat") for lrga in (False, True)]
    tests = [(50.0, 51.0), (60.0, 61.1), (50.0, 51.0), (70.0, 50.0)]
    outcomes = [
        outcome(c, test=t) for cell, ts in zip(cells, tests, strict=True) for c, t in zip(cell.runs(), ts, strict=True)
    ]
    notes = table_of("", cells, outcomes, columns=RECORDED).notes
    assert any("clearly better in 1 of 2 pairs with two or more seeds, clearly worse in 0" in note for note in notes)


@pytest.mark.parametrize("columns", [BESIDE, ALONE, RECORDED])
def test_a_table_is_written_in_every_form_from_the_same_rows(columns):
    cell = table1("CLUSTER", "gcn", seeds=[41, 95])
    result = table(
        [cell], [outcome(c, test=t) for c, t in zip(cell.runs(), (68.0, 70.0), strict=True)], columns=columns
    )
    (row,) = csv.DictReader(StringIO(result.to_csv()))
    assert (row["model"], float(row["mean"]), row["n"], row["published_mean"]) == ("LRGA + GCN", 69.0, "2", "68.44")
    assert "| 69.00 ± 1.41 | 2 |" in result.to_markdown()
    assert r"69.00 $\pm$ 1.41 & 2 &" in result.to_latex()
    assert "69.00 ± 1.41  2" in result.to_text()
    assert result.to_json()["rows"][0]["mean"] == 69.0


def test_a_data_frame_has_the_values_in_full_one_row_for_each_cell(monkeypatch):
    cells = [table1("CLUSTER", "gcn", seeds=[41], lrga=lrga) for lrga in (False, True)]
    result = table(cells, [outcome(cells[0].runs()[0]), outcome(cells[1].runs()[0], "pending")])
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.columns.tolist() == list(result.flat()[0])
    assert frame["model"].tolist() == ["GCN", "LRGA + GCN"]
    assert frame["mean"].tolist()[0] == 68.0
    assert frame["mean"].isna().tolist() == [False, True]
    assert frame["published_mean"].dtype == float
    pandas.testing.assert_frame_equal(pandas.read_csv(StringIO(result.to_csv())), frame, check_dtype=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="to_csv"):
        result.to_pandas()


def labelled(config, **labels):
    labels = labels or {"dataset": config.data.name, "model": "LRGA + GCN" if config.model.lrga else "GCN"}
    return Cell(labels=labels, config=config, seeds=(1, 2))


def results(pairs):
    """A table of cells with the tests of their two seeds, and of each row the difference that LRGA makes."""
    outcomes = [outcome(c, test=t) for cell, tests in pairs for c, t in zip(cell.runs(), tests, strict=True)]
    found = table([cell for cell, _ in pairs], outcomes)
    return found, [row["lrga_difference"] for row in found.to_json()["rows"]]


def test_every_row_with_lrga_is_compared_with_the_plain_network_of_its_own_options():
    narrow, wide = ({"lrga": False, "hidden": width} for width in (8, 16))
    lrga = {"lrga": True}
    configs = [
        make_config("CLUSTER", **options)
        for options in (narrow, wide, narrow | lrga, wide | lrga, wide | lrga | {"gate": True})
    ]
    tests = [(60, 60), (70, 70), (61, 63), (68, 70), (75, 75)]
    found, differences = results(list(zip(map(labelled, configs), tests, strict=True)))
    assert [one and one["mean"] for one in differences] == [None, None, 2, -1, 5]
    assert differences[2]["without"] == {"dataset": "CLUSTER", "model": "GCN"}
    assert (differences[2]["n"], differences[2]["verdict"]) == (2, "no clear difference")
    assert differences[4] | {"without": None} == {
        "without": None, "n": 2, "mean": 5, "low": 5, "high": 5, "verdict": "better"
    }  # fmt: skip
    assert len(lrga_pairs(found.rows)) == 3
    json.dumps(found.to_json(), allow_nan=False)


def test_labels_pair_networks_with_other_options_only_if_they_name_one_plain_network():
    plain = [make_config("CLUSTER", lrga=False, lr=lr) for lr in (0.1, 0.2)]
    augmented = make_config("CLUSTER", lr=0.3)
    found, differences = results([(labelled(plain[0]), (60, 60)), (labelled(augmented), (61, 61))])
    assert differences[1]["mean"] == 1
    assert lrga_pairs(found.rows) == []  # without an author's labels the rate, too, may be the reason
    ambiguous = [(labelled(plain[0]), (60, 60)), (labelled(plain[1]), (65, 65)), (labelled(augmented), (61, 61))]
    assert results(ambiguous)[1] == [None, None, None]
    named = [(labelled(plain[0], name="a"), (60, 60)), (labelled(augmented, name="b"), (61, 61))]
    assert results(named)[1] == [None, None]
