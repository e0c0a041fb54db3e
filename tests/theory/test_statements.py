"""The paper's statements: each is measured, put on a tour and written with its plot."""

import json
import sys
from functools import partial
from importlib.resources import files

import pytest
import torch

from lrga.errors import DataError, DataMissingError, OptionError
from lrga.theory import statements
from lrga.theory.statements import STATEMENTS, choose
from lrga.theory.tour import Measurement, Series, Statement, run_tour, write_tour
from lrga.theory.trained import TRAINED_CLAIMS, TrainingRecord, shipped_record
from reproduction.theory.experiments import write_training


def test_every_numbered_statement_is_there_under_a_key_of_its_own():
    places = " ".join(s.place for s in STATEMENTS)
    for place in ("Section 3", "Definition 3", "Theorem 1", "Corollary 1", *(f"Proposition {n}" for n in range(1, 6))):
        assert place in places
    keys = [s.key for s in STATEMENTS]
    assert len(set(keys)) == len(keys)
    assert [s.key for s in choose(["scale", "monomials"])] == ["monomials", "scale"]
    assert choose([]) == list(STATEMENTS)
    with pytest.raises(OptionError, match="monomials"):
        choose(["lemma 9"])


# At their full size these take the longest of all.
SMALLER = {
    "universality-bound": partial(statements.hoeffding_bounds_the_deviation, trials=4_000),
    "multiset-encoding": partial(statements.power_sums_are_one_round, max_nodes=6),
    "multi-head": partial(statements.many_heads_are_one_round, max_nodes=5),
}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.key)
def test_the_statement_holds(statement):
    measurement = SMALLER.get(statement.key, statement.measure)()
    assert measurement.holds, measurement.figure


@pytest.mark.slow
@pytest.mark.parametrize("statement", choose(list(SMALLER)), ids=lambda s: s.key)
def test_the_statement_holds_at_its_full_size(statement):
    assert statement.measure().holds


def test_measurements_are_the_same_each_time():
    (statement,) = choose(["random-factorisation"])
    assert statement.measure().values == statement.measure().values


def statement(key, measure):
    return Statement(key, "Somewhere", "a claim", measure)


def test_statements_are_measured_in_order_and_announced():
    said = []
    stops = run_tour(
        [statement(k, lambda k=k: Measurement(k, holds=k != "b", values={})) for k in "abc"],
        on_start=lambda s: said.append(s.key),
    )
    assert said == ["a", "b", "c"]
    assert [s.measurement.holds for s in stops] == [True, False, True]
    assert all(s.seconds >= 0 for s in stops)


def test_one_thread_is_used_and_the_number_restored_even_after_an_error():
    torch.set_num_threads(2)
    seen = []

    def fail():
        seen.append(torch.get_num_threads())
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        run_tour([statement("a", fail)])
    assert seen == [1]
    assert torch.get_num_threads() == 2


def tour(holds=True):
    def curve():
        return Measurement("falls", holds, {"slope": -0.5}, Series("d", "e", [1, 4], {"c": [1.0, 0.5]}))

    def plain():
        return Measurement("equal", holds=True, values={})

    return run_tour([Statement("curve", "P 1", "c", curve), Statement("plain", "P 2", "c", plain)])


def test_rows_and_plots_are_written(tmp_path):
    report = write_tour(tour(), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "tour.json").read_text()) == report
    assert [row["key"] for row in report["statements"]] == ["curve", "plain"]
    assert report["statements"][0]["plot"] == str(tmp_path / "out" / "curve.png")
    assert (tmp_path / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert report["statements"][1]["plot"] is None
    assert (report["holds"], report["plots_skipped"]) == (True, None)


def test_one_statement_fails_the_tour_and_without_matplotlib_the_remedy_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    report = write_tour(tour(holds=False), tmp_path)
    assert report["holds"] is False
    assert "lrga[plot]" in report["plots_skipped"]
    assert (tmp_path / "tour.json").exists()


def record(**changes):
    values = {
        "experiment": "some",
        "config": {"width": 4},
        "seeds": [0, 1],
        "metrics": {"x": [1, 2], "curves": {"a": [[1.0, 2.0], [3.0, 6.0]]}},
        "seconds": 1.5,
        "environment": {"cpu": "some"},
    }
    return values | changes


def test_a_record_survives_its_file_and_averages_over_seeds(tmp_path):
    first = TrainingRecord.from_json(record())
    path = write_training(first, tmp_path / "new")
    assert TrainingRecord.from_json(json.loads(path.read_text())) == first
    assert first.mean("a") == [2.0, 4.0]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="--output"):
        write_tour(tour(), tmp_path / "file" / "folder")
    with pytest.raises(DataError, match="--output"):
        write_training(TrainingRecord.from_json(record()), tmp_path / "file")


@pytest.mark.parametrize(
    "changes",
    [
        {"more": 1},
        None,
        {"metrics": {"x": [1, 2]}},
        {"metrics": {"x": [1, 2], "curves": {"a": [[1.0, 2.0]]}}},
        {"metrics": {"x": [1, 2], "curves": {"a": [[1.0], [2.0]]}}},
    ],
)
def test_a_damaged_record_is_refused(changes):
    with pytest.raises(DataError):
        TrainingRecord.from_json([] if changes is None else record(**changes))


def test_shipped_records_are_small_and_a_missing_one_is_named():
    for claim in TRAINED_CLAIMS:
        assert len(files("lrga.theory").joinpath("records", f"{claim.key}.json").read_bytes()) < 20_000
    with pytest.raises(DataMissingError, match="--train"):
        shipped_record("lemma-9")
