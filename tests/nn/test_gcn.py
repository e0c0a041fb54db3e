import pytest
import torch

from lrga.nn.layers.gcn import GCNLayer

N, D = 7, 4


def by_loops(layer, x, edge_index, sizes):
    """The layer of the benchmark node by node; the graphs have ``sizes`` nodes."""
    weight, bias, norm = layer.lin.weight, layer.lin.bias, layer.norm
    size_of = [size for size in sizes for _ in range(size)]
    edges = edge_index.t().tolist()
    rows = []
    for i in range(len(x)):
        total = torch.zeros(x.size(1), dtype=x.dtype)
        into = [j for j, target in edges if target == i]
        for j in into:
            out_degree = sum(source == j for source, _ in edges)
            total += x[j] / (len(into) ** 0.5 * out_degree**0.5) if layer.preset == "2022" else x[j] / len(into)
        h = weight @ total + bias
        if layer.preset == "2020":
            h = h / size_of[i] ** 0.5
        rows.append(h)
    h = torch.stack(rows)
    mean, var = (h.mean(0), h.var(0, correction=0)) if layer.training else (norm.running_mean, norm.running_var)
    h = (h - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias
    return x + h.clamp(min=0)


@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("training", [True, False])
def test_layer_equals_the_benchmark_node_by_node(preset, training):
    layer = GCNLayer(D, D, preset=preset).double().train(training)
    torch.nn.init.normal_(layer.norm.weight)
    layer.norm.running_mean.normal_()
    # One-way edges, a repeated edge, a node without edges; two graphs of 4 and 3 nodes.
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5, 5], [1, 0, 0, 1, 0, 2, 5, 4, 4]])
    x = torch.randn(N, D, dtype=torch.float64)
    expected = by_loops(layer, x, edge_index, [4, 3])
    out = layer(x, edge_index, batch=torch.tensor([0, 0, 0, 0, 1, 1, 1]))
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


def test_without_normalisation_a_node_without_neighbours_gets_the_bias():
    layer = GCNLayer(D, 3, batch_norm=False)
    torch.nn.init.constant_(layer.lin.bias, 0.5)
    out = layer(torch.randn(2, D), torch.tensor([[0], [1]]))
    torch.testing.assert_close(out[0], torch.full((3,), 0.5))
