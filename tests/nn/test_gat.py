import copy
import math

import pytest
import torch

from lrga.nn.layers.gat import GATLayer
from lrga.ops._triton import has_triton
from lrga.ops.neighbors.edges import EdgeLayout

N, D, H = 7, 6, 2
SLOPE = {"2022": 0.2, "2020": 0.01}


def by_loops(layer, x, edge_index, sizes):
    """The layer of the benchmark, node by node and head by head."""
    size_of = [size for size in sizes for _ in range(size)]
    width = layer.out_channels
    edges = edge_index.t().tolist()
    h = torch.zeros(len(x), layer.heads * width, dtype=x.dtype)
    for head in range(layer.heads):
        columns = slice(head * width, (head + 1) * width)
        z = x @ layer.lin.weight[columns].t()
        for i in range(len(x)):
            scores = []
            for j, target in edges:
                if target == i:
                    score = float(layer.att_source[head] @ z[j] + layer.att_target[head] @ z[i])
                    scores.append((j, score if score > 0 else SLOPE[layer.preset] * score))
            total = sum(math.exp(score) for _, score in scores)
            for j, score in scores:
                h[i, columns] += math.exp(score) / total * z[j]
    if layer.preset == "2020":
        h = h / torch.tensor(size_of, dtype=x.dtype).sqrt()[:, None]
    norm = layer.norm
    mean, var = (h.mean(0), h.var(0, correction=0)) if layer.training else (norm.running_mean, norm.running_var)
    h = (h - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias
    h = torch.where(h > 0, h, h.exp() - 1)
    return x + h if layer.in_channels == layer.heads * width else h


@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("out_channels", [D // H, 4])
def test_layer_equals_the_benchmark_node_by_node(preset, training, out_channels):
    layer = GATLayer(D, out_channels, heads=H, preset=preset).double().train(training)
    torch.nn.init.normal_(layer.norm.weight)
    layer.norm.running_mean.normal_()
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5, 5], [1, 0, 0, 1, 0, 2, 5, 4, 4]])
    x = torch.randn(N, D, dtype=torch.float64)
    with torch.no_grad():
        expected = by_loops(layer, x, edge_index, [4, 3])
        out = layer(x, edge_index, batch=torch.tensor([0, 0, 0, 0, 1, 1, 1]))
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


def test_layer_equals_pygs_gat_convolution_with_the_same_weights():
    from torch_geometric.nn import GATConv

    layer = GATLayer(D, 3, heads=H, batch_norm=False, residual=False).double()
    peer = GATConv(D, 3, heads=H, add_self_loops=False, bias=False).double()
    with torch.no_grad():
        peer.lin.weight.copy_(layer.lin.weight)
        peer.att_src.copy_(layer.att_source[None])
        peer.att_dst.copy_(layer.att_target[None])
    x, edge_index = torch.randn(N, D, dtype=torch.float64), torch.randint(0, N, (2, 20))
    torch.testing.assert_close(layer(x, edge_index), torch.nn.functional.elu(peer(x, edge_index)))


@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("residual", [True, False])
def test_the_layer_calls_a_norm_with_hooks_and_means_the_same_by_it(preset, residual):
    layers = [GATLayer(D, 3, heads=H, preset=preset, residual=residual) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    seen = []
    layers[1].norm.register_forward_hook(lambda module, args, out: seen.append(out))
    x, edge_index = torch.randn(N, D), torch.randint(0, N, (2, 20))
    plain, hooked = (layer(x, edge_index) for layer in layers)
    torch.testing.assert_close(plain, hooked)
    torch.testing.assert_close(hooked, torch.nn.functional.elu(seen[0]) + (x if residual else 0.0))


@pytest.mark.parametrize("preset", ["2022", "2020"])
def test_dropout_changes_training_and_leaves_evaluation_alone(preset):
    layer = GATLayer(D, 3, heads=H, preset=preset, dropout=0.5)
    x, edge_index = torch.randn(N, D), torch.randint(0, N, (2, 20))
    assert not torch.equal(layer(x, edge_index), layer(x, edge_index))
    layer.eval()
    assert torch.equal(layer(x, edge_index), layer(x, edge_index))


@pytest.mark.skipif(not has_triton(), reason="Triton is not installed")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("preset", ["2022", "2020"])
def test_the_kernels_give_the_values_and_gradients_of_the_definition(monkeypatch, preset, device):
    if device == "cpu":  # in Triton's interpreter, which is never the automatic choice
        for module in ("gat.definition", "norm.definition"):
            monkeypatch.setattr(f"lrga.ops.{module}.runs_on_gpu", lambda *tensors: tensors[0].dtype != torch.float64)
    layer = GATLayer(D, 3, heads=H, preset=preset).to(device)
    exact = copy.deepcopy(layer).double()
    x = torch.randn(9, D, device=device)
    edges, _ = EdgeLayout.from_edge_index(torch.randint(0, N, (2, 30), device=device), 9)
    batch, upstream = torch.tensor([0] * 4 + [1] * 5, device=device), torch.randn(9, D, device=device)
    results = []
    for kind, wide in ((layer, x), (exact, x.double())):
        given = wide.clone().requires_grad_()
        out = kind(given, edges, batch=batch, num_graphs=2)
        out.backward(upstream.to(out.dtype))
        results.append([out, given.grad, *(p.grad for p in kind.parameters()), *kind.norm.buffers()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a.to(b.dtype), b, rtol=1e-4, atol=1e-4)
