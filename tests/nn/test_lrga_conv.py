import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric import nn as pyg
from torch_geometric.utils import to_torch_csr_tensor

import lrga
from lrga.errors import BatchContextError, DeviceError, DTypeError, OptionError, ShapeError, UnsupportedError
from tests.helpers.models import model_of

N, D = 12, 6


@pytest.fixture
def graph():
    x = torch.randn(N, D)
    batch = torch.arange(N) // 4
    edge_index = torch.stack([torch.arange(N), torch.arange(N) // 4 * 4 + (torch.arange(N) + 1) % 4])
    return x, edge_index, batch


class PairConv(nn.Module):
    """A convolution that updates edges as well, as GatedGCN does."""

    def __init__(self):
        super().__init__()
        self.node, self.edge = nn.Linear(D, 5), nn.Linear(3, 3)

    def forward(self, x, edge_index, edge_attr):
        messages = self.node(x)[edge_index[0]] * edge_attr.mean(-1, keepdim=True)
        return torch.zeros(len(x), 5).index_add(0, edge_index[1], messages), self.edge(edge_attr)


@pytest.mark.parametrize("options", [{}, {"rank": 0}, {"skip": False}, {"norm": None, "act": None}], ids=str)
def test_the_layer_is_equation_one(graph, options):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, **({"rank": 3} | options)).eval()
    parts = [x] if options.get("skip", True) else []
    parts += [layer.attention(x, batch)] if options.get("rank", 3) else []
    expected = layer.mix(torch.cat([*parts, layer.conv(x, edge_index)], -1))
    expected = expected if "norm" in options else layer.norm(torch.relu(expected))
    torch.testing.assert_close(layer(x, edge_index, batch=batch), expected)


CALLS = [
    (lambda: pyg.GCNConv(D, 5), {"edge_weight": torch.rand(N)}),
    (lambda: pyg.GATConv(D, 5, heads=3), {}),
    (lambda: pyg.GATConv(D, 5, heads=3, concat=False, edge_dim=2), {"edge_attr": torch.rand(N, 2)}),
    (lambda: pyg.GINEConv(nn.Linear(D, 4), edge_dim=2), {"edge_attr": torch.rand(N, 2)}),
    (lambda: pyg.NNConv(D, 5, nn.Linear(2, 30)), {"edge_attr": torch.rand(N, 2)}),
    (lambda: pyg.RGCNConv(D, 5, 3), {"edge_type": torch.arange(N) % 3}),
    (lambda: pyg.SAGEConv(-1, 5), {}),
    (lambda: pyg.GATConv(-1, 5, heads=2), {}),
    (lambda: pyg.APPNP(2, 0.1), {}),
]


@pytest.mark.parametrize(("make", "extra"), CALLS)
def test_any_convolution_can_be_wrapped(make, extra, graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(make(), D, 7, rank=3)
    out = layer(x, edge_index, batch=batch, **extra)
    assert out.shape == (N, 7)
    out.sum().backward()
    assert all(p.grad is not None for p in layer.attention.parameters())


def test_extra_arguments_reach_the_convolution_by_position(graph):
    x, edge_index, batch = graph
    weight = torch.rand(N)
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3).eval()
    torch.testing.assert_close(
        layer(x, edge_index, weight, batch=batch), layer(x, edge_index, edge_weight=weight, batch=batch)
    )
    assert not torch.allclose(layer(x, edge_index, weight, batch=batch), layer(x, edge_index, batch=batch))


def test_pairs_and_attention_weights_are_passed_on(graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(PairConv(), D, 7, rank=3)
    edge_attr = torch.rand(N, 3)
    out, edges = layer(x, edge_index, edge_attr, batch=batch)
    assert out.shape == (N, 7)
    assert torch.equal(edges, layer.conv(x, edge_index, edge_attr)[1])
    layer = lrga.LRGAConv(pyg.GATConv(D, 5), D, 7, rank=3)
    out, (_, alpha) = layer(x, edge_index, batch=batch, return_attention_weights=True)
    assert out.shape == (N, 7)
    assert alpha.shape[1] == 1


@pytest.mark.parametrize(
    "convert",
    [lambda e: to_torch_csr_tensor(e.flip(0), size=(N, N)), lambda e: EdgeIndex(e, sparse_size=(N, N))],
    ids=["sparse", "EdgeIndex"],
)
def test_other_forms_of_the_edges_are_passed_on(graph, convert):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3).eval()
    torch.testing.assert_close(layer(x, convert(edge_index), batch=batch), layer(x, edge_index, batch=batch))


def test_lazy_widths_are_taken_from_the_first_call(graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(-1, 5), -1, 7, rank=3)
    assert layer(x, edge_index, batch=batch).shape == (N, 7)
    assert layer.mix.in_features == D + 6 + 5
    twin = lrga.LRGAConv(pyg.GCNConv(-1, 5), -1, 7, rank=3)
    twin.load_state_dict(layer.state_dict())
    torch.testing.assert_close(twin.eval()(x, edge_index, batch=batch), layer.eval()(x, edge_index, batch=batch))


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm", "graph_norm", None, "module"])
def test_normalisations_by_name_or_module(norm, graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3, norm=pyg.GraphNorm(7) if norm == "module" else norm)
    assert layer(x, edge_index, batch=batch).shape == (N, 7)


def test_graph_norm_sees_the_graphs(graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3, norm="graph_norm", act=None)
    out = layer(x, edge_index, batch=batch)
    alone = layer(x[:4], edge_index[:, :4], batch=None)
    torch.testing.assert_close(out[:4], alone)


def test_activations_by_name_or_module(graph):
    x, edge_index, batch = graph
    out = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3, norm=None, act="elu")(x, edge_index, batch=batch)
    assert out.min() < 0
    out = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3, norm=None, act=nn.Sigmoid())(x, edge_index, batch=batch)
    assert 0 < out.min() < out.max() < 1


