"""A moment that several runs shared is charged to each by its part."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrga.bench.records import read_record
from lrga.bench.sharing import busy_seconds, charged, parts_of, span_of

RESULTS = Path(__file__).resolve().parents[2] / "results" / "table1"
SPAN = st.tuples(st.integers(0, 50), st.integers(1, 20)).map(lambda pair: (float(pair[0]), float(sum(pair))))


@given(st.lists(SPAN, max_size=8))
def test_what_is_charged_adds_up_to_the_time_in_which_the_device_was_busy(spans):
    own = charged(spans)
    assert sum(own) == pytest.approx(busy_seconds(spans))
    assert all(0 < part <= end - begin + 1e-9 for part, (begin, end) in zip(own, spans, strict=True))


@given(SPAN, st.integers(1, 6))
def test_equals_have_equal_parts(span, count):
    assert charged([span] * count) == pytest.approx([(span[1] - span[0]) / count] * count)


def timed(run, starts, end, name):
    environment = [{"gpu": "a GPU", "started": f"2020-06-01T{start}+0000"} for start in starts]
    return replace(run, run=name, environment=environment, time=f"2020-06-01T{end}+0000")


def test_a_paused_run_is_charged_over_all_its_starts():
    run = read_record(sorted(RESULTS.glob("cluster-lrga-gcn-100k*.json"))[0])
    paused = timed(run, ["10:00:00"], "10:10:00", "a")
    ended = timed(run, ["10:00:00", "12:00:00"], "12:10:00", "a")
    other = timed(run, ["12:00:00"], "12:10:00", "b")
    assert parts_of([ended], [paused, ended, other]) == pytest.approx([0.75])
    assert parts_of([ended], [ended, other]) == pytest.approx([0.5])  # nothing is known of its first start
    assert parts_of([other], [paused, ended, other]) == pytest.approx([0.5])


def test_a_run_of_which_no_start_is_known_is_charged_whole():
    run = replace(read_record(sorted(RESULTS.glob("cluster-lrga-gcn-100k*.json"))[0]), environment=[{"gpu": "a GPU"}])
    assert span_of(run) is None
    assert parts_of([run], [run, run]) == [1.0]
