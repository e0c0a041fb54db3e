import pytest
import torch

from lrga.errors import ShapeError
from lrga.nn.layers.gated_gcn import GatedGCNLayer, maps_at_once
from lrga.ops.neighbors.edges import EdgeLayout

N, D = 7, 4
EDGES = torch.tensor([[0, 1, 1, 2, 2, 0, 4, 5, 5], [1, 0, 0, 1, 0, 2, 5, 4, 4]])
CANCELLED = {"lin_a.bias", "lin_b.bias", "lin_c.bias"}  # a normalisation takes what a bias adds; rounding is left
BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 1])


def normalised(h, norm, training):
    mean, var = (h.mean(0), h.var(0, correction=0)) if training else (norm.running_mean, norm.running_var)
    return (h - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias


def by_loops(layer, x, edge_attr):
    """The layer of the benchmark, edge by edge and node by node."""
    of = lambda lin, v: lin.weight @ v + lin.bias  # noqa: E731
    edges = EDGES.t().tolist()
    e = torch.stack(
        [
            of(layer.lin_c, edge_attr[k]) + of(layer.lin_d, x[j]) + of(layer.lin_e, x[i])
            for k, (j, i) in enumerate(edges)
        ]
    )
    rows = []
    for node in range(N):
        above, below = torch.zeros(2, D, dtype=x.dtype)
        for k, (j, i) in enumerate(edges):
            if i == node:
                sigma = 1 / (1 + (-e[k]).exp())
                above = above + sigma * of(layer.lin_b, x[j])
                below = below + sigma
        rows.append(of(layer.lin_a, x[node]) + above / (below + 1e-6))
    h = torch.stack(rows)
    if layer.preset == "2020":
        h = h / torch.tensor([4.0] * 4 + [3.0] * 3, dtype=x.dtype).sqrt()[:, None]
        e = e / torch.tensor([6.0] * 6 + [3.0] * 3, dtype=x.dtype).sqrt()[:, None]
    h = normalised(h, layer.norm, layer.training)
    e = normalised(e, layer.edge_norm, layer.training)
    return x + h.clamp(min=0), edge_attr + e.clamp(min=0)


@pytest.mark.parametrize("preset", ["2022", "2020"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("form", ["plain", "layout"])
def test_layer_equals_the_benchmark_edge_by_edge(preset, training, form):
    layer = GatedGCNLayer(D, D, preset=preset).double().train(training)
    for norm in (layer.norm, layer.edge_norm):
        torch.nn.init.normal_(norm.weight)
        norm.running_mean.normal_()
    x, edge_attr = torch.randn(N, D, dtype=torch.float64), torch.randn(9, D, dtype=torch.float64)
    with torch.no_grad():
        expected_h, expected_e = by_loops(layer, x, edge_attr)
        if form == "plain":
            h, e = layer(x, EDGES, edge_attr, BATCH)
        else:
            layout, order = EdgeLayout.from_edge_index(EDGES, N)
            h, in_order = layer(x, layout, edge_attr[order], BATCH)
            e = torch.empty_like(in_order).index_copy(0, order, in_order)
    torch.testing.assert_close(h, expected_h, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(e, expected_e, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics_are_those_of_torchs_batch_norm(momentum):
    layer = GatedGCNLayer(D, D)
    layer.edge_norm.momentum = momentum
    peer = torch.nn.BatchNorm1d(D, momentum=momentum)
    layout, _ = EdgeLayout.from_edge_index(EDGES, N)
    for _ in range(3):
        x, edge_attr = torch.randn(N, D), torch.randn(9, D)
        with torch.no_grad():
            peer(layer.lin_c(edge_attr) + layer.lin_d(x)[layout.source] + layer.lin_e(x)[layout.target])
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
    tail = torch.full((4,), N)
    layout = EdgeLayout(
        torch.cat([short.source, tail]),
        torch.cat([short.target, tail]),
        N + 1,
        torch.cat([short.in_ptr, short.in_ptr[-1:]]),
        torch.cat([short.out_order, torch.arange(real, real + 4)]),
        torch.cat([short.out_ptr, short.out_ptr[-1:]]),
        valid_edges=torch.tensor(real),
    )
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


def test_the_maps_of_nodes_at_once_are_those_one_by_one():
    layer = GatedGCNLayer(D, 3)
    maps = (layer.lin_a, layer.lin_b, layer.lin_d, layer.lin_e)
    x = torch.randn(N, D, requires_grad=True)
    upstream = [torch.randn(N, 3) for _ in maps]
    found = []
    for results in (maps_at_once(x, maps), [lin(x) for lin in maps]):
        assert [y.shape for y in results] == [(N, 3)] * 4
        found.append(
            [*results, *torch.autograd.grad(results, [x, *(p for m in maps for p in m.parameters())], upstream)]
        )
    for at_once, alone in zip(*found, strict=True):
        torch.testing.assert_close(at_once, alone)


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


def test_another_normalisation_may_stand_in_for_that_of_the_edges():
    layer = GatedGCNLayer(D, D).eval()
    layer.edge_norm = torch.nn.Identity()
    x, edge_attr = torch.randn(N, D), torch.randn(9, D)
    layout, _ = EdgeLayout.from_edge_index(EDGES, N)
    _, e = layer(x, layout, edge_attr)
    gate = layer.lin_c(edge_attr) + layer.lin_d(x)[layout.source] + layer.lin_e(x)[layout.target]
    torch.testing.assert_close(e, edge_attr + gate.relu())


@pytest.mark.parametrize("edges", [0, 1])
def test_training_on_a_graph_of_one_edge_or_none_is_finite(edges):
    layer = GatedGCNLayer(D, D).train()
    x = torch.randn(N, D, requires_grad=True)
    h, e = layer(x, EDGES[:, :edges], torch.randn(edges, D))
    (h.sum() + e.sum()).backward()
    assert h.isfinite().all()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("edge_attr", [None, torch.randn(8, D), torch.randn(9, D + 1)])
def test_edge_features_that_do_not_fit_are_refused(edge_attr):
    with pytest.raises(ShapeError, match=r"\[9, 4\]"):
        GatedGCNLayer(D, D)(torch.randn(N, D), EDGES, edge_attr)
