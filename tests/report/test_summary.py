"""What the page opens on: the best results, and LRGA's difference as ``lrga compare`` computes it."""

import pytest

from lrga.experiments.loading import Collection, Run, grouped_rows
from lrga.experiments.table import lrga_pairs, paired_difference
from lrga.report.summary import best_rows, summary_of


@pytest.fixture
def rows_of(make_record):
    """``rows_of(*options)``: rows of records with these options, and their summary."""

    def rows(*options):
        runs = [Run(make_record(f"run {number}", **values), "") for number, values in enumerate(options)]
        found = grouped_rows(runs)
        return found, summary_of(Collection(runs=runs), found)

    return rows


def seeds(results, **options):
    return [{"seed": seed, "test": test, **options} for seed, test in results.items()]


PLAIN, AUGMENTED = {1: 60.0, 2: 61.0, 3: 62.0}, {1: 65.0, 2: 66.2, 3: 66.9}


def test_the_difference_is_that_of_the_paired_comparison(rows_of):
    rows, summary = rows_of(*seeds(PLAIN, lrga=False), *seeds(AUGMENTED, lrga=True))
    (pair,) = lrga_pairs(rows)
    assert pair.difference == paired_difference(PLAIN, AUGMENTED)
    assert summary["verdict"]["value"] == "+5.03"
    assert summary["verdict"]["word"] == "better"
    (shown,) = summary["pairs"]
    assert (shown["interval"], shown["verdict"], shown["n"]) == ("+4.65 to +5.41", "better", 3)


@pytest.mark.parametrize(
    ("augmented", "word"),
    [
        ({1: 65.0, 2: 55.0}, "no clear difference"),
        ({1: 50.0, 2: 51.1}, "worse"),
        ({1: 65.0}, "one pair of seeds: no interval"),
        ({9: 65.0}, "no seed in common"),
    ],
)
def test_what_is_not_clear_is_not_called_better(rows_of, augmented, word):
    _, summary = rows_of(*seeds({1: 60.0, 2: 61.0}, lrga=False), *seeds(augmented, lrga=True))
    assert summary["pairs"][0]["verdict"] == word


def test_only_networks_that_differ_in_lrga_alone_are_pairs(rows_of):
    rows, summary = rows_of(
        *seeds(PLAIN, lrga=False),
        *seeds(AUGMENTED, lrga=True, rank=10),
        *seeds({1: 60.0, 2: 60.0}, lrga=True, rank=20),
        *seeds(AUGMENTED, lrga=True, lr=0.1),
        *seeds(AUGMENTED, lrga=True, model="gat"),
    )
    assert [pair.augmented.cell.config.model.rank for pair in lrga_pairs(rows)] == [10, 20]
    assert summary["verdict"]["value"] == "1 of 2"
    assert "0 clearly worse, 1 without a clear difference" in summary["verdict"]["text"]


def test_the_best_is_the_highest_or_where_less_is_better_the_lowest(rows_of):
    rows, summary = rows_of(
        {"test": 60.0}, {"test": 61.0, "lrga": False}, {"dataset": "ZINC", "test": 0.4, "epochs": 1},
        {"dataset": "ZINC", "test": 0.3, "epochs": 1, "lrga": False}, {"seed": 2, "status": "failed", "epochs": 0},
    )  # fmt: skip
    assert [row.spread().mean for row in best_rows(rows)] == pytest.approx([61.0, 0.3])
    assert summary["status"] == "4 finished, 1 failed or diverged"
    assert summary["datasets"] == "CLUSTER, ZINC"
    assert summary["verdict"] == {"value": "2 pairs", "word": "", "text": "of a single seed each: no interval"}


def test_without_a_pair_nothing_is_claimed(rows_of):
    _, summary = rows_of({"test": 60.0})
    assert (summary["pairs"], summary["verdict"]) == ([], None)
