"""k-FWL: for k = 2 the fast test, beyond it what only more dimensions see."""

import tracemalloc

import numpy as np
import pytest

from lrga.errors import DataError, OptionError
from lrga.theory.graphs import cai_fuerer_immerman, random_graph
from lrga.theory.inputs import as_graph
from lrga.theory.multiset import same_partition
from lrga.theory.strongly_regular import rook, shrikhande
from lrga.theory.wl import kfwl
from lrga.theory.wl.fwl import refine_pairs
from lrga.theory.wl.kfwl import refine_tuples


@pytest.mark.parametrize("seed", range(4))
def test_two_dimensions_are_2fwl(seed):
    graphs = [random_graph(9, 0.3, seed), as_graph([(0, 1), (1, 2)], num_nodes=9)]
    plain, fast = refine_tuples(graphs, 2), refine_pairs(graphs)
    assert same_partition(np.stack(plain.colours), np.stack(fast.colours))
    assert plain.rounds == fast.rounds


def test_three_dimensions_see_what_two_do_not():
    assert refine_tuples([rook(), shrikhande()], 2, until_apart=True).apart_after is None
    assert refine_tuples([rook(), shrikhande()], 3, until_apart=True).apart_after == 1


def test_the_order_of_the_nodes_changes_nothing():
    pair = [cai_fuerer_immerman(4, twisted=twisted) for twisted in (False, True)]
    rng = np.random.default_rng(0)
    moved = [g.permuted(rng.permutation(g.num_nodes)) for g in pair]
    assert refine_tuples(moved, 3, until_apart=True).apart_after is not None
    assert refine_tuples([pair[0], moved[0]], 3, until_apart=True).apart_after is None


def test_colours_too_many_for_one_word_are_renumbered(monkeypatch):
    """Five dimensions and many colours: products of colours pass 2^63 and must not wrap around."""
    graphs = [
        as_graph(random_graph(5, 0.5, 0), node_labels=range(5)),
        as_graph([(0, 1)], num_nodes=5, node_labels=range(5)),
    ]
    result = refine_tuples(graphs, 5)
    assert [len(np.unique(c)) for c in result.colours] == [5**5, 5**5]


def test_fewer_than_two_dimensions_are_refused():
    with pytest.raises(OptionError, match="2 or more"):
        refine_tuples([rook()], 1)


def test_self_loops_are_refused():
    with pytest.raises(DataError, match="3-fwl"):
        refine_tuples([as_graph([(0, 0)])], 3)


def test_memory_stays_within_what_is_asked_for():
    graph = random_graph(16, 0.4, 0)
    tracemalloc.start()
    refine_tuples([graph], 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < kfwl._BYTES_PER_ENTRY * 16**4
