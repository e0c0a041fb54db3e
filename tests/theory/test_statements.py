"""The list of statements."""

import pytest

from lrga.errors import OptionError
from lrga.theory.statements import STATEMENTS, choose


def test_every_numbered_statement_of_the_paper_is_there():
    places = " ".join(s.place for s in STATEMENTS)
    for place in ("Section 3", "Definition 3", "Theorem 1", "Corollary 1", *(f"Proposition {n}" for n in range(1, 6))):
        assert place in places


def test_keys_are_different_and_can_be_chosen():
    keys = [s.key for s in STATEMENTS]
    assert len(set(keys)) == len(keys)
    assert [s.key for s in choose(["scale", "monomials"])] == ["monomials", "scale"]
    assert choose([]) == list(STATEMENTS)
    with pytest.raises(OptionError, match="monomials"):
        choose(["lemma 9"])


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.key)
def test_the_statement_holds(statement):
    measurement = statement.measure()
    assert measurement.holds, measurement.figure


def test_measurements_are_the_same_each_time():
    (statement,) = choose(["random-factorisation"])
    assert statement.measure().values == statement.measure().values
