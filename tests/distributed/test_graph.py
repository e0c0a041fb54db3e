import pytest
import torch

from lrga.distributed.partition.assignment import Partition
from lrga.distributed.partition.graph import partition_graph
from lrga.errors import ShapeError


def test_degrees_are_those_of_the_whole_graph_and_only_parts_with_edges_between_them_exchange(ranks):
    for report in ranks:
        for found in report["collectives"].values():
            assert found["out_degree"]
            assert found["in_degree"]
    for report in ranks[:2]:
        assert report["no_halo"] == {"exchanges": False, "wire": {}, "rows": 2}


def test_one_part_is_the_whole_graph():
    edge_index = torch.tensor([[0, 2, 1], [1, 0, 0]])
    part = partition_graph(edge_index, 3)
    values = torch.arange(3.0)
    assert (part.num_own, part.num_halo, part.num_edges, part.exchanges) == (3, 0, 3, False)
    assert part.take_edges(values).tolist() == [1.0, 2.0, 0.0]  # by target
    assert part.with_halo(torch.ones(3, 2)).shape == (3, 2)
    assert part.edges.to("cpu").part is part


def test_what_does_not_fit_is_refused():
    edge_index = torch.tensor([[0, 2, 1], [1, 0, 0]])
    part = partition_graph(edge_index, 3)
    with pytest.raises(ShapeError, match="3 nodes of the whole graph"):
        part.take_nodes(torch.zeros(2))
    for rows in (2, 4):
        with pytest.raises(ShapeError, match="each of the 3 edges"):
            part.take_edges(torch.zeros(rows))
    with pytest.raises(ShapeError, match="own node"):
        part.with_halo(torch.zeros(4, 2))
    with pytest.raises(ShapeError, match="into 1 parts"):
        partition_graph(edge_index, 3, partition=Partition.blocks(3, 2))
    with pytest.raises(ShapeError, match="node numbers between"):
        partition_graph(edge_index, 2)


def test_ranks_that_divide_the_graph_differently_are_all_told(ranks):
    for report in ranks[:2]:
        nodes, order = report["disagreement"]
        assert "the same num_nodes and the same partition on all ranks" in nodes
        assert "num_nodes by rank: 4, 5" in nodes
        assert "the same num_nodes and the same partition on all ranks" in order