def test_dropout_is_on_the_attention_only(graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3, dropout=1.0, norm=None, act=None)
    silent = lrga.LRGAConv(layer.conv, D, 7, rank=0, norm=None, act=None)
    silent.mix.weight.data = torch.cat([layer.mix.weight[:, :D], layer.mix.weight[:, -5:]], 1).data
    silent.mix.bias = layer.mix.bias
    torch.testing.assert_close(layer(x, edge_index, batch=batch), silent(x, edge_index, batch=batch))


def test_a_batch_equals_each_graph_alone(graph):
    x, edge_index, batch = (t.double() if t.is_floating_point() else t for t in graph)
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3, heads=2).double().eval()
    out = layer(x, edge_index, batch=batch, num_graphs=3)
    for g in range(3):
        mine = slice(4 * g, 4 * g + 4)
        alone = layer(x[mine], edge_index[:, mine] - 4 * g, batch=None)
        assert (out[mine] - alone).norm() <= 1e-12 * alone.norm()


@pytest.mark.parametrize("bipartite", [(torch.ones(2, D), torch.ones(3, D)), (torch.ones(2, D), None)])
def test_bipartite_input_is_refused(bipartite):
    with pytest.raises(UnsupportedError, match="bipartite"):
        lrga.LRGAConv(pyg.SAGEConv((D, D), 5), D, 7, rank=3)(bipartite, torch.tensor([[0], [0]]))


def test_a_convolution_whose_width_or_number_of_rows_changed_is_refused(graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3)
    layer.conv = pyg.GCNConv(D, 4)
    with pytest.raises(ShapeError, match="5 columns.*4 columns"):
        layer(x, edge_index, batch=batch)
    pooling = model_of(lambda self, x, edge_index: x[:2])
    with pytest.raises(ShapeError, match="one row per node"):
        lrga.LRGAConv(pooling, D, 7, rank=3)(torch.ones(5, D), torch.tensor([[0], [1]]), batch=None)


def test_a_convolution_that_tells_graphs_apart_is_told(graph):
    x, edge_index, batch = (t.double() if t.is_floating_point() else t for t in graph)
    inner = pyg.GPSConv(D, pyg.GCNConv(D, D), heads=2, norm=None)
    layer = lrga.LRGAConv(inner, D, 7, rank=3, norm=None).double().eval()
    out = layer(x, edge_index, batch=batch)
    torch.testing.assert_close(out[:4], layer(x[:4], edge_index[:, :4], batch=None))
    torch.testing.assert_close(layer(x, edge_index, batch, batch=batch), out)  # told by the caller already


def test_one_node_can_be_trained_on():
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3)
    out = layer(torch.randn(1, D), torch.empty(2, 0, dtype=torch.int64), batch=None)
    out.sum().backward()
    assert out.isfinite().all()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"norm": "fancy"}, OptionError, "norm.*fancy.*graph_norm"),
        ({"act": "fancy"}, OptionError, "act.*fancy"),
        ({"conv": pyg.GCNConv}, DTypeError, "instance"),
        ({"out_channels": 0}, OptionError, "out_channels"),
        ({"rank": -3}, OptionError, "rank"),
        ({"conv": pyg.GCNConv(12, 5)}, ShapeError, r"\[N, 6\].*GCNConv.*\[N, 12\].*in_channels=12"),
    ],
)
def test_bad_options_are_refused_in_words(options, error, words):
    with pytest.raises(error, match=words):
        lrga.LRGAConv(**({"conv": pyg.GCNConv(D, 5), "in_channels": D, "out_channels": 7, "rank": 3} | options))


