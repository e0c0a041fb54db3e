"""1-WL against its definition, against networkx, and on what makes it hard."""

import tracemalloc

import networkx as nx
import numpy as np
import pytest

from lrga.theory.kernels import same_partition
from lrga.theory.labelled import as_graph, graph_from_arcs
from lrga.theory.wl import refinement as wl
from lrga.theory.wl.refinement import refine_nodes
from lrga.theory.zoo import circular_skip_link, cycle, random_graph, two_triangles


def by_definition(graphs, rounds=None):
    """Colours as nested tuples, made anew in every round; slow and plainly right."""
    sees = []
    for graph in graphs:
        label = {
            (int(s), int(t)): tuple(graph.edge_labels[e].tolist()) if graph.edge_labels is not None else ()
            for e, (s, t) in enumerate(zip(graph.source, graph.target, strict=True))
        }
        pairs = set(label) | {(t, s) for s, t in label}
        sees.append(
            [[(label.get((v, u)), label.get((u, v)), u) for w, u in pairs if w == v] for v in range(graph.num_nodes)]
        )
    colours = [
        [tuple(g.node_labels[v].tolist()) if g.node_labels is not None else () for v in range(g.num_nodes)]
        for g in graphs
    ]
    done = 0
    while rounds is None or done < rounds:
        seen = [
            [(c[v], tuple(sorted(((o, i, c[u]) for o, i, u in s[v]), key=repr))) for v in range(len(c))]
            for c, s in zip(colours, sees, strict=True)
        ]
        names = {key: n for n, key in enumerate(sorted({key for row in seen for key in row}, key=repr))}
        new = [[names[key] for key in row] for row in seen]
        if len(names) == len({x for row in colours for x in row}):
            break
        colours, done = new, done + 1
    flat = [x for row in colours for x in row]
    names = {key: n for n, key in enumerate(sorted(set(flat), key=repr))}
    return np.array([names[x] for x in flat]), done


def graphs_of_many_kinds():
    rng = np.random.default_rng(0)
    for seed in range(12):
        n = int(rng.integers(1, 14))
        matrix = rng.random((n, n)) < rng.choice([0.1, 0.2, 0.5])
        source, target = np.nonzero(matrix)
        labels = rng.integers(0, 2, n) if seed % 3 == 0 else None
        yield graph_from_arcs(source, target, n, both_ways=seed % 2 == 0, node_labels=labels)
        upper, lower = np.nonzero(np.triu(matrix, k=1))
        yield graph_from_arcs(upper, lower, n, both_ways=seed % 2 == 0, edge_labels=rng.integers(0, 3, len(upper)))


@pytest.mark.parametrize("graph", list(graphs_of_many_kinds()), ids=repr)
def test_colours_and_rounds_are_those_of_the_definition(graph):
    result = refine_nodes([graph])
    wanted, rounds = by_definition([graph])
    assert same_partition(result.colours[0], wanted)
    assert (result.rounds, result.stable) == (rounds, True)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_cut_after_some_rounds_colours_are_those_of_the_definition(rounds):
    graph = as_graph(nx.path_graph(12))
    result = refine_nodes([graph], rounds=rounds)
    assert same_partition(result.colours[0], by_definition([graph], rounds)[0])
    assert (result.rounds, result.stable) == (rounds, False)


def test_graphs_refined_together_share_names_that_do_not_depend_on_the_order_of_the_nodes():
    graphs = [as_graph(nx.path_graph(5)), as_graph(nx.star_graph(4)), random_graph(8, 0.4, 0)]
    result = refine_nodes(graphs)
    assert same_partition(np.concatenate(result.colours), by_definition(graphs)[0])
    rng = np.random.default_rng(0)
    for seed in range(10):
        graph = random_graph(40, 0.06, seed)
        order = rng.permutation(40)
        plain, moved = refine_nodes([graph]).colours[0], refine_nodes([graph.permuted(order)]).colours[0]
        assert np.array_equal(moved[order], plain)


def test_the_round_that_tells_graphs_apart_is_reported():
    """A path of nine, and a path of six beside a triangle: a middle node must hear of both ends."""
    graphs = [as_graph(nx.path_graph(9)), as_graph(nx.disjoint_union(nx.path_graph(6), nx.cycle_graph(3)))]
    assert refine_nodes(graphs, until_apart=True).apart_after == 4
    for rounds, apart in ((3, False), (4, True)):
        first, second = np.split(np.sort(by_definition(graphs, rounds)[0].reshape(2, 9), axis=1), 2)
        assert (not np.array_equal(first, second)) == apart


def test_labels_directions_and_loops_tell_graphs_apart_regularity_does_not():
    first, second = (as_graph([(0, 1)], node_labels=labels) for labels in ([1, 1], [1, 2]))
    assert refine_nodes([first, second], until_apart=True).apart_after == 0
    one_way = as_graph([(0, 1), (1, 2), (2, 0)], directed=True)
    mixed = as_graph([(0, 1), (1, 2), (0, 2)], directed=True)
    assert refine_nodes([one_way, mixed], until_apart=True).apart_after == 1
    assert refine_nodes([as_graph([(0, 1), (1, 2), (2, 0)])] * 2, until_apart=True).apart_after is None
    looped, plain = as_graph([(0, 0), (0, 1), (2, 3)]), as_graph([(0, 1), (2, 3)])
    assert refine_nodes([looped, plain], until_apart=True).apart_after == 1
    result = refine_nodes([cycle(6), two_triangles()], until_apart=True)
    assert (result.apart_after, result.rounds, result.stable) == (None, 0, True)


def test_a_collision_of_hashes_decides_nothing(monkeypatch):
    """With mixing functions that are constant at first, the exact comparison at the end sends the refinement back."""
    honest = wl._mix
    monkeypatch.setattr(wl, "_mix", lambda values, word: honest(values * 0 if word < 4 else values, word))
    graph = as_graph(nx.lollipop_graph(4, 6))
    result = refine_nodes([graph])
    assert same_partition(result.colours[0], by_definition([graph])[0])
    assert result.stable


def test_a_long_path_takes_time_by_what_changes():
    """One round per step from the ends: 1,000 rounds of little work each."""
    result = refine_nodes([as_graph(nx.path_graph(2_001))])
    assert result.rounds == 1_000
    assert np.array_equal(result.colours[0], result.colours[0][::-1])
    assert len(np.unique(result.colours[0])) == 1_001


@pytest.mark.parametrize("graph", [as_graph([]), as_graph([], num_nodes=3), as_graph([(0, 1)])], ids=repr)
def test_the_smallest_graphs_are_stable(graph):
    result = refine_nodes([graph, graph], until_apart=True)
    assert (result.apart_after, result.stable) == (None, True)


@pytest.mark.parametrize("skip", [2, 3])
def test_vertex_transitive_graphs_have_one_colour(skip):
    assert len(np.unique(refine_nodes([circular_skip_link(skip)]).colours[0])) == 1


@pytest.mark.parametrize(("nodes", "degree", "directed"), [(20_000, 2, False), (5_000, 40, False), (20_000, 6, True)])
def test_memory_stays_within_what_is_asked_for(nodes, degree, directed):
    edges = np.random.default_rng(0).integers(0, nodes, (nodes * degree // 2, 2))
    graph = graph_from_arcs(edges[:, 0], edges[:, 1], nodes, both_ways=not directed, edge_labels=edges.sum(axis=1) % 3)
    tracemalloc.start()
    refine_nodes([graph])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < nodes * wl._BYTES_PER_NODE + len(graph.source) * wl._BYTES_PER_ARC
