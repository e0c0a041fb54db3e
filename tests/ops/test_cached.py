"""What layouts and segments keep serves later calls, whatever mode the first call was in."""

import copy
import dataclasses

import pytest
import torch

import lrga
from lrga.data.packed import PackedGraphs
from lrga.ops import cached as kept_module
from lrga.ops.attention.segments import Segments, Tiles
from lrga.ops.cached import Cacheable, cached
from lrga.ops.neighbors.edges import EdgeLayout

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 5, 2], [1, 2, 0, 4, 5, 3, 4, 0]])
BATCH = torch.tensor([0, 0, 0, 1, 1, 1])
KEPT = [name for name, value in vars(EdgeLayout).items() if isinstance(value, cached)]


def layout_on(device):
    return EdgeLayout.from_edge_index(EDGES.to(device), 6)[0]


def tensors_of(value):
    """All tensors that an object holds, cached ones included."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for one in value for tensor in tensors_of(one)]
    return tensors_of(list(vars(value).values())) if isinstance(value, Cacheable | Tiles) else []


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("conv", ["gcn", "gat", "gatedgcn", "graphsage", "gin"])
@pytest.mark.parametrize("made_inside", [True, False])
def test_a_layout_first_used_in_inference_mode_can_be_trained_with(conv, device, made_inside):
    model = lrga.GNN(4, 8, 2, 2, conv=conv, rank=2, heads=2 if conv == "gat" else 1).to(device)
    again = copy.deepcopy(model)
    x, batch = torch.randn(6, 4, device=device), BATCH.to(device)
    layout = layout_on(device)
    with torch.inference_mode():
        if made_inside:
            layout = layout_on(device)
        segments = Segments.from_batch(batch, 6, 2)
        copy.deepcopy(model)(x, layout, None, batch, 2)
        lrga.LowRankGlobalAttention(4, 2).to(device)(x, segments)
        for name in KEPT:
            if device == "cpu" or "chunk" not in name:
                getattr(layout, name)
    assert not any(tensor.is_inference() for tensor in tensors_of([layout, segments]))
    model(x, layout, None, batch, 2).square().sum().backward()
    again(x, layout_on(device), None, batch, 2).square().sum().backward()
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    inputs = [torch.rand(6, 1, 3, device=device, requires_grad=True) for _ in range(3)]
    lrga.ops.attention.attend(*inputs, segments).sum().backward()


def test_segments_can_be_trained_with_after_inference_mode():
    with torch.inference_mode():
        segments = Segments.from_batch(BATCH.clone(), 6)
    x = torch.rand(6, 4, requires_grad=True)
    lrga.LowRankGlobalAttention(4, 2)(x, segments).sum().backward()
    assert x.grad.isfinite().all()
    segments = Segments.from_ptr(torch.tensor([0, 3, 6]), BATCH)
    attention, x = lrga.LowRankGlobalAttention(4, 2), torch.rand(6, 4, requires_grad=True)
    with torch.inference_mode():
        attention(x, segments)
        assert segments.tiles.start.is_inference() is False
    attention(x, segments).sum().backward()
    assert x.grad.isfinite().all()


def test_a_packed_batch_first_used_in_inference_mode_can_be_trained_with():
    from torch_geometric.data import Data

    graphs = PackedGraphs.from_data_list(
        [Data(x=torch.randn(6, 4), edge_index=EDGES, y=torch.zeros(1)) for _ in range(3)], y_level="graph"
    )
    batch, model = graphs.batch([0, 2]), lrga.GNN(4, 8, 2, 2, conv="gatedgcn", rank=2)
    with torch.inference_mode():
        model(batch.x, batch.edges, None, batch.batch, 2)
    model(batch.x, batch.edges, None, batch.batch, 2).sum().backward()


@pytest.mark.parametrize("make", [layout_on, lambda device: Segments.from_batch(BATCH.to(device), 6)])
def test_layouts_are_compared_and_hashed_as_objects(make):
    one, other = make("cpu"), make("cpu")
    assert (one == one) is True
    assert (one == other) is False
    assert (one != other) is True
    assert len({one, other}) == 2
    assert one in [other, one]


def test_all_records_with_tensors_are_compared_as_objects():
    tiles = [Tiles.of(Segments.from_batch(BATCH, 6), torch.device("cpu")) for _ in range(2)]
    assert tiles[0] != tiles[1]
    assert tiles[0] == tiles[0]


def test_nothing_is_kept_during_a_capture_by_what_was_there_before(monkeypatch):
    """The decision alone, for a CPU has no CUDA graphs; the capture itself is below."""
    before = layout_on("cpu")
    monkeypatch.setattr(kept_module, "is_capturing", lambda: True)
    before.in_degree, before.transposed.in_degree, before.degree_roots  # noqa: B018
    assert set(vars(before)) == {field.name for field in dataclasses.fields(before)}
    during = layout_on("cpu")
    assert during.in_degree is during.in_degree
    assert during.transposed.in_degree is during.transposed.in_degree
    monkeypatch.undo()
    assert before.in_degree is before.in_degree


@pytest.mark.gpu
@pytest.mark.parametrize("conv", ["gcn", "gatedgcn"])
def test_a_capture_without_warm_up_leaves_nothing_behind(conv):
    model = lrga.GNN(4, 8, 2, 2, conv=conv, rank=2).cuda()
    x, batch, layout, warm = torch.randn(6, 4).cuda(), BATCH.cuda(), layout_on("cuda"), layout_on("cuda")
    segments = Segments.from_batch(batch, 6, 2)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # compiles the kernels, on another layout
        model(x, warm, None, batch, 2).sum().backward()
        lrga.LowRankGlobalAttention(4, 2).cuda()(x, Segments.from_batch(batch, 6, 2))
    torch.cuda.current_stream().wait_stream(stream)
    known = {id(tensor) for tensor in tensors_of([layout, segments])}
    attention = lrga.LowRankGlobalAttention(4, 2).cuda()
    attention(x, batch, 2)
    model.zero_grad()  # gradients of the capture are its own
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = model(x, layout, None, batch, 2)
        captured.sum().backward()
        attention(x, segments)
    assert {id(tensor) for tensor in tensors_of([layout, segments])} == known
    graph.replay()
    del graph, captured
    torch.cuda.empty_cache()
    model.eval()
    expected = model(x, layout_on("cuda"), None, batch, 2)
    torch.testing.assert_close(model(x, layout, None, batch, 2), expected)
