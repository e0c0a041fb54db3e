"""Speed is measured on right values only, of every method, and memory is counted."""

import pytest
import torch

from lrga.errors import LRGAError, NonFiniteError, OptionError
from lrga.speed import measure as speed
from lrga.speed.measure import kept_mb, measure_speed, skip_reason
from lrga.speed.record import problem_of

CASES = {"two graphs": [3, 7], "one graph": [12]}


@pytest.fixture(scope="module")
def result():
    return measure_speed("cpu", width=8, rank=3, cases=CASES, seconds=0.001)


def test_every_method_is_measured_or_says_why_not(result):
    assert [(row.case, row.method) for row in result.rows] == [(c, m) for c in CASES for m in speed.METHODS]
    for row in result.rows:
        assert (row.skipped is None) == (row.both_ms is not None)
        assert row.skipped or (row.both_ms > 0 and row.kept_mb > 0 and result.times_ours(row) > 0)


def test_graphs_alone_and_in_a_batch_are_compared(result):
    alone = {row.method: row.alone for row in result.rows if row.case == "two graphs"}
    assert alone["lrga"] < 1e-5
    assert alone["PyG SGFormer"] > 1e-3


def test_json_has_rows_and_the_machine(result):
    values = result.to_json()
    assert problem_of(values) is None
    assert (values["settings"]["width"], values["rows"][0]["ratio"]) == (8, 1.0)
    assert values["settings"]["error"] < 1e-5


def test_nothing_is_timed_on_wrong_values(monkeypatch):
    monkeypatch.setattr(speed, "_error", lambda *args: float("nan"))
    with pytest.raises(NonFiniteError, match="nothing was timed"):
        measure_speed("cpu", cases=CASES)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    found = measure_speed("cpu", width=4, rank=2, cases={"one": [4]}, seconds=0.001, threads=1)
    assert found.threads == 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    "wrong", [{"width": 0}, {"rank": 0}, {"threads": 0}, {"device": "gpu"}, {"cases": {"a": []}}, {"cases": {"a": [0]}}]
)
def test_impossible_options_are_refused(wrong):
    with pytest.raises((OptionError, LRGAError)):
        measure_speed(**({"device": "cpu", "cases": CASES, "seconds": 0.001} | wrong))


def test_memory_counts_each_storage_once_and_not_what_was_given():
    x = torch.randn(1024, 256, requires_grad=True)
    assert kept_mb(lambda: (x * x).sum(), given=[x]) == 0
    assert kept_mb(lambda: (x * x).sum()) == 1
    assert kept_mb(lambda: (x.sigmoid().t() * 2).exp().sum(), given=[x]) == 2


def test_quadratic_methods_are_skipped_where_the_matrix_is_too_large():
    assert skip_reason([100], "MultiheadAttention") is None
    assert "scores" in skip_reason([20_000], "MultiheadAttention")
    assert "scores" in skip_reason([20_000], "lrga, O(n²) definition")
    assert skip_reason([20_000], "lrga") is None


@pytest.mark.parametrize(("width", "rank"), [(1, 1), (7, 20)])
def test_any_width_and_rank_can_be_measured(width, rank):
    found = measure_speed("cpu", width=width, rank=rank, cases={"three": [1, 1, 4]}, seconds=0.001)
    assert all(row.both_ms or row.skipped for row in found.rows)
