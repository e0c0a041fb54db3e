"""Benchmark records, whatever script wrote them."""

import json
from pathlib import Path

import pytest

from lrga.report.speed import kind_of, speed_record

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "speed"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_every_record_of_this_project_has_something_to_draw(path):
    record = speed_record(json.loads(path.read_text()), path)
    assert record is not None
    assert set(record.measures) & {"time", "throughput", "memory", "ratio"}
    assert all(record.label(row) for row in record.rows)


def test_rows_that_were_skipped_are_named_with_their_reason():
    record = speed_record(json.loads((RESULTS / "attention-cpu.json").read_text()), RESULTS / "attention-cpu.json")
    assert ("large, MultiheadAttention", "4e+10 scores a head") in record.skipped


def test_a_size_that_grows_is_recognised():
    rows = [{"method": m, "nodes": n, "ms": n * k} for k, m in enumerate("ab", 1) for n in (10, 100)]
    record = speed_record({"rows": rows}, Path("scale.json"))
    assert (record.size, record.labels) == ("nodes", ["method"])
    rows = [{"dataset": d, "graphs": n, "ms": 1.0} for d, n in (("a", 1), ("b", 2))]
    assert speed_record(rows, Path("x.json")).size is None


def test_times_in_two_units_are_two_charts():
    record = speed_record({"rows": [{"m": "a", "step_ms": 1.0, "all_seconds": 2.0, "other_ms": 3.0}]}, Path("x.json"))
    assert record.panels == [("Time (ms)", ["step_ms", "other_ms"]), ("Time (seconds)", ["all_seconds"])]


def test_cases_by_name_are_rows():
    values = {"device": "CPU", "fused": {"ms": 1.0}, "plain": {"ms": 2.0}, "versions": {"torch": "2"}}
    record = speed_record(values, Path("x.json"))
    assert [record.label(row) for row in record.rows] == ["fused", "plain"]
    assert set(record.facts) == {"device", "versions"}


def test_numbers_tell_rows_apart_that_words_do_not():
    rows = [{"kind": "walk", "p": p, "q": 1.0, "steps_per_second": 5.0} for p in (0.5, 1.0)]
    record = speed_record({"rows": rows}, Path("x.json"))
    assert [record.label(row) for row in record.rows] == ["walk, 0.5", "walk, 1.0"]


@pytest.mark.parametrize("values", [None, 3, "x", [], {}, {"rows": []}, {"rows": [1]}, [{"a": 1}], {"x": [{"y": "z"}]}])
def test_what_measures_nothing_is_no_record(values):
    assert speed_record(values, Path("x.json")) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("peak_memory_mb", "memory"), ("gpu_gb", "memory"), ("bytes", "memory"), ("seconds", "time"),
        ("step_ms", "time"), ("milliseconds_pyg", "time"), ("graphs_per_second", "throughput"), ("speedup", "ratio"),
        ("number", None),
        ("items", None), ("first_loss", None),
    ],
)  # fmt: skip
def test_a_column_is_known_by_its_name(name, kind):
    assert kind_of(name) == kind


def test_numbers_that_are_none_are_dropped():
    record = speed_record(
        {"rows": [{"m": "a", "ms": float("nan")}, {"m": "b", "ms": 1.0, "more": [1]}]}, Path("x.json")
    )
    assert record.rows == [{"m": "a"}, {"m": "b", "ms": 1.0}]
