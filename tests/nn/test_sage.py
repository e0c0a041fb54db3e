import pytest
import torch

from lrga.nn.layers.sage import SAGELayer

N, D = 7, 4


def by_loops(layer, x, edge_index, sizes, pool_self=False):
    """The layer of the benchmark node by node."""
    size_of = [size for size in sizes for _ in range(size)]
    edges = edge_index.t().tolist()
    rows = []
    for i in range(len(x)):
        into = [j for j, target in edges if target == i]
        own, pooled = x[i], torch.zeros_like(x[i])
        if layer.preset == "2022":
            pool = lambda v: (layer.pool.weight @ v + layer.pool.bias).clamp(min=0)  # noqa: E731
            if into:
                pooled = torch.stack([pool(x[j]) for j in into]).max(0).values
            own = pool(x[i]) if pool_self else own
        elif into:
            pooled = sum(x[j] for j in into) / len(into)
        z = layer.lin.weight @ torch.cat([own, pooled]) + layer.lin.bias
        h = (z / (z * z).sum().sqrt()).clamp(min=0)
        rows.append(h / size_of[i] ** 0.5 if layer.preset == "2020" else h)
    h = torch.stack(rows)
    norm = layer.norm
    mean, var = (h.mean(0), h.var(0, correction=0)) if layer.training else (norm.running_mean, norm.running_var)
    return x + (h - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias


@pytest.mark.parametrize(("preset", "pool_self"), [("2022", False), ("2022", True), ("2020", False)])
@pytest.mark.parametrize("training", [True, False])
def test_layer_equals_the_benchmark_node_by_node(preset, pool_self, training):
    layer = SAGELayer(D, D, preset=preset, pool_self=pool_self).double().train(training)
    torch.nn.init.normal_(layer.norm.weight)
    layer.norm.running_mean.normal_()
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5, 5], [1, 0, 0, 1, 0, 2, 5, 4, 4]])
    x = torch.randn(N, D, dtype=torch.float64)
    expected = by_loops(layer, x, edge_index, [4, 3], pool_self)
    out = layer(x, edge_index, batch=torch.tensor([0, 0, 0, 0, 1, 1, 1]))
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


def test_mean_pooling_has_no_pooling_weights():
    assert SAGELayer(D, D, preset="2020").pool is None
    assert SAGELayer(D, D).pool is not None


def test_dropout_acts_on_the_input_and_not_on_the_residual():
    layer = SAGELayer(D, D, dropout=1.0, batch_norm=False).train()
    torch.nn.init.zeros_(layer.lin.bias)
    torch.nn.init.zeros_(layer.pool.bias)
    x = torch.randn(3, D)
    torch.testing.assert_close(layer(x, torch.tensor([[0, 1], [1, 2]])), x)
