"""The residual block is its formula; a graph, a batch and a padded batch give the same."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data

import lrga
from lrga.data import PackedGraphs, with_encodings
from lrga.data.packed.padded import Capacity
from lrga.errors import OptionError
from lrga.models.gnn import CONVOLUTIONS
from lrga.nn import GATLayer, GCNLayer, ResidualLayer
from lrga.nn.heads import readout
from lrga.nn.norm import make_norm
from lrga.ops.attention.segments import Segments, known_segments
from lrga.ops.neighbors.reduce import sum_sources_reference

EDGES = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5], [1, 0, 0, 1, 0, 2, 5, 4]])


@pytest.mark.parametrize("norm", ["batch", "layer", "rms", None])
@pytest.mark.parametrize("rank", [None, 3])
def test_a_layer_is_its_formula(norm, rank):
    torch.manual_seed(0)
    layer = ResidualLayer(GCNLayer(6, 6), 6, rank, heads=2, norm=norm).double()
    x, batch = torch.randn(7, 6, dtype=torch.float64), torch.tensor([0, 0, 0, 0, 1, 1, 1])
    degree_in = torch.bincount(EDGES[1], minlength=7).clamp(min=1).double().rsqrt()
    degree_out = torch.bincount(EDGES[0], minlength=7).clamp(min=1).double().rsqrt()
    h = layer.base.lin(sum_sources_reference(x, EDGES, dst_scale=degree_in, src_scale=degree_out))
    if rank is not None:
        h = h + layer.attention(x, batch) @ layer.lin_attention.weight.t()

    def normed(module, h):
        if norm == "batch":
            return F.batch_norm(h, None, None, module.weight, module.bias, training=True)
        return h if module is None else module(h)

    y = x + normed(layer.norm1, h)
    expected = normed(layer.norm2, y + layer.lin2(layer.lin1(y).relu()))
    torch.testing.assert_close(layer(x, EDGES, None, batch, 2), expected)


def test_dropout_is_on_the_branches_and_on_the_attention():
    torch.manual_seed(0)
    layer = ResidualLayer(GATLayer(6, 3, heads=2), 6, 3, dropout=1.0, norm=None)
    x = torch.randn(7, 6)
    assert torch.equal(layer(x, EDGES), x)  # nothing but the residual is left
    assert ResidualLayer(GCNLayer(6, 6), 6, 3, dropout=0.1, attention_dropout=0.5).attention.dropout == 0.5
    assert ResidualLayer(GCNLayer(6, 6), 6, 3, dropout=0.1).attention.dropout == 0.1


@pytest.fixture(scope="module")
def packed():
    generator = torch.Generator().manual_seed(0)
    graphs = [
        Data(
            x=torch.randn(n, 3, generator=generator),
            edge_index=torch.randint(0, n, (2, 3 * n), generator=generator),
            edge_attr=torch.randn(3 * n, 2, generator=generator),
        )
        for n in (5, 8, 3)
    ]
    return with_encodings(PackedGraphs.from_data_list(graphs), ["rrwp:3", "lappe:2"])


def run(model, batch):
    encodings = {"node_encoding": batch.node_encoding, "edge_encoding": batch.edge_encoding}
    return model(batch.x, batch.edges, batch.edge_attr, batch.batch, batch.num_graphs, **encodings)


@pytest.mark.parametrize("norm", ["batch", "layer", "rms"])
@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_batches_and_padded_batches_change_nothing(packed, conv, norm):
    torch.manual_seed(0)
    options = {"rank": 3, "task": "graph", "block": "residual", "norm": norm, "readout": "max", "edge_channels": 2}
    model = lrga.GNN(3, 8, 2, 2, conv=conv, encoding=["rrwp:3", "lappe:2"], **options).double()
    model.node_encoding.has_signs = False  # random, and so not to be compared in training
    again, together = copy.deepcopy(model), packed.batch([0, 1, 2])
    wanted = run(model, together)  # statistics of BatchNorm over these rows
    state = {name: value.clone() for name, value in model.state_dict().items()}
    padded = packed.padded.gather(torch.tensor([0, 1, 2]), Capacity(40, 90))
    with known_segments(padded.segments):
        torch.testing.assert_close(run(again, padded)[:3], wanted)
    for name, value in again.state_dict().items():
        torch.testing.assert_close(value, state[name])
    model.eval()
    alone = torch.cat([run(model, packed.batch([i])) for i in range(3)])
    torch.testing.assert_close(run(model, together), alone)


def test_the_maximum_over_a_graph_and_zeros_where_there_is_no_node():
    h = torch.tensor([[1.0, -5.0], [3.0, -2.0], [-1.0, -4.0]], requires_grad=True)
    found = readout(h, Segments.from_batch(torch.tensor([0, 0, 2]), 3, 3), "max")
    assert found.tolist() == [[3.0, -2.0], [0.0, 0.0], [-1.0, -4.0]]
    found.sum().backward()
    assert h.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    assert readout(h, Segments(3, 1), "max").tolist() == [[3.0, -2.0]]


def test_a_network_without_attention_has_the_same_layers():
    with_attention = lrga.GNN(3, 8, 2, 2, conv="gine", rank=3, block="residual")
    without = lrga.GNN(3, 8, 2, 2, conv="gine", rank=None, block="residual")
    extra = {name for name, _ in with_attention.named_parameters()} - {name for name, _ in without.named_parameters()}
    assert all("attention" in name for name in extra)
    assert set(dict(without.named_parameters())) < set(dict(with_attention.named_parameters()))


def test_a_residual_network_compiles_without_a_graph_break(packed):
    torch.manual_seed(0)
    model = lrga.GNN(3, 8, 2, 1, conv="gine", rank=3, block="residual", encoding="rrwp:3,lappe:2", edge_channels=2)
    batch = Batch.from_data_list(packed.to_data_list())
    given = (batch.x, batch.edge_index, batch.edge_attr, batch.batch, 3)
    encodings = {"node_encoding": batch.node_encoding, "edge_encoding": batch.edge_encoding}
    compiled = torch.compile(model.eval(), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*given, **encodings), model(*given, **encodings))


@pytest.mark.parametrize("wrong", [{"preset": "2020"}, {"residual": False}])
def test_what_a_residual_block_has_not_is_refused(wrong):
    with pytest.raises(OptionError, match="block='residual'"):
        lrga.GNN(3, 8, 2, 1, block="residual", **wrong)
    with pytest.raises(OptionError, match="norm"):
        make_norm("group", 4)
