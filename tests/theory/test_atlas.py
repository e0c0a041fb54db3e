"""The atlas of small graphs."""

import sys

import pytest

from lrga.errors import MissingDependencyError, OptionError
from lrga.theory.atlas import connected_graphs


def test_there_are_as_many_connected_graphs_as_known():
    assert [len(connected_graphs(n)) for n in range(1, 8)] == [1, 1, 2, 6, 21, 112, 853]


def test_all_have_the_size_asked_for():
    assert all(g.num_nodes == 5 and g.num_edges >= 4 for g in connected_graphs(5))


def test_sizes_beyond_the_atlas_are_refused():
    with pytest.raises(OptionError, match="1 to 7"):
        connected_graphs(8)


def test_a_missing_networkx_is_named_with_its_extra(monkeypatch):
    connected_graphs.cache_clear()
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match=r"lrga\[graphs\]"):
        connected_graphs(4)
