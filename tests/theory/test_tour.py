"""Tours: order, timing, threads."""

import pytest
import torch

from lrga.theory.tour import Measurement, Statement, run_tour, slope


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


def test_the_slope_is_the_exponent():
    assert slope([1, 2, 4, 8], [3 * x**-0.5 for x in (1, 2, 4, 8)]) == pytest.approx(-0.5)
