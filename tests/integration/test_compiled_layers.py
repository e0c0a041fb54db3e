"""Layers whose kernels are Triton's, compiled to one graph: in Triton's interpreter, which takes a GPU's place."""

import copy

import pytest
import torch

import lrga
from lrga.models.gnn import CONVOLUTIONS
from lrga.nn.layers.lrga import LRGALayer
from lrga.ops._triton import HAS_TRITON
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.edges import EdgeLayout

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
N, E, D, K = 5, 12, 6, 3


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()


@pytest.fixture
def kernels_everywhere(monkeypatch):
    """The automatic choice of a GPU, on the CPU."""
    for module in ("neighbors.reduce", "norm.definition", "gat.definition", "gated.definition"):
        monkeypatch.setattr(f"lrga.ops.{module}.runs_on_gpu", lambda *tensors: True)


def values_and_gradients(run, module, x, *rest, **options):
    out = run(x, *rest, **options)
    parts = out if isinstance(out, tuple) else (out,)
    found = torch.autograd.grad(sum(part.square().sum() for part in parts), [x, *module.parameters()])
    return [part.detach() for part in parts], found, list(module.buffers())


def test_the_attention_of_a_batch_on_the_kernels_compiles_to_one_graph_and_exports_strictly():
    module = lrga.LowRankGlobalAttention(D, rank=K, backend="triton")
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x, batch = torch.randn(N, D, requires_grad=True), torch.arange(N) // 2
    results = [values_and_gradients(run, module, x, batch, 3) for run in (module, compiled)]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    exported = torch.export.export(module, (x.detach(), batch, 3), strict=True)
    assert any("fused_forward" in str(node.target) for node in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(x, batch, 3), module(x, batch, 3))


def test_graphs_known_by_where_they_begin_compile_to_one_graph():
    module = lrga.LowRankGlobalAttention(D, rank=K, backend="segmented")
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x, batch = torch.randn(N, D), torch.arange(N) // 2
    segments = Segments.from_ptr(torch.tensor([0, 2, 4, 5]), batch)
    torch.testing.assert_close(compiled(x, segments), module(x, batch, 3))


def layers():
    """Those with edge features always; test_message and test_gnn compile the others too, in fewer parts."""
    for conv in CONVOLUTIONS:
        often = conv in ("gatedgcn", "gine")
        yield pytest.param(conv, "2022", marks=() if often else pytest.mark.slow)
    for conv in ("gcn", "gatedgcn"):
        yield pytest.param(conv, "2020", marks=pytest.mark.slow)


@pytest.mark.parametrize(("conv", "preset"), list(layers()))
def test_each_layer_beside_the_attention_compiles_to_one_graph(kernels_everywhere, conv, preset):
    options = {"heads": 1} if conv == "gat" else {}
    layer = LRGALayer(CONVOLUTIONS[conv](D, D, preset=preset, **options), D, K, backend="triton")
    other = copy.deepcopy(layer)
    compiled = torch.compile(other, backend="aot_eager", fullgraph=True)
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, N - 2, (2, E)), N)
    x, batch = torch.randn(N, D, requires_grad=True), torch.arange(N) // 2
    attributes = torch.randn(E, D) if conv in ("gatedgcn", "gine") else None
    results = [
        values_and_gradients(run, module, x, layout, attributes, batch, 3)
        for run, module in ((layer, layer), (compiled, other))
    ]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
