import copy
import operator
import pickle

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer, GraphMaskExplainer

import lrga
from lrga.errors import (
    BatchContextError,
    BatchError,
    CheckpointError,
    DTypeError,
    OptionError,
    ShapeError,
    UnsupportedError,
)
from lrga.nn.augment import AugmentedConv
from tests.helpers.models import model_of

D, OUT = 6, 3


def graph_of(n):
    index = torch.arange(n)
    edge_index = torch.cat([torch.stack([index, (index + 1) % n]), torch.stack([(index + 1) % n, index])], 1)
    return Data(x=torch.randn(n, D), edge_index=edge_index, edge_attr=torch.rand(2 * n, 2))


@pytest.fixture
def graphs():
    return [graph_of(n) for n in (3, 7, 4)]


@pytest.fixture
def batch(graphs):
    return Batch.from_data_list(graphs)


class Loop(nn.Module):
    """A hand-written model: a loop, a conditional, attributes of its convolutions, a readout."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([pyg.GCNConv(D, 8), pyg.GATConv(8, 4, heads=2), pyg.SAGEConv(8, 8)])
        self.head = nn.Linear(8, OUT)

    def forward(self, data):
        x = data.x
        for i, conv in enumerate(self.convs):
            y = torch.relu(conv(x, data.edge_index))
            x = y + x if i and conv.out_channels else y
        return self.head(pyg.global_mean_pool(x, data.batch))


PNA_OPTIONS = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": torch.tensor([0, 0, 9])}
LIBRARY = [
    (pyg.GCN, {}),
    (pyg.GAT, {"heads": 2}),
    (pyg.GIN, {}),
    (pyg.GraphSAGE, {}),
    (pyg.PNA, PNA_OPTIONS),
    (pyg.GCN, {"jk": "cat", "norm": "batch_norm"}),
]


def check_batch_equals_alone(model, graphs, call):
    """Every graph alone gives what it gives within the batch, in float64."""
    model = model.double().eval()
    graphs = [g.clone().apply(lambda t: t.double() if t.is_floating_point() else t) for g in graphs]
    together = call(model, Batch.from_data_list(graphs))
    alone = torch.cat([call(model, Batch.from_data_list([g])) for g in graphs])
    assert together.shape == alone.shape
    assert (together - alone).norm() <= 1e-12 * alone.norm()


@pytest.mark.parametrize(("kind", "options"), LIBRARY)
def test_models_of_the_library(kind, options, graphs, batch):
    original = kind(D, 8, num_layers=3, out_channels=OUT, **options)
    model = lrga.augment(original, rank=4, heads=2, init="paper")
    assert sum(isinstance(m, AugmentedConv) for m in model.modules()) == 3
    out = model(batch.x, batch.edge_index, batch=batch.batch)
    assert out.shape == original(batch.x, batch.edge_index).shape == (14, OUT)
    out.sum().backward()
    check_batch_equals_alone(model, graphs, lambda m, b: m(b.x, b.edge_index, batch=b.batch))


def test_the_sequential_container(graphs):
    original = pyg.Sequential(
        "x, edge_index, batch",
        [
            (pyg.GCNConv(D, 8), "x, edge_index -> x"),
            nn.ReLU(),
            (pyg.GATConv(8, OUT, heads=2), "x, edge_index -> x"),
            (pyg.global_mean_pool, "x, batch -> x"),
        ],
    )
    model = lrga.augment(original, rank=4, init="paper")
    assert sum(isinstance(m, AugmentedConv) for m in model.modules()) == 2
    check_batch_equals_alone(model, graphs, lambda m, b: m(b.x, b.edge_index, b.batch))
    check_batch_equals_alone(model, graphs, lambda m, b: m(b.x, edge_index=b.edge_index, batch=b.batch))


def by_name(model, batch):
    return model(batch.x, batch.edge_index, batch=batch.batch)


def by_position(model, batch):
    return model(batch.x, batch.edge_index, batch.batch)


def calls_layers_by_kind(self, x, edge_index, batch):
    for layer in self.layers:
        x = layer(x, edge_index) if isinstance(layer, pyg.MessagePassing) else layer(x)
    return x


class Stack(nn.ModuleList):
    def forward(self, x, edge_index, batch):
        for conv in self:
            x = conv(x, edge_index)
        return x


HOSTS = {
    "a loop": (Loop, lambda model, batch: model(batch)),
    "by position": (
        lambda: model_of(
            lambda self, x, e, attr, batch=None: self.conv(x, e, attr), conv=pyg.GINEConv(nn.Linear(D, OUT), edge_dim=2)
        ),
        lambda model, batch: model(batch.x, batch.edge_index, batch.edge_attr, batch.batch),
    ),
    "by position only": (
        lambda: model_of(lambda self, x, e, /, batch: self.conv(x, e), conv=pyg.GCNConv(D, D)),
        by_position,
    ),
    "by keywords passed on": (
        lambda: model_of(lambda self, x, e, **more: self.gnn(x, e, **more), gnn=pyg.GCN(D, 8, 2, OUT)),
        by_name,
    ),
    "an inner network alone": (
        lambda: model_of(
            lambda self, given: self.encoder(given[0], given[1], batch=given[2]), encoder=pyg.GCN(D, 8, 2)
        ),
        lambda model, batch: model((batch.x, batch.edge_index, batch.batch)),
    ),
    "layers by their kind": (
        lambda: model_of(
            calls_layers_by_kind, layers=nn.ModuleList([pyg.GCNConv(D, 8), nn.ReLU(), pyg.GATConv(8, OUT)])
        ),
        by_position,
    ),
    "in the place of the convolution's own": (
        lambda: model_of(lambda self, x, e, batch: self.conv(x, e, None, batch), conv=pyg.ChebConv(D, OUT, K=2)),
        by_position,
    ),
    "a list with a forward": (lambda: Stack([pyg.GCNConv(D, D), pyg.GCNConv(D, D)]), by_position),
}


@pytest.mark.parametrize(("make", "call"), HOSTS.values(), ids=HOSTS)
def test_the_batch_is_found_wherever_a_model_of_ones_own_takes_it(make, call, graphs):
    check_batch_equals_alone(lrga.augment(make(), rank=4, init="paper"), graphs, call)


def test_an_augmented_convolution_is_of_its_own_kind_and_keeps_its_attributes():
    conv = lrga.augment(pyg.GCNConv(D, D), rank=3)
    assert isinstance(conv, pyg.GCNConv)
    assert isinstance(conv, AugmentedConv)
    assert isinstance(pickle.loads(pickle.dumps(conv)), AugmentedConv)
    conv = lrga.augment(pyg.GATConv(D, 4, heads=2), rank=3)
    assert conv.negative_slope == 0.2
    assert (conv.in_channels, conv.out_channels, conv.heads) == (D, 4, 2)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = conv.no_such_thing


def test_a_plain_data_is_one_graph(graphs):
    model = lrga.augment(Loop(), rank=4, init="paper").eval()
    torch.testing.assert_close(model(graphs[1]), model(Batch.from_data_list([graphs[1]])))


def test_the_attention_sees_the_whole_graph_and_nothing_else(batch):
    batch.x.requires_grad_()
    model = lrga.augment(pyg.GCN(D, 8, num_layers=1, out_channels=OUT), rank=8, init="paper")
    model(batch.x, batch.edge_index, batch=batch.batch)[5].sum().backward()
    reached = batch.x.grad.abs().sum(1) > 0
    assert reached[3:10].all()
    assert not reached[:3].any()
    assert not reached[10:].any()


def test_without_any_word_on_the_graphs_it_raises(graphs):
    model = lrga.augment(pyg.GCN(D, 8, 2, OUT), rank=4)
    with pytest.raises(BatchContextError, match="to the model.*no argument named `batch`.*batch_context.*single_graph"):
        model(graphs[0].x, graphs[0].edge_index)
    model(graphs[0].x, graphs[0].edge_index, batch=torch.zeros(3, dtype=torch.int64))
    with pytest.raises(BatchContextError):  # the call before has left nothing behind
        model(graphs[0].x, graphs[0].edge_index)


def test_a_context_tells_what_the_call_does_not(batch):
    model = lrga.augment(pyg.GCN(D, 8, 2, OUT), rank=4, init="paper").eval()
    expected = model(batch.x, batch.edge_index, batch=batch.batch)
    with lrga.batch_context(batch.batch, num_graphs=3):
        torch.testing.assert_close(model(batch.x, batch.edge_index), expected)
    with lrga.batch_context(None):
        one = model(batch.x, batch.edge_index)
    assert not torch.allclose(one, expected)
    single = lrga.augment(pyg.GCN(D, 8, 2, OUT), rank=4, single_graph=True).eval()
    single.load_state_dict(model.state_dict())
    torch.testing.assert_close(single(batch.x, batch.edge_index), one)
    with lrga.batch_context(None):  # a call says more than the context around it
        torch.testing.assert_close(model(batch.x, batch.edge_index, batch=batch.batch), expected)
    torch.testing.assert_close(single(batch.x, batch.edge_index, batch=batch.batch), expected)


def test_the_original_is_left_alone(batch):
    original = pyg.GCN(D, 8, 2, OUT)
    before = copy.deepcopy(original.state_dict())
    model = lrga.augment(original, rank=4)
    model(batch.x, batch.edge_index, batch=batch.batch).sum().backward()
    assert all(p.grad is None for p in original.parameters())
    assert original.state_dict().keys() == before.keys()
    original(batch.x, batch.edge_index)
    assert torch.equal(model.convs[0].conv.lin.weight, original.convs[0].lin.weight)


def test_precision_and_mode_follow_the_convolution_or_the_model(batch):
    model = lrga.augment(pyg.GCN(D, 8, 2, OUT).double().eval(), rank=4)
    assert all(p.dtype == torch.float64 for p in model.parameters())
    assert not any(m.training for m in model.modules())

    def forward(self, data):
        return self.conv(self.linear(data.x), data.edge_index)

    model = lrga.augment(model_of(forward, linear=nn.Linear(D, OUT), conv=pyg.SimpleConv()).double(), rank=3)
    batch.x = batch.x.double()
    assert model(batch).dtype == torch.float64


def test_convolutions_inside_gps_layers_are_augmented(batch):
    layer = lrga.augment(pyg.GPSConv(D, pyg.GCNConv(D, D), heads=2), rank=3)
    assert isinstance(layer.conv, AugmentedConv)
    assert layer(batch.x, batch.edge_index, batch.batch).shape == (14, D)


def test_layers_already_wrapped_and_convolutions_used_twice_stay_so():
    model = nn.ModuleList([lrga.LRGAConv(pyg.GCNConv(D, D), D, D, rank=2), pyg.GCNConv(D, D)])
    augmented = lrga.augment(model, rank=4)
    assert augmented[0].rank == 2
    assert isinstance(augmented[1], AugmentedConv)
    conv = pyg.GCNConv(D, D)
    model = lrga.augment(nn.ModuleDict({"first": conv, "second": conv}), rank=2)
    assert model["first"] is model["second"]


def test_nodes_that_change_within_the_model_are_noticed(batch):
    def forward(self, x, edge_index, batch):
        x, edge_index, _, batch, *_ = self.pool(x, edge_index, batch=batch)
        return self.conv(x, edge_index)

    model = model_of(forward, pool=pyg.SAGPooling(D, ratio=0.5), conv=pyg.GCNConv(D, OUT))
    with pytest.raises(BatchError, match="pooling"):
        lrga.augment(model, rank=3, init="paper")(batch.x, batch.edge_index, batch.batch)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_compute_the_same(duplicate, batch):
    model = lrga.augment(Loop(), rank=4, init="paper").eval()
    assert torch.equal(duplicate(model)(batch), model(batch))


def test_training_fits_a_target_that_needs_the_whole_graph():
    """The sum over each graph of isolated nodes: no convolution alone can know it."""
    x = torch.randn(60, D)
    batch = torch.arange(60) // 6
    empty = torch.empty(2, 0, dtype=torch.int64)
    target = torch.zeros(10, 1).index_add(0, batch, x[:, :1])[batch]
    model = lrga.augment(pyg.GCN(D, 16, 2, 1), rank=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(150):
        loss = nn.functional.mse_loss(model(x, empty, batch=batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize(
    ("module", "options", "error", "words"),
    [
        (nn.Linear(3, 3), {}, OptionError, "at least one PyG convolution"),
        (pyg.GCN, {}, DTypeError, "not its class"),
        (lrga.augment(pyg.GCN(D, D, 1, D), rank=2), {}, OptionError, "which is augmented already"),
        (pyg.GCNConv(D, D), {"ranks": 3}, OptionError, "ranks"),
        (pyg.GCNConv(D, D), {"heads": 0}, OptionError, "heads"),
        (pyg.LINKX(10, D, 8, OUT, num_layers=1), {}, OptionError, "takes no node features"),
    ],
)
def test_bad_options_are_refused_in_words(module, options, error, words):
    with pytest.raises(error, match=words):
        lrga.augment(module, rank=3, **options)


def test_heterogeneous_data_are_one_graph_or_need_a_batch_vector_for_each_node_type():
    def forward(self, data):
        return self.conv(data["a"].x, data["a", "a"].edge_index)

    data = HeteroData()
    data["a"].x, data["a", "a"].edge_index = torch.randn(2, D), torch.tensor([[0], [1]])
    model = lrga.augment(model_of(forward, conv=pyg.GCNConv(D, OUT)), rank=3, init="paper")
    with pytest.raises(UnsupportedError, match="to_homogeneous"):
        model(Batch.from_data_list([data, data]))
    alone = model(data)  # one graph, as a plain Data is
    torch.testing.assert_close(alone, model.conv(data["a"].x, data["a", "a"].edge_index, batch=None))
    data["a"].batch = torch.tensor([0, 1])  # as disjoint neighbour sampling sets it
    with pytest.raises(UnsupportedError, match="batch_dict"):
        model(data)


def test_a_call_with_two_node_sets_names_the_convolution_to_exclude():
    def forward(self, x, edge_index, batch):
        return self.second((self.first(x, edge_index), x[:2]), edge_index)

    model = model_of(forward, first=pyg.SAGEConv(D, D), second=pyg.SAGEConv(D, OUT))
    x, edge_index, batch = torch.ones(3, D), torch.tensor([[0, 2], [0, 1]]), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(UnsupportedError, match="bipartite.*exclude='second'"):
        lrga.augment(model, rank=3)(x, edge_index, batch)
    assert lrga.augment(model, rank=3, exclude="second")(x, edge_index, batch).shape == (2, OUT)


def test_a_call_that_fails_leaves_the_context_around_it(batch):
    model = lrga.augment(pyg.GCN(D, 8, 2, OUT), rank=4).eval()
    with lrga.batch_context(None), lrga.batch_context(batch.batch):
        expected = model(batch.x, batch.edge_index)
        with pytest.raises(DTypeError, match="list"):
            model(batch.x, batch.edge_index, batch=batch.batch.tolist())
        torch.testing.assert_close(model(batch.x, batch.edge_index), expected)


def test_other_methods_of_a_single_graph_model_work(graphs):
    model = lrga.augment(pyg.GAE(pyg.GCN(D, 8, 2)), rank=3, single_graph=True)
    assert model.encode(graphs[0].x, graphs[0].edge_index).shape == (3, 8)


def test_two_batches_of_different_graphs_in_one_call_are_refused_but_told_apart_in_its_parts(graphs):
    def forward(self, a, b):
        return self.conv(a.x, a.edge_index) - self.conv(b.x, b.edge_index)

    model = lrga.augment(model_of(forward, conv=pyg.GCNConv(D, OUT)), rank=3)
    one, other = Batch.from_data_list(graphs), Batch.from_data_list(graphs[::-1])
    assert model(one, one).abs().max() == 0
    with pytest.raises(BatchContextError, match="2 Data objects"):
        model(one, other)
    # The outer call has two batches; each call of the encoder within has one.
    siamese = model_of(lambda self, a, b: self.encoder(a) - self.encoder(b), encoder=Loop())
    model = lrga.augment(siamese, rank=3, init="paper").eval()
    torch.testing.assert_close(model(one, other), model.encoder(one) - model.encoder(other))


def test_a_plain_method_needs_a_context_and_the_error_names_it(batch):

    class Encoder(nn.ModuleDict):
        def encode(self, x, edge_index, batch):
            return self["conv"](x, edge_index)

    model = lrga.augment(Encoder({"conv": pyg.GCNConv(D, OUT)}), rank=3)
    with pytest.raises(BatchContextError, match="encode.*batch_context"):
        model.encode(batch.x, batch.edge_index, batch=batch.batch)
    with lrga.batch_context(batch.batch):
        assert model.encode(batch.x, batch.edge_index, batch=batch.batch).shape == (14, OUT)


# Which convolutions are augmented.


def augmented_in(model):
    return [name for name, module in model.named_modules() if isinstance(module, AugmentedConv)]


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([pyg.GCNConv(D, D), pyg.GATConv(D, D)])
        self.decoder = nn.ModuleList([pyg.GCNConv(D, D), pyg.SAGEConv(D, OUT)])

    def forward(self, x, edge_index, batch):
        for conv in (*self.encoder, *self.decoder):
            x = conv(x, edge_index)
        return x


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["encoder.0", "encoder.1", "decoder.0", "decoder.1"]),
        ({"include": pyg.GCNConv}, ["encoder.0", "decoder.0"]),
        ({"include": [pyg.GATConv, "decoder.1"]}, ["encoder.1", "decoder.1"]),
        ({"include": "encoder"}, ["encoder.0", "encoder.1"]),
        ({"include": "*.1"}, ["encoder.1", "decoder.1"]),
        ({"exclude": "decoder"}, ["encoder.0", "encoder.1"]),
        ({"exclude": (pyg.GCNConv, pyg.SAGEConv)}, ["encoder.1"]),
        ({"include": "encoder", "exclude": pyg.GCNConv}, ["encoder.1"]),
        ({"include": lambda conv: conv.out_channels == OUT}, ["decoder.1"]),
        ({"exclude": lambda name, conv: name.startswith("encoder")}, ["decoder.0", "decoder.1"]),
    ],
)
def test_convolutions_are_chosen_by_class_name_or_function(options, expected, batch):
    model = lrga.augment(Mixed(), rank=3, **options)
    assert augmented_in(model) == expected
    assert model(batch.x, batch.edge_index, batch.batch).shape == (14, OUT)


@pytest.mark.parametrize("options", [{"include": "encodr"}, {"exclude": pyg.GINEConv}, {"include": ["encoder", "x.y"]}])
def test_a_choice_that_matches_nothing_lists_what_there_is(options):
    with pytest.raises(OptionError, match=r"encoder\.0 \(GCNConv\).*decoder\.1 \(SAGEConv\)"):
        lrga.augment(Mixed(), rank=3, **options)


def test_excluding_everything_is_refused_and_modules_are_no_choice():
    with pytest.raises(OptionError, match="excluded"):
        lrga.augment(Mixed(), rank=3, exclude=pyg.MessagePassing)
    model = Mixed()
    with pytest.raises(DTypeError, match="a class, a name, a function"):
        lrga.augment(model, rank=3, exclude=model.encoder[0])
    assert augmented_in(lrga.augment(model, rank=3, include=lambda conv, width=OUT: conv.out_channels == width))
    assert augmented_in(lrga.augment(model, rank=3, include=operator.attrgetter("out_channels")))


class Host(nn.Module):
    """A convolution beside another module that has convolutions."""

    def __init__(self, other):
        super().__init__()
        self.conv, self.other = pyg.GCNConv(D, D), other


METADATA = (["a", "b"], [("a", "to", "b"), ("b", "to", "a"), ("a", "to", "a")])


class TwoLayers(nn.Module):
    def __init__(self, kind=pyg.SAGEConv):
        super().__init__()
        self.first, self.second = kind(D, D), kind(D, D)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize(
    "other",
    [
        lambda: pyg.HeteroConv({("a", "to", "a"): pyg.GCNConv(D, D), ("a", "to", "b"): pyg.SAGEConv((D, D), D)}),
        lambda: pyg.to_hetero(TwoLayers(pyg.GraphConv), METADATA),
        lambda: pyg.to_hetero_with_bases(TwoLayers(), METADATA, num_bases=2, in_channels={"x": D}),
        lambda: pyg.SAGEConv((D, D), OUT),
        lambda: pyg.HGTConv({"a": D}, D, (["a"], [("a", "to", "a")])),
        lambda: pyg.SAGPooling(D),
        lambda: pyg.ASAPooling(D),
    ],
)
def test_layers_of_two_node_sets_and_scorers_of_pooling_are_left_alone(other):
    assert augmented_in(lrga.augment(Host(other()), rank=2)) == ["conv"]


def test_what_is_left_alone_can_be_asked_for():
    assert augmented_in(lrga.augment(Host(pyg.SAGPooling(D)), rank=2, include="other")) == ["other.gnn"]
    with pytest.raises(OptionError, match=r"gnn: scores the nodes for SAGPooling.*include"):
        lrga.augment(pyg.SAGPooling(D), rank=2)


def test_the_readout_of_attentive_fp_is_left_alone(batch):
    model = pyg.AttentiveFP(D, 8, OUT, edge_dim=2, num_layers=2, num_timesteps=1).eval()
    augmented = lrga.augment(model, rank=3)
    assert augmented_in(augmented) == ["gate_conv", "atom_convs.0"]
    arguments = (batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    torch.testing.assert_close(augmented(*arguments), model(*arguments))


def test_printing_shows_what_was_augmented(batch):
    model = lrga.augment(Mixed(), rank=3, include="encoder")
    assert "AugmentedGCNConv(GCNConv(6, 6), 6, 6, rank=3, heads=1)" in str(model)
    assert str(model).count("Augmented") == 2
    several = lrga.augment(pyg.GATv2Conv(6, 8, heads=4), rank=3, heads=2)  # heads: the attention's
    assert str(several) == "AugmentedGATv2Conv(GATv2Conv(6, 8, heads=4), 6, 32, rank=3, heads=2)"
    named = lrga.augment(pyg.GCN(D, 8, 2, OUT), rank=3, exclude="convs.0")  # this model's own repr shows no layers
    assert str(named) == "GCN(6, 3, num_layers=2) with global attention in convs.1"
    table = pyg.summary(model, batch.x, batch.edge_index, batch.batch)
    assert table.count("AugmentedGCNConv") == 1
    assert "SAGEConv" in table


# How it starts.


@pytest.mark.parametrize(("kind", "options"), LIBRARY)
def test_an_augmented_model_starts_as_the_model_it_was(kind, options, batch):
    original = kind(D, 8, num_layers=3, out_channels=OUT, **options).eval()
    expected = original(batch.x, batch.edge_index)
    for model in (lrga.augment(original, rank=4, heads=2), lrga.augment(original, rank=0, skip=False)):
        torch.testing.assert_close(model(batch.x, batch.edge_index, batch=batch.batch), expected)


@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GAT, pyg.GIN, pyg.GraphSAGE])
def test_with_lazy_widths_it_starts_as_the_convolution_too(kind, batch):
    original = kind(-1, 8, num_layers=2, out_channels=OUT).eval()
    model = lrga.augment(original, rank=4)
    out = model(batch.x, batch.edge_index, batch=batch.batch)
    plain = {name.replace(".conv.", "."): value for name, value in model.state_dict().items()}
    original.load_state_dict(plain, strict=False)
    torch.testing.assert_close(out, original(batch.x, batch.edge_index))


def test_resetting_parameters_starts_as_a_convolution_again_unless_as_in_the_paper(batch):
    model = lrga.augment(pyg.GCN(D, 8, 2, OUT), rank=4).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    model.reset_parameters()
    x = torch.randn(14, D)
    torch.testing.assert_close(
        model.convs[0](x, batch.edge_index, batch=batch.batch), model.convs[0].conv(x, batch.edge_index)
    )
    torch.manual_seed(1)
    model = lrga.augment(pyg.GCNConv(D, OUT), rank=4, init="paper")
    assert (model.mix.weight == 0).sum() == 0


@pytest.mark.parametrize("option", [{"act": "relu"}, {"norm": "batch_norm"}])
def test_an_activation_or_norm_is_no_identity(option):
    with pytest.raises(OptionError, match="init='paper'"):
        lrga.augment(pyg.GCNConv(D, OUT), rank=4, **option)
    assert lrga.augment(pyg.GCNConv(D, OUT), rank=4, init="paper", **option) is not None


# Beside other tools.


def explain(model, algorithm, batch, **options):
    explainer = Explainer(
        model,
        algorithm,
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        **options,
    )
    return explainer(batch.x, batch.edge_index, batch=batch.batch)


def test_explainers_of_pyg_run_on_an_augmented_model_but_for_those_that_count_layers(batch):
    model = lrga.augment(pyg.GCN(D, 8, 2, OUT), rank=4, init="paper")
    for _ in range(2):  # the masks of the first explanation are gone in the second
        found = explain(model, GNNExplainer(epochs=3), batch, node_mask_type="attributes")
        assert found.edge_mask.shape == (28,)
        assert found.edge_mask.max() > 0
    with pytest.raises(UnsupportedError, match="GNNExplainer"):
        explain(model, GraphMaskExplainer(2, epochs=1, log=False), batch, node_mask_type="attributes")
    plain = pyg.GAT(D, 8, 2, OUT).eval()  # whose own attention is explained
    expected, found = (explain(m, AttentionExplainer(), batch) for m in (plain, lrga.augment(plain, rank=4)))
    torch.testing.assert_close(found.edge_mask, expected.edge_mask)


def test_a_plain_checkpoint_is_explained_or_loaded_by_its_names(batch):
    plain = pyg.GCN(D, 8, 2, OUT, norm="batch_norm")
    checkpoint = plain.state_dict()
    model = lrga.augment(pyg.GCN(D, 8, 2, OUT, norm="batch_norm"), rank=4)
    with pytest.raises(CheckpointError, match=r"of the model before lrga\.augment.*augment that.*strict=False"):
        model.load_state_dict(checkpoint)
    missing, unexpected = model.load_state_dict(checkpoint, strict=False)
    assert not unexpected
    assert all(".attention." in name or ".mix." in name for name in missing)
    expected = plain.eval()(batch.x, batch.edge_index)
    torch.testing.assert_close(model.eval()(batch.x, batch.edge_index, batch=batch.batch), expected)
    assert list(checkpoint) == list(plain.state_dict())  # the caller's dictionary stays as it was


class Nested(pyg.MessagePassing):
    """A convolution with a module named conv, whose parameters have the names of its own."""

    def __init__(self):
        super().__init__(aggr="mean")
        self.lin, self.conv = nn.Linear(D, D), nn.ModuleDict({"lin": nn.Linear(D, OUT)})

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.conv["lin"](self.lin(x)))


def test_a_plain_checkpoint_of_a_convolution_with_a_module_named_conv_loads(batch):
    plain, model = Nested(), lrga.augment(Nested(), rank=3, init="paper", single_graph=True)
    other = lrga.augment(Nested(), rank=3, single_graph=True)
    assert not model.load_state_dict(plain.state_dict(), strict=False).unexpected_keys
    torch.testing.assert_close(model.conv.state_dict(), plain.state_dict())
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(batch.x, batch.edge_index), model(batch.x, batch.edge_index))


class OwnAttention(pyg.MessagePassing):
    """A convolution with methods and attributes that the layer around it has as well."""

    def __init__(self):
        super().__init__(aggr="mean")
        self.lin, self.calls = nn.Linear(D, OUT), 0

    def attention(self, x):
        self.calls += 1
        return self.lin(x)

    def extra_repr(self):
        return "own"

    def train(self, mode=True):
        self.calls = 0
        return super().train(mode)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.attention(x))

    @property
    def norm(self):
        return "own"


def test_a_convolution_with_attributes_of_the_same_names_keeps_them(batch):
    conv = OwnAttention()
    model = lrga.augment(conv, rank=3, single_graph=True)
    torch.testing.assert_close(model(batch.x, batch.edge_index), conv(batch.x, batch.edge_index))
    assert isinstance(model, OwnAttention)
    assert model.calls == 1
    model.calls = 5
    assert model.conv.calls == 5
    assert model.aggr == "mean"
    copied = pickle.loads(pickle.dumps(model))
    assert torch.equal(copied(batch.x, batch.edge_index), model(batch.x, batch.edge_index))


class OwnParts(pyg.MessagePassing):
    """A convolution whose own attributes have the names of the layer's."""

    def __init__(self):
        super().__init__(aggr="mean")
        self.norm, self.act, self.skip, self.attention = nn.LayerNorm(D), nn.ReLU(), 2.0, False

    def forward(self, x, edge_index):
        return self.skip * x + self.act(self.norm(self.propagate(edge_index, x=x)))


