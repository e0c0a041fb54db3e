import pytest
import torch

from lrga.nn.layers.gin import GINLayer

N, D = 7, 4


def by_loops(layer, x, edge_index, sizes):
    """The layer of the benchmark node by node."""

    def normalised(h, norm):
        mean, var = (h.mean(0), h.var(0, correction=0)) if layer.training else (norm.running_mean, norm.running_var)
        return (h - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias

    size_of = torch.tensor([size for size in sizes for _ in range(size)], dtype=x.dtype)
    edges = edge_index.t().tolist()
    rows = []
    for i in range(len(x)):
        z = (1 + layer.eps) * x[i] + sum((x[j] for j, target in edges if target == i), torch.zeros_like(x[i]))
        rows.append(layer.lin1.weight @ z + layer.lin1.bias)
    hidden = normalised(torch.stack(rows), layer.inner_norm).clamp(min=0)
    h = torch.stack([layer.lin2.weight @ row + layer.lin2.bias for row in hidden])
    if layer.preset == "2020":
        h = h / size_of.sqrt()[:, None]
    return x + normalised(h, layer.norm).clamp(min=0)


@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("training", [True, False])
def test_layer_equals_the_benchmark_node_by_node(preset, training):
    layer = GINLayer(D, D, preset=preset).double().train(training)
    torch.nn.init.constant_(layer.eps, 0.3)
    for norm in (layer.inner_norm, layer.norm):
        torch.nn.init.normal_(norm.weight)
        norm.running_mean.normal_()
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5, 5], [1, 0, 0, 1, 0, 2, 5, 4, 4]])
    x = torch.randn(N, D, dtype=torch.float64)
    expected = by_loops(layer, x, edge_index, [4, 3])
    out = layer(x, edge_index, batch=torch.tensor([0, 0, 0, 0, 1, 1, 1]))
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


def test_epsilon_is_learned_from_zero():
    layer = GINLayer(D, D, batch_norm=False)
    assert layer.eps.item() == 0
    layer(torch.randn(N, D), torch.randint(0, N, (2, 9))).sum().backward()
    assert layer.eps.grad.abs() > 0
    torch.nn.init.ones_(layer.eps)
    layer.reset_parameters()
    assert layer.eps.item() == 0
