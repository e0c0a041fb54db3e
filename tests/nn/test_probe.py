import pytest
import torch
from torch import nn
from torch_geometric.nn import (
    APPNP,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    NNConv,
    PNAConv,
    RGCNConv,
    SAGEConv,
    TransformerConv,
)

from lrga.nn.probe import input_width, output_width


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 11), nn.BatchNorm1d(11), nn.ReLU(), nn.Linear(11, o))


CONVOLUTIONS = [
    (GCNConv(6, 5), 6, 5),
    (GATConv(6, 5, heads=3), 6, 15),
    (GATConv(6, 5, heads=3, concat=False), 6, 5),
    (GATv2Conv(6, 5, heads=2, edge_dim=4), 6, 10),
    (TransformerConv(6, 5, heads=2, edge_dim=4), 6, 10),
    (SAGEConv((6, 6), 5), 6, 5),
    (GINConv(mlp(6, 5)), 6, 5),
    (GINEConv(mlp(6, 5), edge_dim=4), 6, 5),
    (GINEConv(mlp(6, 5)), 6, 5),
    (NNConv(6, 5, nn.Linear(1, 30)), 6, 5),
    (PNAConv(6, 5, ["mean", "max"], ["identity"], deg=torch.tensor([0, 2, 4])), 6, 5),
    (RGCNConv(6, 5, num_relations=2), 6, 5),
]


@pytest.mark.parametrize(("conv", "wide_in", "wide_out"), CONVOLUTIONS, ids=lambda c: type(c).__name__)
def test_widths_are_measured(conv, wide_in, wide_out):
    assert output_width(conv, wide_in) == wide_out
    assert input_width(conv) == wide_in


def test_a_layer_that_takes_any_width_has_none_of_its_own():
    assert input_width(APPNP(2, 0.1)) is None
    assert output_width(APPNP(2, 0.1), 7) == 7


def test_an_uninitialised_layer_cannot_be_measured():
    assert output_width(GATConv(-1, 5), -1) is None
    assert output_width(GATConv(-1, 5), 6) is None


def test_measuring_leaves_no_trace():
    conv = GINConv(mlp(6, 5)).train()
    before = {name: value.clone() for name, value in conv.state_dict().items()}
    state = torch.get_rng_state()
    output_width(conv, 6)
    assert conv.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in conv.state_dict().items())
