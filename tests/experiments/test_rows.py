"""Runs that differ in their seed alone are one cell."""

import math

from lrga.experiments.loading import Run, grouped_rows, rank_series
from lrga.paper.reference import THE_PAPER


def rows_of(*records):
    return grouped_rows([Run(record, record.run) for record in records], THE_PAPER)


def test_seeds_are_averaged_beside_the_paper(make_record):
    (cell,) = rows_of(*(make_record(seed=s, test=t) for s, t in ((41, 68.0), (95, 69.0), (12, 70.0))))
    assert (cell.spread().n, cell.spread().mean, cell.spread().std) == (3, 69.0, 1.0)
    assert (cell.cell.published.mean, cell.cell.published.std) == (68.44, 0.16)
    assert math.isclose(cell.difference, 69.0 - 68.44)
    assert (cell.cell.labels["model"], cell.cell.deviations()) == ("LRGA + GCN 100K", {})


def test_only_finished_runs_are_averaged(make_record):
    (cell,) = rows_of(make_record(seed=1, test=60.0), make_record(seed=2, test=0.0, status="time-limited"))
    assert (len(cell.outcomes), cell.spread().n, cell.spread().mean) == (2, 1, 60.0)
    (cell,) = rows_of(make_record(status="failed", epochs=0, metric_free=True))
    assert (cell.spread(), cell.difference) == (None, None)


def test_what_differs_from_the_protocol_is_said_and_another_width_has_no_published_number(make_record):
    (cell,) = rows_of(make_record(max_epochs=3, options={"sizes": [6, 2, 2]}))
    assert cell.cell.deviations() == {"options": ({"sizes": [6, 2, 2]}, {}), "max_epochs": (3, 1000)}
    (cell,) = rows_of(make_record(hidden=7))
    assert cell.cell.published is None


def test_cells_of_one_name_are_told_apart_by_their_options(make_record):
    cells = rows_of(make_record("a", lr=0.1), make_record("b", lr=0.01), make_record("c", lrga=False))
    assert sorted(cell.cell.labels["model"] for cell in cells) == [
        "GCN 100K",
        "LRGA + GCN 100K (lr 0.01)",
        "LRGA + GCN 100K (lr 0.1)",
    ]


def test_two_presets_with_published_numbers_are_told_apart(make_record):
    runs = make_record("a"), make_record("b", preset="2020"), make_record("c", lrga=False)
    labels = [(row.cell.labels["model"], row.cell.published is not None) for row in rows_of(*runs)]
    assert labels == [
        ("GCN 100K", True),
        ("LRGA + GCN 100K (preset 2020)", True),
        ("LRGA + GCN 100K (preset 2022)", True),
    ]


def test_ranks_of_one_network_make_a_curve(make_record):
    records = [make_record(rank=rank, seed=seed, test=50.0 + rank + seed) for rank in (0, 10, 30) for seed in (1, 3)]
    records.append(make_record("other", dataset="PATTERN", rank=5))
    ((label, line),) = rank_series(rows_of(*records))
    assert [(rank, cell.spread().mean) for rank, cell in line] == [(0, 52.0), (10, 62.0), (30, 82.0)]
    assert label == "CLUSTER, LRGA + GCN 100K"


def test_a_network_of_a_given_width_is_not_called_by_a_budget(make_record):
    given, solved = (rows_of(make_record(hidden=width))[0].cell.labels["model"] for width in (16, None))
    assert given == "LRGA + GCN"
    assert solved == "LRGA + GCN 100K"