def test_mixed_devices_and_precisions_are_refused_in_words(graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3)
    with pytest.raises(DeviceError, match="x on cpu, batch on meta"):
        layer(x, edge_index, batch=batch.to("meta"))
    with pytest.raises(DeviceError, match="x on meta"):
        layer(x.to("meta"), edge_index, batch=batch)
    with pytest.raises(DTypeError, match="float32, the dtype of the parameters.*float64"):
        layer(x.double(), edge_index, batch=batch)


REMEDIES = r"batch=data\.batch.*batch=None.*provide_batch\(model\).*batch_context.*single_graph=True"


def test_without_a_batch_vector_a_layer_raises_and_names_the_remedies(graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3)
    with pytest.raises(BatchContextError, match=REMEDIES):
        layer(x, edge_index)
    assert layer(x, edge_index, batch=None).shape == (N, 7)
    assert layer(x, edge_index, batch=batch).shape == (N, 7)


@pytest.mark.parametrize("single_graph", [False, True])
@pytest.mark.parametrize("kind", [pyg.GCNConv, pyg.SAGEConv])  # which would take it for edge weights and for sizes
def test_a_batch_vector_by_position_is_met_by_the_same_error(graph, kind, single_graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(kind(D, 5), D, 7, rank=3, single_graph=single_graph)
    with pytest.raises(BatchContextError, match=f"a positional vector.*{kind.__name__}.*{REMEDIES}"):
        layer(x, edge_index, batch)
    for same in (batch, batch.clone()):
        with lrga.batch_context(same), pytest.raises(BatchContextError, match="a positional vector"):
            layer(x, edge_index, batch)


def test_integers_of_each_node_by_position_reach_the_convolution(graph):
    x, edge_index, batch = graph
    conv = pyg.HEATConv(D, 5, num_node_types=2, num_edge_types=2, edge_type_emb_dim=2, edge_dim=1, edge_attr_emb_dim=2)
    node_type, edge_type, edge_attr = torch.arange(N) % 2, torch.arange(N) % 2, torch.rand(N, 1)
    layer = lrga.LRGAConv(conv, D, 7, rank=3).eval()
    expected = layer(x, edge_index, node_type, edge_type, edge_attr, batch=batch)
    with lrga.batch_context(batch):
        torch.testing.assert_close(layer(x, edge_index, node_type, edge_type, edge_attr), expected)


def test_a_layer_takes_the_batch_vector_from_the_context_or_is_for_one_graph(graph):
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3).eval()
    expected = layer(x, edge_index, batch=batch)
    with lrga.batch_context(batch):
        torch.testing.assert_close(layer(x, edge_index), expected)
        one = layer(x, edge_index, batch=None)  # one graph, whatever the context says
    assert not torch.allclose(one, expected)
    x, edge_index, batch = graph
    layer = lrga.LRGAConv(pyg.GCNConv(D, 5), D, 7, rank=3, single_graph=True).eval()
    torch.testing.assert_close(layer(x, edge_index), layer(x, edge_index, batch=None))
    assert not torch.allclose(layer(x, edge_index), layer(x, edge_index, batch=batch))
    with lrga.batch_context(batch):  # what is said goes before what is assumed
        torch.testing.assert_close(layer(x, edge_index), layer(x, edge_index, batch=batch))


def test_inside_gps_layers_graphs_do_not_mix(graph):
    x, edge_index, batch = (t.double() if t.is_floating_point() else t for t in graph)
    edge_attr = torch.rand(N, 2, dtype=torch.float64)
    conv = lrga.LRGAConv(pyg.GINEConv(nn.Linear(D, D), edge_dim=2), D, D, rank=3)
    gps = pyg.GPSConv(D, conv, attn_type="multihead").double().eval()
    with pytest.raises(BatchContextError, match="provide_batch"):
        gps(x, edge_index, batch, edge_attr=edge_attr)
    gps = lrga.provide_batch(gps)
    together = gps(x, edge_index, batch, edge_attr=edge_attr)
    alone = gps(x[:4], edge_index[:, :4], batch[:4], edge_attr=edge_attr[:4])
    assert (together[:4] - alone).norm() <= 1e-12 * alone.norm()


def test_inside_heterogeneous_layers_each_node_type_has_its_batch_vector(graph):
    x, edge_index, batch = (t.double() if t.is_floating_point() else t for t in graph)
    edge_type = ("a", "to", "a")
    layer = pyg.HeteroConv({edge_type: lrga.LRGAConv(pyg.GCNConv(D, D), D, D, rank=3)}).double().eval()
    with pytest.raises(BatchContextError, match="LRGAConv without `batch`"):
        layer({"a": x}, {edge_type: edge_index})
    together = layer({"a": x}, {edge_type: edge_index}, batch_dict={"a": batch})["a"]
    alone = layer({"a": x[:4]}, {edge_type: edge_index[:, :4]}, batch_dict={"a": batch[:4]})["a"]
    assert (together[:4] - alone).norm() <= 1e-12 * alone.norm()
