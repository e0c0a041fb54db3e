import itertools

import numpy as np
import pytest
import torch

from lrga.data.packed import order as module
from lrga.data.packed.order import _order_at_once, chunks, order_by
from lrga.data.packed.segments import pointer


def graphs(seed, nodes, edges):
    rng = np.random.default_rng(seed)
    num_nodes, num_edges = rng.integers(1, nodes, 40), rng.integers(0, edges, 40)
    num_nodes[7], num_edges[7] = 0, 0
    num_edges[9] = 0
    ends = np.concatenate([rng.integers(0, max(n, 1), e) for n, e in zip(num_nodes, num_edges, strict=True)])
    return torch.from_numpy(ends), pointer(torch.from_numpy(num_edges)), pointer(torch.from_numpy(num_nodes))


@pytest.mark.parametrize("chunk", [1, 64, 1 << 17])
def test_every_graph_is_sorted_stably_whatever_the_chunk(monkeypatch, chunk):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    ends, edge_ptr, node_ptr = graphs(0, 9, 60)
    order, degree = order_by(ends, edge_ptr, node_ptr)
    for g in range(len(node_ptr) - 1):
        own = ends[edge_ptr[g] : edge_ptr[g + 1]]
        assert torch.equal(order[edge_ptr[g] : edge_ptr[g + 1]].long(), torch.argsort(own, stable=True))
        counts = torch.bincount(own, minlength=int(node_ptr[g + 1] - node_ptr[g]))
        assert torch.equal(degree[node_ptr[g] : node_ptr[g + 1]], counts)


def test_the_way_of_the_gpu_gives_the_same():
    ends, edge_ptr, node_ptr = graphs(1, 9, 60)
    for ours, theirs in zip(order_by(ends, edge_ptr, node_ptr), _order_at_once(ends, edge_ptr, node_ptr), strict=True):
        assert torch.equal(ours.long(), theirs)


def test_a_graph_larger_than_sixteen_bits():
    ends = torch.randint(0, 70_000, (90_000,), generator=torch.Generator().manual_seed(0))
    order, degree = order_by(ends, torch.tensor([0, 90_000]), torch.tensor([0, 70_000]))
    assert torch.equal(order.long(), torch.argsort(ends, stable=True))
    assert int(degree.sum()) == 90_000


def test_no_graphs_and_no_edges():
    zero = torch.tensor([0])
    order, degree = order_by(torch.empty(0, dtype=torch.int64), zero, zero)
    assert order.numel() == degree.numel() == 0
    order, degree = order_by(torch.empty(0, dtype=torch.int64), torch.tensor([0, 0]), torch.tensor([0, 3]))
    assert degree.tolist() == [0, 0, 0]


def test_chunks_cover_every_segment_once():
    ptr = np.array([0, 0, 4, 4, 8, 30, 31, 31])
    ranges = chunks(ptr, 10)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 7
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    assert all(ptr[end] - ptr[begin] <= 10 or end == begin + 1 for begin, end in ranges)
