"""Tiles and factors in one kernel each, against their definitions."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.kernels import edges, tiles, triton_tiles
from lrga.kernels.edges import EdgeLayout
from lrga.kernels.segments import Segments
from lrga.kernels.tiles import Tiles

pytestmark = pytest.mark.usefixtures("poisoned")


def check_tiles(monkeypatch, sizes, device="cpu"):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).to(device)
    segments = Segments.from_batch(batch, len(batch), len(sizes))
    results = []
    for own in (True, False):
        monkeypatch.setattr(tiles, "runs_on_gpu", lambda *tensors, own=own: own)
        made = Tiles.of(segments, batch.device)
        results.append([made.start, made.end, made.graph, made.ptr])
    for mine, theirs in zip(*results, strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("numbers", [1, 16, 4096])
@pytest.mark.parametrize(
    "sizes", [(70, 3), (0, 0), (1, 0), (64, 64, 64, 0, 1), (0, 200, 0, 5, 129, 0), (3000, 4000), tuple(range(9))]
)
def test_the_kernel_cuts_as_the_definition_does(monkeypatch, sizes, numbers):
    monkeypatch.setattr(triton_tiles, "NUMBERS", numbers)
    check_tiles(monkeypatch, sizes)


def test_very_many_graphs_are_cut_by_the_definition(monkeypatch):
    monkeypatch.setattr(triton_tiles, "MOST_GRAPHS", 1)
    monkeypatch.setattr(triton_tiles, "launch_cut", None)
    check_tiles(monkeypatch, (3, 4, 0))


@pytest.mark.parametrize("nodes", [0, 1, 30, 700])
def test_the_kernel_takes_the_same_roots(monkeypatch, nodes):
    edge_index = torch.randint(0, max(nodes // 2, 1), (2, 5 * nodes))
    results = []
    for own in (True, False):
        monkeypatch.setattr(edges, "runs_on_gpu", lambda *tensors, own=own: own)
        results.append(EdgeLayout.from_edge_index(edge_index, nodes)[0].degree_roots)
    for mine, theirs in zip(*results, strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("graphs", [1, 65, 129, 2000])
def test_tiles_and_roots_on_a_gpu(monkeypatch, graphs):
    check_tiles(monkeypatch, [int(n) for n in torch.randint(0, 300, (graphs,))], "cuda")
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, 4000, (2, 50_000)), 5000)
    for mine, theirs in zip(layout.to("cuda").degree_roots, layout.degree_roots, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-6, atol=0)
