import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv, ResGatedGraphConv, SAGEConv

from lrga.distributed import partition_graph, partition_model
from lrga.errors import DTypeError, UnsupportedError

EDGES = torch.randint(20, (2, 90), generator=torch.Generator().manual_seed(0))  # loops and repeats among them


def part_and_edges(edges=EDGES):
    part = partition_graph(edges, 20)
    return part, torch.stack([part.layout.source, part.layout.target])


LAYERS = {
    "gcn": lambda: GCNConv(5, 8),
    "narrowing gcn": lambda: GCNConv(5, 3, bias=False),
    "sage": lambda: SAGEConv(5, 8),
    "sage, unit length, no root": lambda: SAGEConv(5, 8, normalize=True, root_weight=False),
    "gat": lambda: GATConv(5, 4, heads=3),
    "gat, mean of heads": lambda: GATConv(5, 4, heads=2, concat=False, negative_slope=0.1),
    "gin": lambda: GINConv(torch.nn.Linear(5, 8), eps=0.3, train_eps=True),
    "res gated": lambda: ResGatedGraphConv(5, 8),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_on_one_part_gives_what_pyg_gives(name):
    torch.manual_seed(0)
    part, edge_index = part_and_edges()
    whole = LAYERS[name]().double()
    ours = partition_model(whole, part)
    x = torch.randn(20, 5, dtype=torch.float64)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, expected = ours(mine, part.edges), whole(theirs, edge_index)
    assert torch.allclose(out, expected, atol=1e-12)
    for result in (out, expected):
        result.square().sum().backward()
    assert torch.allclose(mine.grad, theirs.grad, atol=1e-11)
    for a, b in zip(ours.parameters(), whole.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, atol=1e-11)


def test_weights_of_loops_count_as_in_pyg():
    edges = torch.cat([EDGES[:, EDGES[0] != EDGES[1]], torch.tensor([[3, 7], [3, 7]])], dim=1)
    part, edge_index = part_and_edges(edges)
    weight = part.take_edges(torch.rand(edges.size(1), dtype=torch.float64))
    whole = GCNConv(5, 8).double()
    x = torch.randn(20, 5, dtype=torch.float64)
    assert torch.allclose(partition_model(whole, part)(x, part.edges, weight), whole(x, edge_index, weight))


@pytest.mark.parametrize(
    "layer",
    [
        GCNConv(5, 8, improved=True),
        GCNConv(5, 8, cached=True),
        GCNConv(5, 8, aggr="max"),
        GCNConv(5, 8, flow="target_to_source"),
        SAGEConv(5, 8, aggr="max"),
        SAGEConv(5, 8, flow="target_to_source"),
        GATConv(5, 4, dropout=0.5),
        GATConv(5, 4, aggr="max"),
        GINConv(torch.nn.Linear(5, 8), flow="target_to_source"),
        ResGatedGraphConv(5, 8, flow="target_to_source"),
    ],
)
def test_options_that_cannot_be_divided_are_refused(layer):
    with pytest.raises(UnsupportedError, match="with these options"):
        partition_model(layer, part_and_edges()[0])


@pytest.mark.parametrize("name", LAYERS)
def test_edges_of_a_whole_graph_are_refused(name):
    part, edge_index = part_and_edges()
    with pytest.raises(DTypeError, match=r"part\.edges"):
        partition_model(LAYERS[name](), part)(torch.zeros(20, 5), edge_index)
