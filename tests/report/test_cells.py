"""Runs that differ in their seed alone are one cell."""

import math

from lrga.report.cells import rank_series, result_cells
from lrga.report.runs import run_of_record


def runs_of(*records):
    return [run_of_record(record, record.run) for record in records]


def test_seeds_are_averaged_beside_the_paper(make_record):
    (cell,) = result_cells(runs_of(*(make_record(seed=s, test=t) for s, t in ((41, 68.0), (95, 69.0), (12, 70.0)))))
    assert (cell.spread().n, cell.spread().mean, cell.spread().std) == (3, 69.0, 1.0)
    assert (cell.published.mean, cell.published.std) == (68.44, 0.16)
    assert math.isclose(cell.difference, 69.0 - 68.44)
    assert (cell.label, cell.changes) == ("LRGA + GCN 100K", ())


def test_only_finished_runs_are_averaged(make_record):
    (cell,) = result_cells(
        runs_of(make_record(seed=1, test=60.0), make_record(seed=2, test=0.0, status="time-limited"))
    )
    assert (len(cell.runs), cell.spread().n, cell.spread().mean) == (2, 1, 60.0)
    (cell,) = result_cells(runs_of(make_record(status="failed", epochs=0, metric_free=True)))
    assert (cell.spread(), cell.metric, cell.difference) == (None, None, None)


def test_what_differs_from_the_protocol_is_said(make_record):
    (cell,) = result_cells(runs_of(make_record(max_epochs=3, options={"sizes": [6, 2, 2]})))
    assert cell.changes == ("sizes=[6, 2, 2]", "epochs 3 (paper 1000)")


def test_cells_of_one_name_are_told_apart_by_their_options(make_record):
    cells = result_cells(runs_of(make_record("a", lr=0.1), make_record("b", lr=0.01), make_record("c", lrga=False)))
    assert sorted(cell.label for cell in cells) == ["GCN 100K", "LRGA + GCN 100K (lr 0.01)", "LRGA + GCN 100K (lr 0.1)"]


def test_another_width_has_no_published_number(make_record):
    (cell,) = result_cells(runs_of(make_record(hidden=7)))
    assert cell.published is None


def test_ranks_of_one_network_make_a_curve(make_record):
    records = [make_record(rank=rank, seed=seed, test=50.0 + rank + seed) for rank in (0, 10, 30) for seed in (1, 3)]
    records.append(make_record("other", dataset="PATTERN", rank=5))
    (series,) = rank_series(result_cells(runs_of(*records)))
    assert [(rank, cell.spread().mean) for rank, cell in series.cells] == [(0, 52.0), (10, 62.0), (30, 82.0)]
    assert series.label == "CLUSTER, LRGA + GCN 100K"


def test_a_network_of_a_given_width_is_not_called_by_a_budget(make_record):
    given, solved = (result_cells(runs_of(make_record(hidden=width)))[0].label for width in (16, None))
    assert given == "LRGA + GCN"
    assert solved == "LRGA + GCN 100K"
