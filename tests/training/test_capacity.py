"""A few capacities for all batches, chosen by the batch alone."""

import numpy as np
import torch
from torch_geometric.data import Data

from lrga.data.packed import PackedGraphs
from lrga.data.packed.padded import Capacity
from lrga.training.capture.capacity import Batches


def packed(sizes):
    return PackedGraphs.from_data_list(
        [Data(x=torch.ones(n, 1), edge_index=torch.zeros(2, 5 * n).long(), y=torch.zeros(n)) for n in sizes],
        y_level="node",
    )


SIZES = np.random.default_rng(0).integers(40, 190, 500).tolist()


def test_every_batch_fits_and_few_rows_are_padding():
    batches = Batches(packed(SIZES).padded, 16, "node")
    assert len(batches.capacities) == 3
    nodes = rows = 0
    for seed in range(5):
        order = torch.randperm(500, generator=torch.Generator().manual_seed(seed))
        work = batches.of(order)
        assert len(work) == 32
        assert torch.equal(torch.cat([w.graphs for w in work])[:500], order)
        assert work[-1].graphs.tolist()[4:] == [500] * 12
        for entry in work:
            total = sum(SIZES[g] for g in entry.graphs.tolist() if g < 500)
            assert entry.capacity.holds(total, 5 * total)
            assert entry.counted == total
            nodes, rows = nodes + total, rows + entry.capacity.nodes
    assert rows < 1.15 * nodes


def test_the_choice_does_not_depend_on_what_came_before():
    first, second = (Batches(packed(SIZES).padded, 16, "node") for _ in range(2))
    first.of(torch.arange(500))
    order = torch.randperm(500)
    assert [w.capacity for w in first.of(order)] == [w.capacity for w in second.of(order)]


def test_a_batch_larger_than_all_others_gets_a_capacity_of_its_own():
    batches = Batches(packed(SIZES).padded, 16, "node")
    largest = batches.capacities[-1]
    grown = batches.choose(largest.nodes, largest.edges + 1)
    assert grown.holds(largest.nodes, largest.edges + 1)
    assert grown.nodes < 1.3 * largest.nodes
    assert batches.choose(largest.nodes + 1, largest.edges + 2) == grown


def test_numbers_of_nodes_edges_and_graphs_differ():
    edgeless = PackedGraphs.from_data_list(
        [Data(x=torch.ones(3, 1), edge_index=torch.zeros(2, 3).long()) for _ in range(300)]
    )
    for size in (1, 63, 75, 127, 255):
        for capacity in Batches(edgeless.padded, size, "graph").capacities:
            assert len({capacity.nodes, capacity.edges, size + 1}) == 3


def test_batches_in_order_take_their_own_sizes():
    batches = Batches(packed([10] * 8 + [1000] * 2).padded, 2, "node", shuffled=False)
    work = batches.of(torch.arange(10))
    assert work[0].capacity == Capacity(64, 256)
    assert work[-1].capacity.nodes < 2200


def test_batches_of_like_graphs_have_one_capacity():
    sizes = np.random.default_rng(0).integers(68, 73, 500).tolist()
    batches = Batches(packed(sizes).padded, 64, "node")
    (capacity,) = batches.capacities
    for entry in batches.of(torch.randperm(500, generator=torch.Generator().manual_seed(0))):
        assert entry.capacity == capacity
        assert capacity.nodes < 1.1 * 64 * 70
