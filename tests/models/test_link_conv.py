import copy

import pytest
import torch

from lrga.models.link import CONVOLUTIONS, LinkGNN
from lrga.nn.layers.pyg import convolve, gcn_scale
from lrga.ops.neighbors.edges import EdgeLayout

N, E = 40, 160


def graph(*, weighted=False):
    pairs = torch.randint(N, (2, E))
    pairs = pairs[:, pairs[0] != pairs[1]]  # several edges between two nodes and lone nodes stay
    weight = torch.rand(pairs.size(1), dtype=torch.float64) + 0.1 if weighted else None
    layout, order = EdgeLayout.from_edge_index(pairs, N)
    return pairs, weight, layout, None if weight is None else weight[order]


@pytest.mark.parametrize("widths", [(5, 9), (9, 5)])
@pytest.mark.parametrize(("name", "weighted"), [("gcn", False), ("gcn", True), ("graphsage", False)])
def test_sums_over_a_layout_equal_pyg_with_every_gradient(name, weighted, widths):
    conv = CONVOLUTIONS[name](*widths).double()
    edge_index, weight, layout, sorted_weight = graph(weighted=weighted)
    x = torch.randn(N, widths[0], dtype=torch.float64, requires_grad=True)
    scale = gcn_scale(layout, sorted_weight, x.dtype)
    ours = convolve(conv, x, layout, sorted_weight, scale)
    theirs = conv(x, edge_index) if weight is None else conv(x, edge_index, weight)
    assert_same_gradients(ours, theirs, [x, *conv.parameters()])


def test_gat_over_a_layout_equals_pyg_whatever_loops_there_are():
    conv = CONVOLUTIONS["gat"](5, 8).double()
    edge_index = torch.cat([torch.randint(N, (2, E)), torch.tensor([[3, 3, 7], [3, 3, 7]])], dim=1)
    layout, _ = EdgeLayout.from_edge_index(edge_index, N)
    x = torch.randn(N, 5, dtype=torch.float64, requires_grad=True)
    assert_same_gradients(convolve(conv, x, layout, None, None), conv(x, edge_index), [x, *conv.parameters()])


def assert_same_gradients(ours, theirs, parameters):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    seed = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad(ours, parameters, seed), torch.autograd.grad(theirs, parameters, seed), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("rank", [None, 3])
def test_a_network_of_any_convolution_gives_the_same_on_sorted_edges(name, rank):
    gnn = LinkGNN(6, 8, 2, conv=name, rank=rank).double().eval()
    edge_index, _, layout, _ = graph()
    x = torch.randn(N, 6, dtype=torch.float64)
    torch.testing.assert_close(gnn(x, layout), gnn(x, edge_index), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gnn.float()(x.float(), layout), gnn(x.float(), edge_index), rtol=1e-4, atol=1e-5)
    assert copy.deepcopy(gnn).state_dict().keys() == gnn.state_dict().keys()


def test_a_node_without_neighbours_keeps_its_own_features():
    layout, _ = EdgeLayout.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 3)
    conv = CONVOLUTIONS["gcn"](4, 4)
    x = torch.randn(3, 4)
    torch.testing.assert_close(convolve(conv, x, layout, None, gcn_scale(layout, None)), conv.lin(x) + conv.bias)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_overflow_at_a_node_of_many_edges(dtype):
    leaves = 2000
    edges = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.int64)])
    layout, _ = EdgeLayout.from_edge_index(edges, leaves + 1)
    conv = CONVOLUTIONS["gcn"](2, 2)
    with torch.no_grad():
        conv.lin.weight.copy_(torch.eye(2))
    x = torch.full((leaves + 1, 2), 100.0)
    expected = convolve(conv, x, layout, None, gcn_scale(layout, None))
    half = convolve(conv.to(dtype), x.to(dtype), layout, None, gcn_scale(layout, None, dtype))
    torch.testing.assert_close(half.float(), expected, rtol=2e-2, atol=1e-2)
