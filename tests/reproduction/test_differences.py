"""Cells far from the paper's: each is listed once, with what was tried on it and whether that brings it near."""

from pathlib import Path

import pytest

from lrga.experiments.loading import load_runs, rows_of
from lrga.experiments.records import write_record
from lrga.paper.protocols import cells_of, paper_config
from reproduction.differences import FAR, differences
from tests.helpers.records import record_of

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


def write(folder, test, *, dataset="PATTERN", model="gatedgcn", metric="weighted_accuracy", **options):
    run = f"run-{len(list(folder.rglob('*.json')))}"
    write_record(record_of(paper_config(dataset, model, **options), test=test, metric=metric, run=run), folder)


def test_a_cell_that_is_near_is_not_listed(tmp_path):
    write(tmp_path, 85.1)  # printed 85.09
    assert differences([tmp_path]) == []


def test_a_cell_that_is_far_has_no_explanation_until_something_brings_it_near(tmp_path):
    write(tmp_path, 84.0)
    (found,) = differences([tmp_path])
    assert (found.name, found.difference, found.tried) == ("PATTERN LRGA + GatedGCN 100K", pytest.approx(-1.09), ())
    assert found.cells()[3:] == ("none run", "none")
    write(tmp_path, 84.2, wiring="norm-first")
    (found,) = differences([tmp_path])
    assert found.verdict == "none"
    write(tmp_path, 85.2, wiring="two-residuals")
    write(tmp_path, 85.1, wiring="outer-residual")
    (found,) = differences([tmp_path])
    assert [trial.change for trial in found.tried] == ["norm-first", "outer-residual", "two-residuals"]
    assert found.verdict == "outer-residual"
    assert "two-residuals 85.20 (+0.9)" in found.cells()[3]


def test_other_networks_are_no_trials_of_it(tmp_path):
    write(tmp_path, 84.0)
    write(tmp_path, 85.1, lrga=False, preset="2020")
    write(tmp_path, 85.1, random_features=True, budget="500K", preset="2020")
    assert next(found.tried for found in differences([tmp_path]) if found.name.endswith("LRGA + GatedGCN 100K")) == ()


def test_every_far_cell_of_the_records_is_listed_and_none_twice():
    landed = load_runs([RESULTS])
    rows = [row for table in ("table1", "table2", "table3") for row in rows_of(cells_of(table), landed)]
    far = [errors for row in rows if (errors := row.standard_errors) is not None and abs(errors) > FAR]
    found = differences([RESULTS])
    assert [entry.errors for entry in found] == pytest.approx(far)
    assert len({entry.name for entry in found}) == len(found)
