"""The kernels by themselves: how the work is divided, and the division of long runs of edges."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.ops.neighbors import gpu as neighbors_gpu
from lrga.ops.neighbors.edges import EdgeLayout


@pytest.mark.parametrize(
    ("width", "block"), [(0, 1), (1, 1), (20, 32), (33, 64), (60, 64), (80, 128), (100, 128), (172, 64), (256, 128)]
)
def test_blocks_waste_few_columns(width, block):
    assert neighbors_gpu.block_of(width) == block


def test_long_runs_are_prepared_for_unless_they_are_known_not_to_exist():
    assert not neighbors_gpu.may_be_long(1000, None)
    assert neighbors_gpu.may_be_long(10**6, None)
    assert not neighbors_gpu.may_be_long(10**6, 2000)
    assert neighbors_gpu.may_be_long(10**6, 10**6)


def sums(layout, x, split, **options):
    return neighbors_gpu.launch_sum(
        x, None, None, None, None, layout.in_ptr, layout.source, layout.target, split, torch.float32, **options
    )


@pytest.mark.parametrize(
    "degrees", [[0, 9, 8, 17], [40], [1, 0, 30, 1, 25, 0], [8, 8, 8], [3, 23, 6, 9, 7, 16], [0, 0]]
)
def test_long_runs_at_every_place_among_the_chunks_are_summed(monkeypatch, poisoned, degrees):
    monkeypatch.setattr(neighbors_gpu, "CHUNK", 8)
    monkeypatch.setattr(neighbors_gpu, "MAX_RUN", 8)
    nodes = max(len(degrees), 5)
    target = torch.repeat_interleave(torch.arange(len(degrees)), torch.tensor(degrees))
    layout, _ = EdgeLayout.from_edge_index(torch.stack([torch.randint(0, nodes, target.shape), target]), nodes)
    x = torch.randn(nodes, 3)
    expected = torch.zeros(nodes, 3).index_add_(0, layout.target, x[layout.source])
    torch.testing.assert_close(sums(layout, x, True), expected)
    torch.testing.assert_close(sums(layout, x, False), expected)


@pytest.mark.parametrize("how", [neighbors_gpu.Plan(3, 2, 2, 1), neighbors_gpu.Plan(1, 16, 8, 2)])
def test_every_division_of_the_work_gives_the_same_sums(poisoned, how):
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, 10, (2, 60)), 11)
    x = torch.randn(11, 7)
    torch.testing.assert_close(sums(layout, x, False, how=how), sums(layout, x, False))


@pytest.mark.gpu
def test_a_node_with_a_million_edges_is_summed_on_a_gpu():
    count = 1_000_000
    source = torch.randint(0, 1000, (count + 5000,), device="cuda")
    target = torch.cat([torch.full((count,), 3, device="cuda"), torch.randint(0, 1000, (5000,), device="cuda")])
    layout, _ = EdgeLayout.from_edge_index(torch.stack([source, target]), 1000)
    x = torch.randn(1000, 100, device="cuda")
    expected = torch.zeros(1000, 100, device="cuda", dtype=torch.float64).index_add_(0, target, x[source].double())
    out = sums(layout, x, neighbors_gpu.may_be_long(layout.num_edges, None))
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=5e-2)
    assert torch.equal(out, sums(layout, x, True))
