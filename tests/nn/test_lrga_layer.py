import pytest
import torch

from lrga.errors import OptionError
from lrga.models.gnn import CONVOLUTIONS, GNN
from lrga.nn.layers.gcn import GCNLayer
from lrga.nn.layers.lrga import WIRING_OF_READING, WIRINGS, LRGALayer, Wiring, renamed_reading, wiring_of

N, D, K = 6, 4, 3
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 0, 4, 5, 3]])
BATCH = torch.tensor([0, 0, 0, 1, 1, 1])


def make(wiring="authors-code", rank=K, **options):
    joined = wiring_of(wiring)
    base = GCNLayer(D, D, residual=joined.inner_residual, batch_norm=joined.inner_norm)
    return LRGALayer(base, D, rank, wiring=wiring, **options).double().eval()


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


@pytest.mark.parametrize("wiring", WIRINGS)
def test_each_wiring_is_its_formula(wiring):
    layer = make(wiring)
    layer.norm.running_mean.normal_()
    x = torch.randn(N, D, dtype=torch.float64)
    mixed = layer.mix(torch.cat([x, attention_by_loops(layer, x), layer.base(x, EDGES)], dim=1))
    expected = {
        "norm-first": lambda: layer.norm(mixed).relu(),
        "authors-code": lambda: layer.norm(mixed.relu()),
        "outer-residual": lambda: x + layer.norm(mixed).relu(),
        "two-residuals": lambda: x + layer.norm(mixed).relu(),
        "outer-norm": lambda: layer.norm(mixed.relu()),
    }[wiring]()
    torch.testing.assert_close(layer(x, EDGES, batch=BATCH), expected, rtol=1e-12, atol=1e-12)
    assert layer.base.residual == (wiring != "outer-residual")
    assert (layer.base.norm is None) == (wiring == "outer-norm")


def test_rank_zero_mixes_input_and_convolution_only():
    layer = make(rank=0)
    assert layer.mix.in_features == 2 * D
    x = torch.randn(N, D, dtype=torch.float64)
    expected = layer.norm(layer.mix(torch.cat([x, layer.base(x, EDGES)], dim=1)).relu())
    torch.testing.assert_close(layer(x, EDGES, batch=BATCH), expected)


def test_unknown_wirings_and_base_layers_of_another_wiring_are_refused():
    with pytest.raises(OptionError, match="authors-code, norm-first"):
        make("E")
    with pytest.raises(OptionError, match="residual=False"):
        LRGALayer(GCNLayer(D, D), D, K, wiring="outer-residual")
    with pytest.raises(OptionError, match="batch_norm=False"):
        LRGALayer(GCNLayer(D, D), D, K, wiring="outer-norm")


@pytest.mark.parametrize("conv", CONVOLUTIONS)
@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_wiring_says_how_many_parameters_it_adds(wiring, conv):
    networks = [GNN(8, D, 1, 3, conv=conv, edge_channels=1, rank=rank, wiring=wiring) for rank in (K, None)]
    augmented, plain = (sum(p.numel() for p in network.layers[0].parameters()) for network in networks)
    assert wiring_of(wiring).parameters(D, K, conv=conv) == augmented - plain


def test_a_wiring_of_ones_own_need_not_concatenate_the_input():
    layer = make(Wiring(concatenate=("attention", "local")))
    x = torch.randn(N, D, dtype=torch.float64)
    expected = layer.norm(layer.mix(torch.cat([attention_by_loops(layer, x), layer.base(x, EDGES)], dim=1)).relu())
    torch.testing.assert_close(layer(x, EDGES, batch=BATCH), expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(OptionError, match="concatenate"):
        Wiring(concatenate=("input", "input"))


@pytest.mark.parametrize(("letter", "name"), WIRING_OF_READING.items())
def test_letters_of_old_runs_are_read_and_answered_with_the_present_name(letter, name):
    assert renamed_reading({"reading": letter, "rank": 3}) == {"wiring": name, "rank": 3}
    with pytest.raises(OptionError, match=f"pass '{name}'"):
        wiring_of(letter)
