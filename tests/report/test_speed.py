"""Benchmark records as a report shows them."""

import json
from pathlib import Path

import pytest

from lrga.report.speed import speed_record
from lrga.speed.record import make_record

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "speed"


def view(rows):
    return speed_record(make_record("x", rows, device="cpu"), Path("x.json"))


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_every_record_of_this_project_has_something_to_draw(path):
    record = speed_record(json.loads(path.read_text()), path)
    assert set(record.measures) & {"time", "throughput", "memory", "ratio"}
    assert all(record.label(row) for row in record.rows)


def test_rows_that_were_skipped_are_named_with_their_reason():
    record = speed_record(json.loads((RESULTS / "attention-cpu.json").read_text()), RESULTS / "attention-cpu.json")
    assert ("large, MultiheadAttention", "4e+10 scores a head") in record.skipped


def test_a_size_that_grows_is_recognised():
    record = view([{"case": m, "nodes": n, "ms": n * k} for k, m in enumerate("ab", 1) for n in (10, 100)])
    assert (record.size, record.labels) == ("nodes", ["case"])
    assert view([{"case": d, "graphs": n, "ms": 1.0} for d, n in (("a", 1), ("b", 2))]).size is None


def test_times_in_two_units_are_two_charts():
    record = view([{"case": "a", "step_ms": 1.0, "all_seconds": 2.0, "other_ms": 3.0}])
    assert record.panels == [("Time (ms)", ["step_ms", "other_ms"]), ("Time (seconds)", ["all_seconds"])]


def test_numbers_tell_rows_apart_that_words_do_not():
    record = view([{"case": "walk", "p": p, "q": 1.0, "steps_per_second": 5.0} for p in (0.5, 1.0)])
    assert [record.label(row) for row in record.rows] == ["walk, 0.5", "walk, 1.0"]
