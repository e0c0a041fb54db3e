import numpy as np
import torch

from lrga.data.own.table import GraphTable, Split


def table() -> GraphTable:
    return GraphTable(
        num_nodes=np.array([2, 0, 3]),
        num_edges=np.array([1, 0, 2]),
        edge_index=np.array([[1, 0, 2], [0, 2, 0]]),
        x=np.arange(10, dtype=np.float32).reshape(5, 2),
        edge_attr=np.array([4, 5, 6]),
        targets={},
        split=None,
        objects={"graph_id": ["a", "b", "c"]},
    )


def test_rows_belong_to_their_graphs():
    assert [table().rows(level) for level in ("node", "edge", "graph")] == [5, 3, 3]
    assert table().graphs_of("node").tolist() == [0, 0, 2, 2, 2]
    assert table().graphs_of("edge").tolist() == [0, 2, 2]
    assert table().graphs_of("graph").tolist() == [0, 1, 2]


def test_packing_keeps_graphs_features_targets_and_ids():
    packed = table().pack(np.array([7, 8, 9]), level="edge")
    assert packed.y_level == "edge"
    last = packed[2]
    assert last.edge_index.tolist() == [[0, 2], [2, 0]]
    assert last.edge_attr.tolist() == [5, 6]
    assert last.y.tolist() == [8, 9]
    assert last.graph_id == "c"
    assert torch.equal(last.x, torch.tensor([[4.0, 5], [6, 7], [8, 9]]))
    assert table().pack().y is None


def test_a_split_knows_its_rows():
    split = Split("node", np.array([0, 1, 2, -1, 0]), "here")
    assert split.rows("train").tolist() == [True, False, False, False, True]
    assert split.rows("test").tolist() == [False, False, True, False, False]
