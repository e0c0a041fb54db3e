import numpy as np
import pytest
import torch

from lrga.data.packed.arrays import pack_arrays, to_tensor
from lrga.errors import DataError, DTypeError, OptionError, ShapeError

TWO = {
    "num_nodes": np.array([3, 2]),
    "num_edges": np.array([3, 1]),
    "edge_index": np.array([[0, 1, 2, 1], [2, 0, 0, 0]]),
}


def test_edges_are_sorted_by_target_and_their_given_order_kept_for_the_way_back():
    graphs = pack_arrays(**TWO, edge_attr=np.array([10, 11, 12, 13]), x=np.zeros((5, 2), dtype=np.float32))
    batch = graphs.batch(slice(None))
    assert batch.edge_index.tolist() == [[1, 2, 0, 4], [0, 0, 2, 3]]
    assert batch.edge_attr.tolist() == [11, 12, 10, 13]
    first = pack_arrays(**TWO, edge_attr=np.array([10, 11, 12, 13]))[0]
    assert first.edge_index.tolist() == [[0, 1, 2], [2, 0, 0]]
    assert first.edge_attr.tolist() == [10, 11, 12]
    assert first.num_nodes == 3


def test_without_the_order_the_edges_come_back_sorted_and_sorted_edges_need_none():
    graphs = pack_arrays(**TWO, keep_edge_order=False)
    assert graphs.edge_order is None
    assert graphs[0].edge_index.tolist() == [[1, 2, 0], [0, 0, 2]]
    sorted_edges = {**TWO, "edge_index": np.array([[1, 2, 0, 1], [0, 0, 2, 0]])}
    assert pack_arrays(**sorted_edges).edge_order is None


@pytest.mark.parametrize(("level", "rows"), [("node", 5), ("edge", 4), ("graph", 2)])
def test_targets_of_each_level(level, rows):
    graphs = pack_arrays(**TWO, y=np.arange(rows, dtype=np.float32), y_level=level)
    assert graphs.y_level == level
    assert sorted(graphs.batch([0, 1]).y.tolist()) == list(range(rows))
    assert graphs[0].y.numel() == {"node": 3, "edge": 3, "graph": 1}[level]


def test_further_attributes_of_each_level():
    graphs = pack_arrays(
        **TWO,
        node={"pos": np.random.default_rng(0).random((5, 2))},
        edge={"weight": np.arange(4)},
        graph={"energy": np.ones((2, 3))},
        objects={"name": ["a", "b"]},
        meta={"from": "a test"},
    )
    assert graphs[1].pos.shape == (2, 2)
    assert graphs[1].pos.dtype == torch.float64
    assert graphs[1].weight.tolist() == [3]
    assert graphs[1].energy.shape == (1, 3)
    assert graphs[1].name == "b"
    assert graphs.meta == {"from": "a test"}


def test_types_are_what_users_see_and_small_in_memory():
    graphs = pack_arrays(**TWO, x=np.array([1, 2, 3, 4, 5]))
    assert graphs.columns["x"].values.dtype == torch.uint8
    assert graphs.source.dtype == torch.uint8
    assert graphs[0].x.dtype == torch.int64
    assert graphs.x.dtype == torch.int64


@pytest.mark.parametrize(
    ("edge_index", "match"),
    [
        ([[0, 1, 2, 1], [2, 0, 0, 2]], r"graph 1 between its nodes 0 to 1, got the edge \[1, 2\]"),
        ([[0, -1, 2, 1], [2, 0, 0, 0]], "graph 0"),
    ],
)
def test_an_edge_to_a_node_that_is_not_there_names_the_graph(edge_index, match):
    with pytest.raises(DataError, match=match):
        pack_arrays(**{**TWO, "edge_index": np.array(edge_index)})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"num_nodes": np.array([3])}, ShapeError),
        ({"num_nodes": np.array([3, -2])}, ShapeError),
        ({"num_nodes": np.array([3.0, 2.0])}, ShapeError),
        ({"num_edges": np.array([3, 2])}, ShapeError),
        ({"edge_index": np.array([0, 1, 2, 1])}, ShapeError),
        ({"edge_index": np.zeros((2, 4))}, DTypeError),
        ({"x": np.zeros(4)}, ShapeError),
        ({"edge_attr": np.zeros(5)}, ShapeError),
        ({"y": np.zeros(5)}, OptionError),
        ({"y": np.zeros(5), "y_level": "graph"}, ShapeError),
        ({"y": np.zeros(5), "y_level": "molecule"}, OptionError),
        ({"x": np.array(["a"] * 5)}, DTypeError),
        ({"x": np.zeros(5, dtype=complex)}, DTypeError),
    ],
)
def test_what_does_not_fit_is_refused(change, error):
    with pytest.raises(error):
        pack_arrays(**{**TWO, **change})


def test_unsigned_arrays_become_the_next_wider_signed_type():
    assert to_tensor("a", np.array([65535], dtype=np.uint16)).tolist() == [65535]
    assert to_tensor("a", np.array([2**32 - 1], dtype=np.uint32)).tolist() == [2**32 - 1]


def test_no_graphs_at_all():
    empty = pack_arrays(num_nodes=np.zeros(0, int), num_edges=np.zeros(0, int), edge_index=np.zeros((2, 0), int))
    assert len(empty) == 0
    assert list(empty.batches(3)) == []
    assert empty.statistics["mean_nodes"] == 0
