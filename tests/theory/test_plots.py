"""Plots of a tour."""

import sys

import pytest

from lrga.errors import MissingDependencyError
from lrga.theory.tour import Measurement, Series, Statement, Stop, draw


def stop(series):
    measurement = Measurement("a figure", holds=True, values={}, series=series)
    return Stop(Statement("some-key", "Proposition 0", "a claim", lambda: measurement), measurement, 0.0)


SERIES = Series("d", "error", [1, 10, 100], {"one": [1.0, 0.3, 0.1]})


def test_a_plot_is_written_under_the_statements_key(tmp_path):
    path = draw(stop(SERIES), tmp_path / "new")
    assert path == tmp_path / "new" / "some-key.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_statement_without_curves_has_no_plot(tmp_path):
    assert draw(stop(None), tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_named_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"lrga\[plot\]"):
        draw(stop(SERIES), tmp_path)
