import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from lrga.nn.probe import input_width, output_width


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 11), nn.BatchNorm1d(11), nn.ReLU(), nn.Linear(11, o))


CONVOLUTIONS = [
    (pyg.GCNConv(6, 5), 6, 5),
    (pyg.GATConv(6, 5, heads=3), 6, 15),
    (pyg.GATConv(6, 5, heads=3, concat=False), 6, 5),
    (pyg.GATv2Conv(6, 5, heads=2, edge_dim=4), 6, 10),
    (pyg.TransformerConv(6, 5, heads=2, edge_dim=4), 6, 10),
    (pyg.SAGEConv((6, 6), 5), 6, 5),
    (pyg.GINConv(mlp(6, 5)), 6, 5),
    (pyg.GINEConv(mlp(6, 5), edge_dim=4), 6, 5),
    (pyg.GINEConv(mlp(6, 5)), 6, 5),
    (pyg.NNConv(6, 5, nn.Linear(1, 30)), 6, 5),
    (pyg.PNAConv(6, 5, ["mean", "max"], ["identity"], deg=torch.tensor([0, 2, 4])), 6, 5),
    (pyg.RGCNConv(6, 5, num_relations=2), 6, 5),
]


@pytest.mark.parametrize(("conv", "wide_in", "wide_out"), CONVOLUTIONS, ids=lambda c: type(c).__name__)
def test_widths_are_measured(conv, wide_in, wide_out):
    assert output_width(conv, wide_in) == wide_out
    assert input_width(conv) == wide_in


def test_a_layer_that_takes_any_width_has_none_of_its_own():
    assert input_width(pyg.APPNP(2, 0.1)) is None
    assert output_width(pyg.APPNP(2, 0.1), 7) == 7
    assert output_width(pyg.GATConv(-1, 5), -1) is None  # nor has one that is not initialised
    assert output_width(pyg.GATConv(-1, 5), 6) is None


def test_measuring_leaves_no_trace():
    conv = pyg.GINConv(mlp(6, 5)).train()
    before = {name: value.clone() for name, value in conv.state_dict().items()}
    state = torch.get_rng_state()
    output_width(conv, 6)
    assert conv.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in conv.state_dict().items())
