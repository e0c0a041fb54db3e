"""The layers of the benchmark are their formulas, written out node by node and edge by edge."""

import copy
import math

import pytest
import torch
from torch import nn
from torch_geometric.nn import GINEConv

from lrga.errors import OptionError, ShapeError
from lrga.models.gnn import CONVOLUTIONS
from lrga.nn import GatedGCNLayer, GATLayer, GCNLayer, GINELayer, GINLayer, SAGELayer
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.layers.gated_gcn import maps_at_once
from lrga.ops._triton import HAS_TRITON
from lrga.ops.neighbors.edges import EdgeLayout
from tests.helpers.kernels import padded

N, D, H = 7, 4, 2
# One-way edges, repeated edges, a node without edges; two graphs of 4 and 3 nodes.
EDGES = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5, 5], [1, 0, 0, 1, 0, 2, 5, 4, 4]])
BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 1])
SIZES = torch.tensor([4.0] * 4 + [3.0] * 3, dtype=torch.float64)[:, None]
SIZES_OF_EDGES = torch.tensor([6.0] * 6 + [3.0] * 3, dtype=torch.float64)[:, None]
CANCELLED = {"lin_a.bias", "lin_b.bias", "lin_c.bias"}  # a normalisation takes what a bias adds; rounding is left


def into(i):
    return [j for j, target in EDGES.t().tolist() if target == i]


def affine(lin, v):
    return lin.weight @ v + lin.bias


