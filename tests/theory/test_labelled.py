"""Graphs with integer labels: read from PyG, networkx and edge lists, checked and ordered."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from lrga.errors import DataError, DTypeError, OptionError, ShapeError, UnsupportedError
from lrga.theory import TESTS, distinguishes
from lrga.theory.labelled import as_graph, graph_from_arcs


def arcs(*pairs):
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def test_edges_given_twice_count_once_in_the_order_of_their_ends():
    graph = graph_from_arcs(*arcs((0, 1), (1, 0), (0, 1)), both_ways=True)
    assert graph.num_edges == 1
    assert list(zip(graph.source, graph.target, strict=True)) == [(0, 1), (1, 0)]
    graph = graph_from_arcs(*arcs((2, 0), (0, 2), (0, 1)), 3)
    assert (graph.source.tolist(), graph.target.tolist()) == ([0, 0, 2], [1, 2, 0])
    assert graph_from_arcs(*arcs((0, 0), (0, 1)), both_ways=True).num_edges == 2
    assert graph_from_arcs(*arcs((0, 1)), 3).adjacency().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_edge_labels_follow_their_arcs_and_make_a_graph_symmetric_or_not():
    assert graph_from_arcs(*arcs((0, 1), (1, 0))).symmetric
    assert not graph_from_arcs(*arcs((0, 1), (1, 2), (2, 0))).symmetric
    assert graph_from_arcs(*arcs((0, 1), (1, 0)), edge_labels=[3, 3]).symmetric
    assert not graph_from_arcs(*arcs((0, 1), (1, 0)), edge_labels=[3, 4]).symmetric
    graph = graph_from_arcs(*arcs((2, 1), (0, 1)), edge_labels=[7, 5], both_ways=True)
    labels = {(s, t): label for s, t, label in zip(graph.source, graph.target, graph.edge_labels[:, 0], strict=True)}
    assert labels == {(0, 1): 5, (1, 0): 5, (1, 2): 7, (2, 1): 7}


def test_a_permuted_graph_carries_its_labels_along():
    graph = graph_from_arcs(*arcs((0, 1), (1, 2)), node_labels=[4, 5, 6], edge_labels=[1, 2], both_ways=True)
    order = [2, 0, 1]
    moved = graph.permuted(order)
    assert moved.node_labels[:, 0].tolist() == [5, 6, 4]
    matrix = np.zeros((3, 3), dtype=int)
    matrix[graph.source, graph.target] = graph.edge_labels[:, 0]
    moved_matrix = np.zeros((3, 3), dtype=int)
    moved_matrix[moved.source, moved.target] = moved.edge_labels[:, 0]
    assert all(moved_matrix[order[i], order[j]] == matrix[i, j] for i in range(3) for j in range(3))


PATH = [(0, 1), (1, 2)]
PATH_ARCS = {(0, 1), (1, 0), (1, 2), (2, 1)}


def arcs_of(graph):
    return set(zip(graph.source.tolist(), graph.target.tolist(), strict=True))


@pytest.mark.parametrize(
    "given",
    [
        PATH,
        {(0, 1), (1, 2)},
        (pair for pair in PATH),
        np.array(PATH),
        np.array(PATH).T[:, [0, 1, 0]],
        torch.tensor(PATH).T,
        torch.tensor([[0, 1, 1], [1, 2, 0]]),
        [[0, 1, 1], [1, 2, 0]],
        nx.path_graph(3),
        nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 1)]),
        Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3),
        Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])),
        as_graph(PATH),
    ],
)
def test_the_same_graph_is_read_from_every_form(given):
    graph = as_graph(given)
    assert (graph.num_nodes, arcs_of(graph), graph.symmetric) == (3, PATH_ARCS, True)
    assert graph.node_labels is None
    assert graph.edge_labels is None


def test_isolated_nodes_are_added_and_directions_read_only_when_asked():
    assert as_graph(PATH, num_nodes=5).num_nodes == 5
    assert as_graph([], num_nodes=4).num_nodes == 4
    assert as_graph([]).num_nodes == 0
    assert arcs_of(as_graph(PATH, directed=True)) == set(PATH)
    assert not as_graph(PATH, directed=True).symmetric
    data = Data(edge_index=torch.tensor(PATH).T, num_nodes=3)
    assert not as_graph(data).symmetric
    assert as_graph(data, directed=False).symmetric


def test_a_data_gives_its_integer_features_as_labels():
    data = Data(
        edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.tensor([[1, 0], [0, 1]]), edge_attr=torch.tensor([5, 5])
    )
    graph = as_graph(data)
    assert graph.node_labels.tolist() == [[1, 0], [0, 1]]
    assert graph.edge_labels.tolist() == [[5], [5]]
    bare = as_graph(data, node_attribute=None, edge_attribute=None)
    assert bare.node_labels is None
    assert bare.edge_labels is None


def test_labels_may_come_from_a_named_attribute():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.randn(2, 3), atom=torch.tensor([6, 8]))
    assert as_graph(data, node_attribute="atom").node_labels[:, 0].tolist() == [6, 8]
    with pytest.raises(OptionError, match="atom"):
        as_graph(data, node_attribute="atoms")


def test_networkx_labels_are_read_from_the_attribute_label_or_from_another_that_is_named():
    graph = nx.Graph([("a", "b", {"label": 7, "z": 8})])
    nx.set_node_attributes(graph, {"a": 3, "b": 4}, "label")
    nx.set_node_attributes(graph, {"a": 1, "b": 2}, "z")
    read, other = as_graph(graph), as_graph(graph, node_attribute="z", edge_attribute="z")
    assert (read.node_labels[:, 0].tolist(), read.edge_labels[:, 0].tolist()) == ([3, 4], [7, 7])
    assert (other.node_labels[:, 0].tolist(), other.edge_labels[:, 0].tolist()) == ([1, 2], [8, 8])
    with pytest.raises(DataError, match="'w'"):
        as_graph(graph, node_attribute="w")
    del graph.nodes["b"]["label"]
    with pytest.raises(DataError, match="1 of 2"):
        as_graph(graph)


def test_parallel_edges_are_refused_and_single_ones_of_a_multigraph_read():
    multi = nx.MultiGraph([(0, 1), (0, 1)])
    with pytest.raises(UnsupportedError, match="parallel"):
        as_graph(multi)
    assert as_graph(nx.MultiGraph(PATH)).num_edges == 2


def test_given_labels_take_the_place_of_the_graphs_own():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.randn(2, 3))
    assert as_graph(data, node_labels=[1, 2]).node_labels[:, 0].tolist() == [1, 2]
    whole = as_graph(data, node_labels=np.array([[1.0, 0.0], [0.0, 1.0]]))  # whole numbers stored as floats
    assert whole.node_labels.dtype == np.int64
    relabelled = as_graph(as_graph(PATH), node_labels=torch.tensor([1, 1, 2]))
    assert relabelled.node_labels[:, 0].tolist() == [1, 1, 2]


@pytest.mark.parametrize("test", TESTS)
def test_a_graph_too_large_for_memory_is_refused_before_anything_is_allocated(test, monkeypatch):
    edges = [(0, 1), (1, 2)]
    monkeypatch.setenv("LRGA_MAX_MEMORY", str(2**28))
    with pytest.raises(OptionError, match=r"up to \d+ nodes"):
        distinguishes(edges, edges, test, num_nodes=5_000_000)


@pytest.mark.parametrize(
    ("pairs", "options", "error", "said"),
    [
        ([(0, 1), (1, 7)], {"num_nodes": 3}, DataError, r"edge 1 = \(1, 7\)"),
        ([(0, -1)], {}, DataError, "-1"),
        ([(0, 1)], {"num_nodes": -3}, OptionError, "num_nodes"),
        ([(0, 1)], {"num_nodes": 2.5}, OptionError, "num_nodes"),
        ([(0, 1)], {"num_nodes": 10**13}, OptionError, r"a graph to fit.*up to \d+ nodes"),  # refused at once
        ([(0, 1), (1, 0)], {"edge_labels": [1, 2], "both_ways": True}, DataError, "one label per edge"),
        *(
            ([(0, 1)], {"node_labels": labels}, DTypeError, "integer node labels")
            for labels in ([0.5, 1.0], ["C", "O"], [None, 1], [float("nan"), 1.0])
        ),
        ([(0, 1), (1, 2)], {"node_labels": [1, 2]}, ShapeError, "3 node labels"),
        ([(0, 1)], {"node_labels": [[1], [1, 2]]}, ShapeError, "node labels"),
    ],
)
def test_wrong_arcs_and_labels_are_refused(pairs, options, error, said):
    with pytest.raises(error, match=said):
        graph_from_arcs(*arcs(*pairs), **options)


@pytest.mark.parametrize(
    ("given", "options", "error", "said"),
    [
        *(
            (wrong, {}, DTypeError, "PyG Data, a networkx graph or a list of edges")
            for wrong in (5, None, "graph.g6", HeteroData(), {"a": 1})
        ),
        ([(0, 1, 2), (1, 2, 3), (2, 3, 4)], {}, ShapeError, "pairs"),
        ([(0, 1), (1,)], {}, ShapeError, "pairs"),
        ([("a", "b")], {}, DTypeError, "integers"),
        (torch.tensor([[0.0], [1.0]]), {}, DTypeError, "integers"),
        (Data(x=torch.zeros(3, 1)), {}, DataError, "edge_index"),
        (nx.path_graph(3), {"num_nodes": 4}, OptionError, "num_nodes=3"),
        (Data(edge_index=torch.tensor([[0], [5]]), num_nodes=3), {}, DataError, "edges between the nodes 0 … 2"),
        (torch.tensor([[0, 1, 2], [1, 2, 9]]), {"num_nodes": 3}, DataError, "edges between the nodes 0 … 2"),
    ],
)
def test_what_is_no_graph_is_refused(given, options, error, said):
    with pytest.raises(error, match=said):
        as_graph(given, **options)
    with pytest.raises(OptionError, match="permutation"):
        as_graph(PATH).permuted([0, 0])