@pytest.mark.parametrize(
    "make",
    [
        OwnParts,
        lambda: pyg.ARMAConv(D, D),
        lambda: pyg.FiLMConv(D, D),
        lambda: pyg.GeneralConv(D, D),
        lambda: pyg.ResGatedGraphConv(D, D),
    ],
)
def test_attributes_of_a_convolution_are_not_overwritten(make, batch):
    conv = make().eval()
    model = lrga.augment(conv, rank=3)
    torch.testing.assert_close(
        model(batch.x, batch.edge_index, batch=batch.batch), conv(batch.x, batch.edge_index), rtol=1e-5, atol=1e-6
    )
    assert list(model.conv.state_dict()) == list(conv.state_dict())


def test_convolutions_in_plain_lists_are_replaced_too(graphs, batch):
    def forward(self, x, edge_index, batch):
        for conv in self.order:
            x = conv(x, edge_index)
        return x

    first, second = pyg.GCNConv(D, D), pyg.GCNConv(D, OUT)
    hidden = {"_order": [first], "_names": ["first"]}
    host = model_of(forward, first=first, second=second, order=[first, second], by_name={"first": (first,)}, **hidden)
    vars(host)["_last"] = second
    model = lrga.augment(host, rank=3, init="paper")
    assert model.order[0] is model.by_name["first"][0] is model._order[0] is model.first
    assert model._last is model.second
    assert model._names == ["first"]
    assert type(host._order[0]) is pyg.GCNConv
    check_batch_equals_alone(model, graphs, by_position)
    with pytest.raises(BatchContextError):
        model.order[0](batch.x.double(), batch.edge_index)


