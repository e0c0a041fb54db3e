import sys

import pytest
import torch

from lrga.distributed.partition.assignment import Partition
from lrga.distributed.partition.graph import partition_graph
from lrga.errors import DTypeError, MissingDependencyError, OptionError, ShapeError

needs_metis = pytest.mark.skipif(sys.platform == "win32", reason="pymetis has no wheels for Windows")


@pytest.mark.parametrize(("nodes", "parts"), [(0, 3), (1, 4), (7, 3), (12, 4), (5, 1)])
def test_blocks_hold_every_node_once_in_parts_of_nearly_equal_size(nodes, parts):
    partition = Partition.blocks(nodes, parts)
    sizes = [len(partition.nodes(part)) for part in range(parts)]
    assert torch.cat([partition.nodes(part) for part in range(parts)]).tolist() == list(range(nodes))
    assert max(sizes) - min(sizes) <= 1
    assert partition.owner_of_places(torch.arange(nodes)).tolist() == [p for p in range(parts) for _ in range(sizes[p])]


def test_an_assignment_keeps_the_order_of_nodes_and_is_compared_by_the_parts():
    partition = Partition.of_assignment(torch.tensor([2, 0, 2, 0, 0]), 4)
    assert [partition.nodes(part).tolist() for part in range(4)] == [[1, 3, 4], [], [0, 2], []]
    assert partition.places(torch.arange(5)).tolist() == [3, 0, 4, 1, 2]
    one, same = (Partition.of_assignment(torch.tensor([1, 0, 1, 0]), 2) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert one != Partition.of_assignment(torch.tensor([0, 1, 1, 0]), 2)
    assert one != Partition.blocks(4, 2)
    assert Partition.blocks(4, 2) == Partition.blocks(4, 2)


@needs_metis
def test_metis_cuts_fewer_edges_than_blocks_do_on_a_shuffled_pair_of_cliques():
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    inside = torch.combinations(torch.arange(10)).t()
    edges = order[torch.cat([inside, inside + 10, torch.tensor([[0], [10]])], dim=1)]
    edges = torch.cat([edges, edges.flip(0)], dim=1)

    def cut(partition):
        owner = partition.owner_of_places(partition.places(torch.arange(20)))
        return int((owner[edges[0]] != owner[edges[1]]).sum())

    metis = Partition.metis(edges, 20, 2)
    assert cut(metis) == 2
    assert cut(Partition.blocks(20, 2)) > 2
    assert Partition.metis(edges, 20, 2).order.equal(metis.order)
    assert Partition.metis(edges, 20, 1) == Partition.blocks(20, 1)


@needs_metis
def test_metis_takes_loops_repeats_isolated_nodes_and_no_edges():
    edges = torch.tensor([[0, 0, 1, 1, 5], [0, 1, 0, 0, 0]])
    for edge_index, nodes in ((edges, 9), (edges[:, :0], 9), (edges[:, :0], 0)):
        partition = Partition.metis(edge_index, nodes, 3)
        assert sorted(torch.cat([partition.nodes(part) for part in range(3)]).tolist()) == list(range(nodes))


def test_metis_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(MissingDependencyError, match=r"lrga\[metis\]"):
        Partition.metis(torch.tensor([[0, 1], [1, 0]]), 2, 2)


def test_wrong_assignments_and_methods_are_refused():
    with pytest.raises(OptionError, match="parts from 0 to 1"):
        Partition.of_assignment(torch.tensor([0, 2]), 2)
    with pytest.raises(ShapeError, match="one integer"):
        Partition.of_assignment(torch.tensor([0.0]), 2)
    with pytest.raises(DTypeError, match=r"got list\. To fix: call torch\.as_tensor"):
        Partition.of_assignment([0, 1], 2)
    with pytest.raises(OptionError, match="method"):
        partition_graph(torch.zeros(2, 0, dtype=torch.int64), 3, method="random")


@pytest.mark.parametrize(
    ("starts", "order", "error", "said"),
    [
        *(
            ((0, 1, 3), torch.tensor(one), ShapeError, "every node from 0 to 2 once")
            for one in ([0, 0, 1], [0, 1], [0, 1, 3])
        ),
        *(
            (starts, None, OptionError, "increasing starts from 0")
            for starts in ((), (0,), (1, 3), (0, 3, 2), (0, 1.5, 3))
        ),
        ((0, 1, 3), torch.arange(3, dtype=torch.int32), ShapeError, r"got 3 other numbers, torch\.int32 on cpu"),
    ],
)
def test_parts_that_do_not_hold_every_node_once_are_refused(starts, order, error, said):
    with pytest.raises(error, match=said):
        Partition(starts, order)
