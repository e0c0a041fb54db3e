"""Batches of a fixed capacity hold the graphs of a plain batch first, and padding that touches nothing of them."""

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.packed import PackedGraphs
from lrga.data.packed.padded import Capacity, PaddedGraphs, why_not_padded
from lrga.ops.attention.segments import Segments


def graph(nodes, edges, generator):
    ends = torch.randint(0, max(nodes, 1), (2, edges), generator=generator)
    return Data(
        x=torch.rand(nodes, 2, generator=generator),
        edge_index=ends,
        edge_attr=torch.randint(0, 5, (edges,), generator=generator),
        y=torch.rand(1, generator=generator),
    )


@pytest.fixture
def packed():
    generator = torch.Generator().manual_seed(0)
    sizes = [(4, 9), (1, 0), (6, 12), (0, 0), (3, 2), (5, 20), (2, 1)]
    return PackedGraphs.from_data_list([graph(n, e, generator) for n, e in sizes], y_level="graph")


@pytest.mark.parametrize("chosen", [[0, 2, 5], [5, 3, 1, 0], [6], [3], [0, 1, 2, 3, 4, 5, 6], [2, 2]])
@pytest.mark.parametrize("missing", [0, 2])
def test_the_first_rows_are_those_of_the_plain_batch(packed, chosen, missing):
    padded, plain = packed.padded, packed.batch(chosen)
    index = torch.tensor(chosen + [padded.empty_graph] * missing)
    capacity = Capacity(plain.num_nodes + 4, plain.num_edges + 7)
    batch = padded.gather(index, capacity)
    n, e, g = plain.num_nodes, plain.num_edges, plain.num_graphs
    assert [int(batch.real[level]) for level in ("node", "edge", "graph")] == [n, e, g]
    assert (batch.num_nodes, batch.num_edges, batch.num_graphs) == (n + 4, e + 7, g + missing + 1)
    assert torch.equal(batch.x[:n], plain.x)
    assert torch.equal(batch.edge_attr[:e], plain.edge_attr)
    assert torch.equal(batch.y[:g], plain.y)
    assert torch.equal(batch.batch[:n], plain.batch)
    assert torch.all(batch.batch[n:] == g + missing)
    layout, expected = batch.edges, plain.edges
    for name in ("source", "target", "out_order"):
        assert torch.equal(getattr(layout, name)[:e], getattr(expected, name)), name
    for name in ("in_ptr", "out_ptr"):
        assert torch.equal(getattr(layout, name)[: n + 1], getattr(expected, name)), name


def test_padding_edges_are_loops_spread_over_the_padding_nodes(packed):
    batch = packed.padded.gather(torch.tensor([0, 2]), Capacity(15, 41))
    ends = batch.edges.edge_index[:, 21:]
    assert torch.equal(ends[0], ends[1])
    assert torch.bincount(ends[0], minlength=15).tolist() == [0] * 10 + [4] * 5
    assert torch.all(batch.edges.target.diff() >= 0)
    # on a CPU the pointers say where they are
    assert torch.equal(batch.edges.in_ptr, torch.searchsorted(batch.edges.target, torch.arange(16)))
    by_source = batch.edges.source[batch.edges.out_order]
    assert torch.equal(batch.edges.out_ptr, torch.searchsorted(by_source, torch.arange(16)))


def test_a_full_batch_has_one_padding_node_and_no_padding_edge(packed):
    batch = packed.padded.gather(torch.tensor([5]), Capacity(6, 20))
    assert batch.edges.target.max() < 5
    assert batch.batch.tolist() == [0] * 5 + [1]
    assert Capacity(6, 20).holds(5, 20)
    assert not Capacity(5, 20).holds(5, 20)
    assert not Capacity(6, 19).holds(5, 20)


def test_segments_are_those_of_the_batch_vector(packed):
    batch = packed.padded.gather(torch.tensor([5, 3, 0, packed.padded.empty_graph]), Capacity(16, 64))
    read = Segments.from_batch(batch.batch.clone(), 16, 5)
    assert batch.segments.in_order
    assert torch.equal(batch.segments.counts, read.counts)
    slot, graph_of_chunk = batch.segments.chunks
    assert torch.equal(slot, read.chunks[0])
    assert torch.equal(graph_of_chunk[: read.chunks[1].numel()], read.chunks[1])


def test_rows_that_count_are_real_in_the_mask_and_counted_by_graph(packed):
    column = type(packed.columns["x"])
    packed.columns["mask"] = column("graph", torch.tensor([1, 0, 1, 1, 0, 0, 1]).bool(), torch.bool)
    padded = PaddedGraphs(packed)
    batch = padded.gather(torch.tensor([0, 1, 6, padded.empty_graph]), Capacity(16, 64))
    assert batch.valid("graph").tolist() == [True, False, True, False]
    assert padded.valid_per_graph("graph").tolist() == [1, 0, 1, 1, 0, 0, 1, 0]
    column = type(packed.columns["x"])
    packed.columns["mask"] = column("node", torch.arange(packed.num_nodes) % 2 == 0, torch.bool)
    assert PaddedGraphs(packed).valid_per_graph("node").tolist() == [2, 1, 3, 0, 1, 3, 1, 0]


def test_padding_never_repeats_a_node_that_is_not_finite(packed):
    packed.columns["x"].values[0] = float("nan")
    batch = PaddedGraphs(packed).gather(torch.tensor([2]), Capacity(16, 64))
    assert bool(batch.x.isfinite().all())
    packed.columns["x"].values[:] = float("inf")
    assert why_not_padded(packed) == "no node has finite features"


def test_a_set_without_edges_has_batches_too():
    data = [
        Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 0).long(), edge_attr=torch.zeros(0, 3)) for _ in range(3)
    ]
    batch = PackedGraphs.from_data_list(data).padded.gather(torch.tensor([0, 2]), Capacity(8, 16))
    assert batch.edge_attr.shape == (16, 3)
    assert int(batch.real["edge"]) == 0
    assert torch.all(batch.edges.target >= 4)


def test_the_layout_says_which_nodes_and_edges_are_real(packed):
    batch = packed.padded.gather(torch.tensor([0, 2]), Capacity(16, 64))
    assert (int(batch.edges.valid_nodes), int(batch.edges.valid_edges), int(batch.real["graph"])) == (10, 21, 2)