class Dynamic(pyg.EdgeConv):
    """Finds its own edges, as DynamicEdgeConv does: the batch vector is its second argument."""

    def forward(self, x, batch=None):
        a, b = torch.combinations(torch.arange(x.size(0))).t()
        same = slice(None) if batch is None else batch[a] == batch[b]
        return super().forward(x, torch.stack([a, b])[:, same])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda conv, rank: lrga.augment(conv, rank, init="paper"),
        lambda conv, rank: lrga.LRGAConv(conv, D, OUT, rank=rank),
    ],
)
def test_a_batch_vector_in_the_place_of_edges_is_used(wrap, graphs, batch):
    layer = wrap(Dynamic(nn.Linear(2 * D, OUT)), rank=3).eval()
    alone = [layer(graph.x, torch.zeros(graph.num_nodes, dtype=torch.int64)) for graph in graphs]
    torch.testing.assert_close(layer(batch.x, batch.batch), torch.cat(alone))


@pytest.mark.parametrize(
    ("conv", "x"),
    [
        (pyg.RGCNConv(5, OUT, 1), None),
        (pyg.DNAConv(8), torch.randn(5, 2, 8)),
        (pyg.GCNConv(D, OUT), torch.randn(2, 5, D)),
        (pyg.LabelPropagation(2, 0.5), torch.zeros(5, dtype=torch.int64)),
    ],
)
def test_features_that_are_no_matrix_name_the_convolution_to_exclude(conv, x):
    model = lrga.augment(Host(conv), rank=2)
    with pytest.raises(ShapeError, match=r"x of shape \[N, D\].*exclude='other'"):
        model.other(x, torch.tensor([[0], [1]]), batch=None)


def test_a_model_can_be_augmented_on_the_meta_device(batch):
    with torch.device("meta"):
        model = lrga.augment(pyg.GCN(D, 8, 2, OUT), rank=4)
    model = model.to_empty(device="cpu")
    model.reset_parameters()
    assert model(batch.x, batch.edge_index, batch=batch.batch).isfinite().all()


def test_lazy_widths_taken_under_inference_mode_can_be_trained(batch):
    model = lrga.augment(pyg.GCN(-1, 8, 2, OUT), rank=4)
    with torch.inference_mode():
        model(batch.x, batch.edge_index, batch=batch.batch)
    model(batch.x, batch.edge_index, batch=batch.batch).sum().backward()
