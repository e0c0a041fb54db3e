"""Statements on random features, monomials and factorisations hold to their tolerances."""

import pytest

from lrga.theory.random_statements import RANDOM_STATEMENTS


@pytest.mark.parametrize("statement", RANDOM_STATEMENTS, ids=lambda s: s.key)
def test_the_statement_holds(statement):
    measurement = statement.measure()
    assert measurement.holds, measurement.figure


def test_measurements_are_the_same_each_time():
    statement = next(s for s in RANDOM_STATEMENTS if s.key == "random-factorisation")
    assert statement.measure().values == statement.measure().values
