"""GINE is PyG's convolution around the layer's MLP."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GINEConv

from lrga.errors import ShapeError
from lrga.nn import GINELayer
from lrga.ops.neighbors.edges import EdgeLayout

EDGES = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5, 5], [1, 0, 0, 1, 0, 2, 5, 4, 4]])


@pytest.mark.parametrize("sorted_edges", [False, True])
def test_the_convolution_is_that_of_pyg_with_its_gradients(sorted_edges):
    torch.manual_seed(0)
    layer = GINELayer(4, 4).double().as_convolution()
    mlp = nn.Sequential(layer.lin1, layer.inner_norm, nn.ReLU(), layer.lin2)
    theirs = GINEConv(mlp, train_eps=True).double()
    with torch.no_grad():
        layer.eps.fill_(0.3)
        theirs.eps.fill_(0.3)
        layer.lin1.reset_parameters()  # GINEConv resets what it is given
    x = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    e = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    expected = theirs(x, EDGES, e)
    wanted = torch.autograd.grad(expected.square().sum(), (x, e))
    edges, given = EDGES, e
    if sorted_edges:
        edges, order = EdgeLayout.from_edge_index(EDGES, 7)
        given = e[order]
    got, kept = layer(x, edges, given)
    assert kept is given
    torch.testing.assert_close(got, expected)
    for ours, their in zip(torch.autograd.grad(got.square().sum(), (x, e)), wanted, strict=True):
        torch.testing.assert_close(ours, their)


def test_edge_features_are_asked_for():
    with pytest.raises(ShapeError, match=r"edge_attr of shape \[9, 4\]"):
        GINELayer(4, 4)(torch.randn(7, 4), EDGES)
