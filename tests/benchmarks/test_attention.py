"""Only memory that ran out is called out of memory; any other failure stops the benchmark with its error."""

import os
import signal

import attention
import pytest
import torch

from lrga.speed.record import make_record

pytestmark = pytest.mark.usefixtures("one_thread")  # a forked child cannot use the threads of other tests


def killed(number):
    os.kill(os.getpid(), number)


def raises(error):
    raise error


def small(monkeypatch, measure):
    """One case of one small graph, our method alone, and another measurement."""
    monkeypatch.setattr(attention, "CASES", {"uniform": [5, 3], "skewed": [4]})
    monkeypatch.setattr(attention, "METHODS", {name: attention.METHODS[name] for name in ("lrga", "padded LRGA")})
    monkeypatch.setattr(attention, "measure", measure)


def test_a_child_hands_its_result_back():
    assert attention.in_own_process(lambda: {"mb": 1.5}) == {"mb": 1.5}


@pytest.mark.parametrize(
    "work",
    [
        lambda: killed(signal.SIGKILL),
        lambda: raises(MemoryError()),
        lambda: raises(torch.OutOfMemoryError("CUDA out of memory")),
        lambda: torch.empty(2**58),
    ],
)
def test_memory_that_ran_out_is_told_from_other_failures(work):
    with pytest.raises(attention.OutOfMemory):
        attention.in_own_process(work)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: raises(ValueError("no such width")), "ValueError: no such width"),
        (lambda: raises(SystemExit("uniform: wrong by 1")), "uniform: wrong by 1"),
        (lambda: killed(signal.SIGTERM), "signal 15"),
    ],
)
def test_any_other_failure_stops_with_the_childs_error(work, words):
    with pytest.raises(SystemExit, match=words):
        attention.in_own_process(work)


def test_an_error_of_a_method_is_not_recorded_as_out_of_memory(monkeypatch):
    small(monkeypatch, lambda *of: raises(ValueError("a bug")))
    with pytest.raises(SystemExit, match="ValueError: a bug"):
        attention.run_all("cpu", 1, lambda text: None)


def test_a_method_that_runs_out_of_memory_is_recorded_as_such(monkeypatch):
    true = attention.measure
    small(monkeypatch, lambda case, method, *of: raises(MemoryError()) if "pad" in method else true(case, method, *of))
    rows = attention.run_all("cpu", 1, lambda text: None)
    assert [row.get("skipped") for row in rows] == [None, "out of memory"] * 2
    assert rows[0]["ratio"] == 1.0
    attention.show(make_record("attention", rows, device="cpu", settings={"threads": 1}))
