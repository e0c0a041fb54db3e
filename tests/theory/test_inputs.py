"""Reading graphs from PyG, networkx and edge lists."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from lrga.errors import DataError, DTypeError, OptionError, ShapeError, UnsupportedError
from lrga.theory.inputs import as_graph

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


def test_num_nodes_adds_isolated_nodes():
    assert as_graph(PATH, num_nodes=5).num_nodes == 5
    assert as_graph([], num_nodes=4).num_nodes == 4
    assert as_graph([]).num_nodes == 0


def test_edges_of_a_list_have_a_direction_only_when_asked():
    assert arcs_of(as_graph(PATH, directed=True)) == set(PATH)
    assert not as_graph(PATH, directed=True).symmetric


def test_a_data_with_arcs_one_way_is_directed_unless_told_otherwise():
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


def test_features_that_are_no_labels_are_refused_with_the_way_out():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.tensor([[0.5], [1.0]]))
    with pytest.raises(DTypeError, match="node_attribute=None"):
        as_graph(data)


def test_networkx_labels_are_read_from_the_attribute_label():
    graph = nx.Graph()
    graph.add_node("a", label=3)
    graph.add_node("b", label=4)
    graph.add_edge("a", "b", label=7)
    read = as_graph(graph)
    assert read.node_labels[:, 0].tolist() == [3, 4]
    assert read.edge_labels[:, 0].tolist() == [7, 7]


def test_other_networkx_attributes_are_read_when_named():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: 1, 1: 2}, "z")
    assert as_graph(graph).node_labels is None
    assert as_graph(graph, node_attribute="z").node_labels[:, 0].tolist() == [1, 2]
    with pytest.raises(DataError, match="'w'"):
        as_graph(graph, node_attribute="w")


def test_networkx_labels_on_some_nodes_only_are_refused():
    graph = nx.path_graph(2)
    graph.nodes[0]["label"] = 1
    with pytest.raises(DataError, match="1 of 2"):
        as_graph(graph)


def test_string_labels_are_refused():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, "C", "label")
    with pytest.raises(DTypeError, match="integer node labels"):
        as_graph(graph)


def test_parallel_edges_are_refused_and_single_ones_of_a_multigraph_read():
    multi = nx.MultiGraph([(0, 1), (0, 1)])
    with pytest.raises(UnsupportedError, match="parallel"):
        as_graph(multi)
    assert as_graph(nx.MultiGraph(PATH)).num_edges == 2


def test_given_labels_take_the_place_of_the_graphs_own():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.randn(2, 3))
    assert as_graph(data, node_labels=[1, 2]).node_labels[:, 0].tolist() == [1, 2]
    relabelled = as_graph(as_graph(PATH), node_labels=torch.tensor([1, 1, 2]))
    assert relabelled.node_labels[:, 0].tolist() == [1, 1, 2]


def test_edges_to_missing_nodes_are_refused_in_every_form():
    for given, options in (
        ([(0, 5)], {"num_nodes": 3}),
        (Data(edge_index=torch.tensor([[0], [5]]), num_nodes=3), {}),
        (torch.tensor([[0, 1, 2], [1, 2, 9]]), {"num_nodes": 3}),
    ):
        with pytest.raises(DataError, match="edges between the nodes 0 … 2"):
            as_graph(given, **options)


def test_a_number_of_nodes_against_the_graphs_own_is_refused():
    with pytest.raises(OptionError, match="num_nodes=3"):
        as_graph(nx.path_graph(3), num_nodes=4)


@pytest.mark.parametrize("wrong", [5, None, "graph.g6", HeteroData(), {"a": 1}])
def test_what_is_no_graph_is_refused(wrong):
    with pytest.raises(DTypeError, match="PyG Data, a networkx graph or a list of edges"):
        as_graph(wrong)


def test_edges_that_are_no_pairs_are_refused():
    with pytest.raises(ShapeError, match="pairs"):
        as_graph([(0, 1, 2), (1, 2, 3), (2, 3, 4)])
    with pytest.raises(ShapeError, match="pairs"):
        as_graph([(0, 1), (1,)])


def test_nodes_that_are_no_integers_are_refused():
    with pytest.raises(DTypeError, match="integers"):
        as_graph([("a", "b")])
    with pytest.raises(DTypeError, match="integers"):
        as_graph(torch.tensor([[0.0], [1.0]]))


def test_a_data_without_edges_index_is_refused():
    with pytest.raises(DataError, match="edge_index"):
        as_graph(Data(x=torch.zeros(3, 1)))
