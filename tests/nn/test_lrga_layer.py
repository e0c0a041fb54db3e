import pytest
import torch

from lrga.errors import OptionError
from lrga.nn.gated_gcn import GatedGCNLayer
from lrga.nn.gcn import GCNLayer
from lrga.nn.lrga_layer import READINGS, LRGALayer

N, D, K = 6, 4, 3
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 0, 4, 5, 3]])
BATCH = torch.tensor([0, 0, 0, 1, 1, 1])


def make(reading="B", rank=K, **options):
    base = GCNLayer(D, D, residual=reading != "C", batch_norm=reading != "B-outer")
    return LRGALayer(base, D, rank, reading=reading, **options).double().eval()


def attention_by_loops(layer, x):
    """Equations 2 and 3 graph by graph."""
    project = layer.attention.project
    m1, m2, m3, m4 = (x @ project.weight.t() + project.bias).clamp(min=0).split(K, dim=1)
    parts = []
    for graph in range(2):
        rows = BATCH == graph
        eta = (m1[rows].sum(0) @ m2[rows].sum(0)) / rows.sum() + 1e-6
        parts.append(torch.cat([m1[rows] @ m2[rows].t() @ m3[rows] / eta, m4[rows]], dim=1))
    return torch.cat(parts)


@pytest.mark.parametrize("reading", READINGS)
def test_each_reading_is_its_formula(reading):
    layer = make(reading)
    layer.norm.running_mean.normal_()
    x = torch.randn(N, D, dtype=torch.float64)
    mixed = layer.mix(torch.cat([x, attention_by_loops(layer, x), layer.base(x, EDGES)], dim=1))
    expected = {
        "A": lambda: layer.norm(mixed).relu(),
        "B": lambda: layer.norm(mixed.relu()),
        "C": lambda: x + layer.norm(mixed).relu(),
        "D": lambda: x + layer.norm(mixed).relu(),
        "B-outer": lambda: layer.norm(mixed.relu()),
    }[reading]()
    torch.testing.assert_close(layer(x, EDGES, batch=BATCH), expected, rtol=1e-12, atol=1e-12)
    assert layer.base.residual == (reading != "C")
    assert (layer.base.norm is None) == (reading == "B-outer")


def test_rank_zero_mixes_input_and_convolution_only():
    layer = make(rank=0)
    assert layer.mix.in_features == 2 * D
    x = torch.randn(N, D, dtype=torch.float64)
    expected = layer.norm(layer.mix(torch.cat([x, layer.base(x, EDGES)], dim=1)).relu())
    torch.testing.assert_close(layer(x, EDGES, batch=BATCH), expected)


def test_without_normalisation_only_the_activation_follows():
    layer = make(batch_norm=False)
    assert (layer(torch.randn(N, D, dtype=torch.float64), EDGES) >= 0).all()


def test_edge_features_pass_through():
    layer = LRGALayer(GatedGCNLayer(D, D), D, K)
    h, e = layer(torch.randn(N, D), EDGES, torch.randn(6, D), BATCH)
    assert h.shape == (N, D)
    assert e.shape == (6, D)


def test_several_heads_widen_the_mixing_map():
    layer = make(heads=2)
    assert layer.mix.in_features == 2 * D + 2 * 2 * K
    assert layer(torch.randn(N, D, dtype=torch.float64), EDGES).shape == (N, D)


def test_unknown_readings_and_base_layers_of_another_reading_are_refused():
    with pytest.raises(OptionError, match="A, B, C, D"):
        make("E")
    with pytest.raises(OptionError, match="residual=False"):
        LRGALayer(GCNLayer(D, D), D, K, reading="C")
    with pytest.raises(OptionError, match="batch_norm=False"):
        LRGALayer(GCNLayer(D, D), D, K, reading="B-outer")
