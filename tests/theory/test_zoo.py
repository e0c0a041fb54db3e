"""Every verdict of the zoo, on the graphs and on shuffled copies of them."""

import numpy as np
import pytest

from lrga.theory.wl.verdicts import distinguishes, verdict_matrix
from lrga.theory.zoo import zoo

ENTRIES = zoo()
CASES = [(name, test) for name, entry in ENTRIES.items() for test in entry.verdicts]
QUICK = [case for case in CASES if case not in (("chang", "3-fwl"), ("cai-fuerer-immerman-3", "3-fwl"))]


def verdicts_as_known(name, test, graphs):
    pairs = verdict_matrix(graphs, test)[np.triu_indices(len(graphs), k=1)]
    return (pairs == ENTRIES[name].verdicts[test]).all()


@pytest.mark.parametrize(("name", "test"), QUICK)
def test_verdicts_are_those_of_the_literature(name, test):
    rng = np.random.default_rng(0)
    graphs = ENTRIES[name].graphs
    assert verdicts_as_known(name, test, graphs)
    assert verdicts_as_known(name, test, [g.permuted(rng.permutation(g.num_nodes)) for g in graphs])


@pytest.mark.parametrize(("name", "test"), [case for case in QUICK if case[1] != "3-fwl"])
def test_isomorphic_copies_are_never_told_apart(name, test):
    rng = np.random.default_rng(1)
    for graph in ENTRIES[name].graphs:
        assert not distinguishes(graph, graph.permuted(rng.permutation(graph.num_nodes)), test)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "test"), sorted(set(CASES) - set(QUICK)))
def test_verdicts_of_3fwl_on_the_larger_graphs(name, test):
    assert verdicts_as_known(name, test, ENTRIES[name].graphs)


@pytest.mark.slow
def test_3fwl_tells_all_fifteen_apart():
    assert verdict_matrix(ENTRIES["paulus"].graphs, "3-fwl").sum() == 15 * 14


def test_cai_fuerer_immerman_pairs_climb_the_hierarchy():
    for k in (1, 2, 3):
        verdicts = ENTRIES[f"cai-fuerer-immerman-{k}"].verdicts
        tests = ["1-wl", "2-fwl", "3-fwl"]
        assert [verdicts[t] for t in tests] == [k < dimension for dimension in (1, 2, 3)]


def test_every_entry_has_a_reference_and_the_three_verdicts():
    for entry in ENTRIES.values():
        assert any(character.isdigit() for character in entry.reference)
        assert {"1-wl", "2-wl", "2-fwl"} <= set(entry.verdicts)
        assert len(entry.graphs) >= 2
