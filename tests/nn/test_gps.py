import pytest
import torch
from torch_geometric.nn import GCNConv, GPSConv

from lrga.errors import DTypeError, ShapeError
from lrga.nn.gps import GPSAttention

D = 8


def layer_of(**options):
    layer = GPSConv(D, GCNConv(D, D), norm="layer_norm", norm_kwargs={"mode": "node"})
    layer.attn = GPSAttention(D, rank=4, **options)
    return layer


@pytest.fixture
def batch():
    sizes = torch.tensor([3, 20, 1, 9])
    graph = torch.repeat_interleave(torch.arange(4), sizes)
    index = torch.arange(len(graph) - 1)
    inside = graph[:-1] == graph[1:]
    return torch.randn(len(graph), D), torch.stack([index, index + 1])[:, inside], graph


def test_a_gps_layer_sees_each_graph_alone(batch):
    x, edge_index, graph = batch
    layer = layer_of(heads=2).double().eval()
    x = x.double()
    together = layer(x, edge_index, batch=graph)
    for g in range(4):
        nodes = graph == g
        first = int(nodes.nonzero()[0])
        edges = edge_index[:, nodes[edge_index[0]]] - first
        alone = layer(x[nodes], edges, batch=torch.zeros(int(nodes.sum()), dtype=torch.int64))
        assert (together[nodes] - alone).norm() <= 1e-12 * alone.norm()


def test_the_attention_reaches_every_node_of_the_graph(batch):
    x, edge_index, graph = batch
    x.requires_grad_()
    out = layer_of()(x, edge_index[:, :0], batch=graph)[10]
    (out * torch.randn(D)).sum().backward()  # the plain sum of a LayerNorm is constant
    reached = x.grad.abs().sum(1) > 0
    assert torch.equal(reached, graph == 1)


def test_nodes_are_real_without_a_mask_and_other_features_refused():
    attention = GPSAttention(D, rank=4)
    x = torch.randn(2, 5, D)
    assert torch.equal(attention(x), attention(x, torch.ones(2, 5, dtype=torch.bool)))
    with pytest.raises(ShapeError, match=r"\[G, n, channels\]"):
        GPSAttention(D, rank=4)(torch.randn(5, D))
    with pytest.raises(DTypeError, match="to_dense"):
        GPSAttention(D, rank=2)(torch.randn(1, 4, D).to_sparse())