def normalised(h, norm):
    mean, var = (h.mean(0), h.var(0, correction=0)) if norm.training else (norm.running_mean, norm.running_var)
    return (h - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias


def gcn(layer, x):
    rows = []
    for i in range(N):
        total = torch.zeros_like(x[i])
        for j in into(i):
            out_degree = int((EDGES[0] == j).sum())
            total += x[j] / (len(into(i)) ** 0.5 * out_degree**0.5) if layer.preset == "2022" else x[j] / len(into(i))
        rows.append(affine(layer.lin, total))
    h = torch.stack(rows) / (SIZES.sqrt() if layer.preset == "2020" else 1)
    return x + normalised(h, layer.norm).clamp(min=0)


def gin(layer, x):
    rows = []
    for i in range(N):
        z = (1 + layer.eps) * x[i] + sum((x[j] for j in into(i)), torch.zeros_like(x[i]))
        rows.append(affine(layer.lin1, z))
    hidden = normalised(torch.stack(rows), layer.inner_norm).clamp(min=0)
    h = torch.stack([affine(layer.lin2, row) for row in hidden]) / (SIZES.sqrt() if layer.preset == "2020" else 1)
    return x + normalised(h, layer.norm).clamp(min=0)


def graphsage(layer, x):
    rows = []
    for i in range(N):
        own, pooled = x[i], torch.zeros_like(x[i])
        if layer.preset == "2022":
            pool = lambda v: affine(layer.pool, v).clamp(min=0)  # noqa: E731
            if into(i):
                pooled = torch.stack([pool(x[j]) for j in into(i)]).max(0).values
            own = pool(x[i]) if layer.pool_self else own
        elif into(i):
            pooled = sum(x[j] for j in into(i)) / len(into(i))
        z = affine(layer.lin, torch.cat([own, pooled]))
        rows.append((z / (z * z).sum().sqrt()).clamp(min=0))
    h = torch.stack(rows) / (SIZES.sqrt() if layer.preset == "2020" else 1)
    return x + normalised(h, layer.norm)


def gat(layer, x):
    width, slope = layer.out_channels, {"2022": 0.2, "2020": 0.01}[layer.preset]
    h = x.new_zeros(N, layer.heads * width)
    for head in range(layer.heads):
        columns = slice(head * width, (head + 1) * width)
        z = x @ layer.lin.weight[columns].t()
        for i in range(N):
            scores = [float(layer.att_source[head] @ z[j] + layer.att_target[head] @ z[i]) for j in into(i)]
            shares = [math.exp(score if score > 0 else slope * score) for score in scores]
            for j, share in zip(into(i), shares, strict=True):
                h[i, columns] += share / sum(shares) * z[j]
    h = normalised(h / (SIZES.sqrt() if layer.preset == "2020" else 1), layer.norm)
    h = torch.where(h > 0, h, h.exp() - 1)
    return x + h if layer.in_channels == layer.heads * width else h


LAYERS = {
    "gcn": (gcn, lambda preset: GCNLayer(D, D, preset=preset)),
    "gin": (gin, lambda preset: GINLayer(D, D, preset=preset)),
    "graphsage": (graphsage, lambda preset: SAGELayer(D, D, preset=preset)),
    "graphsage, own features pooled": (graphsage, lambda preset: SAGELayer(D, D, preset=preset, pool_self=True)),
    "gat": (gat, lambda preset: GATLayer(D, D // H, heads=H, preset=preset)),
    "gat of another width": (gat, lambda preset: GATLayer(D, 3, heads=H, preset=preset)),
}


def drawn(layer, training):
    """The layer in float64, with statistics and weights of its norms that are not the initial ones."""
    layer = layer.double().train(training)
    for norm in (module for module in layer.modules() if isinstance(module, nn.BatchNorm1d)):
        nn.init.normal_(norm.weight)
        norm.running_mean.normal_()
    if isinstance(layer, GINLayer):
        nn.init.constant_(layer.eps, 0.3)
    return layer


@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_the_benchmark_node_by_node(name, preset, training):
    definition, make = LAYERS[name]
    layer, x = drawn(make(preset), training), torch.randn(N, D, dtype=torch.float64)
    with torch.no_grad():
        expected = definition(layer, x)
        torch.testing.assert_close(layer(x, EDGES, batch=BATCH), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_dropout_changes_training_and_leaves_evaluation_alone(conv, preset):
    layer = CONVOLUTIONS[conv](8, 8, dropout=0.5, preset=preset, **({"heads": 1} if conv == "gat" else {}))
    x, edges, edge_attr = torch.randn(9, 8), torch.randint(0, 9, (2, 30)), torch.randn(30, 8)
    given = (x, edges, edge_attr) if conv in ("gatedgcn", "gine") else (x, edges)
    found = [layer.train(mode)(*given) for mode in (True, True, False, False)]
    one, two, three, four = (out[0] if isinstance(out, tuple) else out for out in found)
    assert not torch.equal(one, two)
    assert torch.equal(three, four)


def test_dropout_zeroes_the_result_or_in_sage_the_input_and_never_the_residual():
    layer = GCNLayer(8, 8, dropout=0.5, residual=False)
    layer.norm.momentum = 1.0  # evaluation normalises as the training step before it
    x, edge_index = torch.rand(50, 8), torch.randint(0, 50, (2, 400))
    zeros = [(layer.train(mode)(x, edge_index) == 0).float().mean() for mode in (True, False)]
    assert zeros[0] > 0.7  # half of what the ReLU let through
    assert zeros[1] < 0.6
    sage = SAGELayer(D, D, dropout=1.0, batch_norm=False).train()
    nn.init.zeros_(sage.lin.bias)
    nn.init.zeros_(sage.pool.bias)
    torch.testing.assert_close(sage(x[:, :D], edge_index), x[:, :D])


def test_without_normalisation_a_node_without_neighbours_gets_the_bias():
    layer = GCNLayer(D, 3, batch_norm=False)
    nn.init.constant_(layer.lin.bias, 0.5)
    out = layer(torch.randn(2, D), torch.tensor([[0], [1]]))
    torch.testing.assert_close(out[0], torch.full((3,), 0.5))


def test_reset_draws_other_weights_and_forgets_what_was_learned():
    layer = GCNLayer(4, 4)
    layer(torch.randn(6, 4), torch.randint(0, 6, (2, 9)))
    before = layer.lin.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.lin.weight, before)
    assert torch.equal(layer.norm.running_mean, torch.zeros(4))
    layer = GINLayer(D, D, batch_norm=False)
    assert layer.eps.item() == 0
    layer(torch.randn(N, D), torch.randint(0, N, (2, 9))).sum().backward()
    assert layer.eps.grad.abs() > 0
    nn.init.ones_(layer.eps)
    layer.reset_parameters()
    assert layer.eps.item() == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"preset": "2021"}, "'2022', '2020'"),
        ({"dropout": 1.5}, "between 0 and 1"),
        ({"in_channels": 0}, "in_channels"),
        ({"out_channels": -3}, "out_channels"),
    ],
)
def test_options_outside_their_range_are_refused(options, says):
    given = {"in_channels": 4, "out_channels": 4, "preset": "2022", "dropout": 0.0, "residual": True} | options
    with pytest.raises(OptionError, match=says):
        BenchmarkLayer(**given, batch_norm=True)


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("conv", ["gcn", "gat", "graphsage", "gin"])
def test_layers_on_the_kernels_give_the_values_and_gradients_of_the_definition(monkeypatch, conv, preset, device):
    if device == "cpu":  # in Triton's interpreter, which is never the automatic choice
        for module in ("neighbors.reduce", "gat.definition", "norm.definition"):
            monkeypatch.setattr(f"lrga.ops.{module}.runs_on_gpu", lambda *tensors: tensors[0].dtype != torch.float64)
    options = {"out_channels": 6 // H, "heads": H} if conv == "gat" else {"out_channels": 6}
    layer = CONVOLUTIONS[conv](6, preset=preset, **options).to(device)
    exact = copy.deepcopy(layer).double()
    x = torch.randn(9, 6, device=device)
    edges, _ = EdgeLayout.from_edge_index(torch.randint(0, N, (2, 30), device=device), 9)
    batch, upstream = torch.tensor([0] * 4 + [1] * 5, device=device), torch.randn(9, 6, device=device)
    results = []
    for kind, wide in ((layer, x), (exact, x.double())):
        given = wide.clone().requires_grad_()
        out = kind(given, edges, batch=batch, num_graphs=2)
        out.backward(upstream.to(out.dtype))
        results.append([out, given.grad, *(p.grad for p in kind.parameters()), *kind.norm.buffers()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a.to(b.dtype), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sorted_edges", [False, True])
def test_the_convolution_of_gine_is_that_of_pyg_with_its_gradients(sorted_edges):
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
    torch.testing.assert_close(torch.autograd.grad(got.square().sum(), (x, e)), wanted)


@pytest.mark.parametrize(
    ("kind", "edge_attr"),
    [(GINELayer, None), (GatedGCNLayer, None), (GatedGCNLayer, torch.randn(8, D)), (GatedGCNLayer, torch.randn(9, 5))],
)
def test_edge_features_that_do_not_fit_are_refused(kind, edge_attr):
    with pytest.raises(ShapeError, match=r"edge_attr of shape \[9, 4\]"):
        kind(D, D)(torch.randn(N, D), EDGES, edge_attr)


# GatedGCN, which updates edges too.


def gatedgcn(layer, x, edge_attr):
    e = torch.stack(
        [
            affine(layer.lin_c, edge_attr[k]) + affine(layer.lin_d, x[j]) + affine(layer.lin_e, x[i])
            for k, (j, i) in enumerate(EDGES.t().tolist())
        ]
    )
    rows = []
    for node in range(N):
        above, below = torch.zeros(2, D, dtype=x.dtype)
        for k, (j, i) in enumerate(EDGES.t().tolist()):
            if i == node:
                sigma = 1 / (1 + (-e[k]).exp())
                above = above + sigma * affine(layer.lin_b, x[j])
                below = below + sigma
        rows.append(affine(layer.lin_a, x[node]) + above / (below + 1e-6))
    h = torch.stack(rows)
    if layer.preset == "2020":
        h, e = h / SIZES.sqrt(), e / SIZES_OF_EDGES.sqrt()
    return x + normalised(h, layer.norm).clamp(min=0), edge_attr + normalised(e, layer.edge_norm).clamp(min=0)


@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("form", ["plain", "layout", "maps at once"])
def test_gated_gcn_equals_the_benchmark_edge_by_edge_with_its_gradients(preset, training, form):
    layer = drawn(GatedGCNLayer(D, D, preset=preset), training)
    x, edge_attr = (torch.randn(n, D, dtype=torch.float64, requires_grad=True) for n in (N, 9))
    expected = gatedgcn(layer, x, edge_attr)
    if form == "maps at once":  # as on a GPU
        layer._maps = lambda x, _: maps_at_once(x, (layer.lin_a, layer.lin_b, layer.lin_d, layer.lin_e))
    if form == "layout":
        layout, order = EdgeLayout.from_edge_index(EDGES, N)
        h, in_order = layer(x, layout, edge_attr[order], BATCH)
        found = h, torch.empty_like(in_order).index_copy(0, order, in_order)
    else:
        found = layer(x, EDGES, edge_attr, BATCH)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    given = [x, edge_attr, *layer.parameters()]
    ours, wanted = (torch.autograd.grad(sum(part.square().sum() for part in out), given) for out in (found, expected))
    torch.testing.assert_close(ours, wanted, rtol=1e-10, atol=1e-10)


def gates(layer, x, layout, edge_attr):
    return layer.lin_c(edge_attr) + layer.lin_d(x)[layout.source] + layer.lin_e(x)[layout.target]


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics_are_those_of_torchs_batch_norm(momentum):
    layer = GatedGCNLayer(D, D)
    layer.edge_norm.momentum = momentum
    peer = nn.BatchNorm1d(D, momentum=momentum)
    layout, _ = EdgeLayout.from_edge_index(EDGES, N)
    for _ in range(3):
        x, edge_attr = torch.randn(N, D), torch.randn(9, D)
        with torch.no_grad():
            peer(gates(layer, x, layout, edge_attr))
            layer(x, layout, edge_attr)
    torch.testing.assert_close(layer.edge_norm.running_mean, peer.running_mean)
    torch.testing.assert_close(layer.edge_norm.running_var, peer.running_var)
    assert layer.edge_norm.num_batches_tracked == 3


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("real", [0, 1, 9])
@pytest.mark.parametrize("training", [True, False])
def test_padded_edges_are_seen_by_no_statistic(momentum, real, training):
    torch.manual_seed(2)
    alone, filled = (GatedGCNLayer(D, D).double().train(training) for _ in range(2))
    filled.load_state_dict(alone.state_dict())
    for layer in (alone, filled):
        layer.edge_norm.momentum, layer.norm = momentum, None  # nodes are normalised elsewhere
    short, order = EdgeLayout.from_edge_index(EDGES[:, :real], N)
    layout = padded(short, 1, 4, counted=True)
    for _ in range(2):
        x, edge_attr = torch.randn(N + 1, D).double(), torch.randn(real + 4, D).double()
        h, e = alone(x[:N], short, edge_attr[:real])
        padded_h, padded_e = filled(x, layout, edge_attr)
        torch.testing.assert_close(padded_h[:N], h)
        torch.testing.assert_close(padded_e[:real], e)
        assert padded_e.isfinite().all()
    assert order.numel() == real
    for name, value in alone.edge_norm.state_dict().items():
        torch.testing.assert_close(filled.edge_norm.state_dict()[name], value)


@pytest.mark.gpu
def test_a_layer_on_a_gpu_calls_a_map_that_someone_looks_at():
    layer = GatedGCNLayer(D, D).cuda()
    seen = []
    layer.lin_d.register_forward_hook(lambda *_: seen.append(1))
    layer(torch.randn(N, D, device="cuda"), EDGES.cuda(), torch.randn(9, D, device="cuda"))
    assert seen


@pytest.mark.gpu
@pytest.mark.parametrize("channels", [45, 80])
def test_a_layer_on_a_gpu_learns_as_it_does_on_a_cpu(channels):
    torch.manual_seed(0)
    nodes = 1_500
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, nodes, (2, 12_000)), nodes)
    layer = GatedGCNLayer(channels, channels).double()
    x, edge_attr = torch.randn(nodes, channels).double(), torch.randn(12_000, channels).double()
    other = GatedGCNLayer(channels, channels).cuda()
    other.load_state_dict(layer.state_dict())
    found = []
    for module, on in ((layer, layout), (other, layout.to("cuda"))):
        like = next(module.parameters())
        h, e = module(x.to(like), on, edge_attr.to(like))
        (h.square().mean() + e.square().mean()).backward()
        found.append(
            [h.detach(), e.detach(), *(p.grad for name, p in module.named_parameters() if name not in CANCELLED)]
        )
    for wanted, value in zip(*found, strict=True):
        assert float((value.cpu() - wanted).norm()) <= 2e-3 * float(wanted.norm())
