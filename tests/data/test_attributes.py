import pytest
import torch
from torch_geometric.data import Data

from lrga.data.packed.attributes import common_keys, count_nodes, find_level, plain_edge_index
from lrga.errors import DataError, DTypeError, UnsupportedError

COUNTS = {"node": [2, 3], "edge": [4, 5]}


def tensors(*shapes):
    return [torch.zeros(shape) for shape in shapes]


@pytest.mark.parametrize(
    ("key", "values", "level"),
    [
        ("x", tensors((2, 1), (3, 1)), "node"),
        ("mask", tensors(2, 3), "node"),
        ("edge_attr", tensors(4, 5), "edge"),
        ("weight", tensors((4, 2), (5, 2)), "edge"),
        ("energy", tensors((1, 3), (1, 3)), "graph"),
        ("energy", tensors((), ()), "graph"),
        ("tokens", tensors(7, 8), "list"),
        ("edge_label_index", tensors((2, 2), (2, 3)), "list"),
        ("face", tensors((3, 2), (3, 3)), "list"),
        ("charge", [1, 2], "scalar"),
        ("charge", [1, 2.0], "object"),
        ("charge", [1, 2**70], "object"),
        ("name", ["a", "b"], "object"),
        ("matrix", [torch.eye(2).to_sparse(), torch.eye(3).to_sparse()], "object"),
    ],
)
def test_levels_are_found_from_names_and_shapes(key, values, level):
    assert find_level(key, values, COUNTS, None) == level


def test_where_nodes_and_edges_are_equally_many_the_name_decides():
    counts = {"node": [3, 4], "edge": [3, 4]}
    assert find_level("degree", tensors(3, 4), counts, None) == "node"
    assert find_level("edge_type", tensors(3, 4), counts, None) == "edge"


@pytest.mark.parametrize("level", ["node", "edge", "graph"])
def test_a_given_level_of_the_target_must_fit(level):
    with pytest.raises(DataError, match="graph"):
        find_level("y", tensors(2, 5), COUNTS, level)


def test_targets_of_another_length_are_refused():
    with pytest.raises(DataError, match=r"shape \[1\] in graph 0 and \[2\] in graph 1"):
        find_level("y", tensors(1, 2), COUNTS, None)


def test_keys_come_in_the_order_in_which_they_were_set():
    data = Data()
    for key in ("zeta", "alpha", "mid"):
        data[key] = torch.zeros(1)
    assert common_keys([data, data.clone()]) == ["zeta", "alpha", "mid"]


def test_missing_and_surplus_attributes_are_named():
    first, second = Data(x=torch.zeros(1), a=1), Data(x=torch.zeros(1), b=1)
    with pytest.raises(DataError, match="graph 1 without a and with b"):
        common_keys([first, second])


def test_a_matrix_in_place_of_edges_is_refused():
    with pytest.raises(UnsupportedError, match="edge_index"):
        common_keys([Data(x=torch.zeros(1), adj=torch.eye(1))])


def test_nodes_are_counted_from_what_is_there():
    assert count_nodes(0, Data(x=torch.zeros(3, 1)), None) == 3
    assert count_nodes(0, Data(pos=torch.zeros(4, 2)), None) == 4
    assert count_nodes(0, Data(num_nodes=5), None) == 5
    assert count_nodes(0, Data(y=torch.zeros(6)), "node") == 6
    with pytest.raises(DataError, match=r"set data\.num_nodes"):
        count_nodes(0, Data(y=torch.zeros(6)), None)


def test_edges_are_checked():
    assert plain_edge_index(0, Data(), 3).shape == (2, 0)
    good = torch.tensor([[0, 2], [1, 1]])
    assert torch.equal(plain_edge_index(0, Data(edge_index=good), 3), good)
    with pytest.raises(DataError, match="graph 4 between its nodes 0 to 1, got values from 0 to 2"):
        plain_edge_index(4, Data(edge_index=good), 2)
    with pytest.raises(DTypeError, match="graph 4"):
        plain_edge_index(4, Data(edge_index=good.float()), 3)


def test_an_edge_index_of_pygs_own_class_becomes_a_tensor():
    from torch_geometric import EdgeIndex

    edge_index = EdgeIndex([[0, 1], [1, 0]], sparse_size=(2, 2))
    plain = plain_edge_index(0, Data(edge_index=edge_index), 2)
    assert type(plain) is torch.Tensor
    assert plain.tolist() == [[0, 1], [1, 0]]
