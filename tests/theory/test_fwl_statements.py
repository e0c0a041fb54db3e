"""Statements on colourings and alignment hold to their tolerances."""

import pytest

from lrga.theory.fwl_statements import FWL_STATEMENTS


@pytest.mark.parametrize("statement", FWL_STATEMENTS, ids=lambda s: s.key)
def test_the_statement_holds(statement):
    measurement = statement.measure()
    assert measurement.holds, measurement.figure
