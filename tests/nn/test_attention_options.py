"""The paper's attention and its options (``qk_norm``, ``normalize="rms"``, the gate) beside their formulas."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCN, GCNConv

import lrga
from lrga.errors import OptionError
from lrga.models.link import LinkGNN
from lrga.nn.layers.gcn import GCNLayer
from lrga.nn.layers.lrga import LRGALayer
from lrga.ops.attention.segments import Segments
from tests.helpers.models import model_of

OPTIONS = {
    "paper": {},
    "row": {"normalize": "row"},
    "qk_norm": {"qk_norm": True},
    "rms": {"normalize": "rms"},
    "gate": {"gate": True},
    "qk_norm and rms": {"qk_norm": True, "normalize": "rms"},
    "qk_norm and gate": {"qk_norm": True, "gate": True},
    "gate by row": {"gate": True, "normalize": "row"},
}
EDGES = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])


@pytest.fixture(params=OPTIONS)
def options(request):
    return OPTIONS[request.param]


def attention_with(options, heads=2, backend="auto", dtype=torch.float64, rank=3, **more):
    module = lrga.LowRankGlobalAttention(6, rank, heads=heads, backend=backend, **options, **more).to(dtype)
    if module.gate is not None:
        nn.init.normal_(module.gate)
    return module


def by_formula(module, x):
    """One graph, head after head, from the formulas of the docstring: every matrix written out."""
    n, eps, out = len(x), module.eps, []
    maps = torch.relu(x @ module.project.weight.T + module.project.bias).view(n, module.heads, 4, module.rank)
    for head in range(module.heads):
        u, v, z, m4 = maps[:, head].unbind(1)
        if module.qk_norm:
            u = u / (u.square().mean(1, keepdim=True) + eps).sqrt()
            v = v / (v.square().mean(1, keepdim=True) + eps).sqrt()
        matrix = u @ v.T
        if module.normalize in ("graph", "rms"):
            matrix = matrix / (matrix.sum() / n + eps)
        elif module.normalize == "row":
            rows = matrix.sum(1, keepdim=True)
            matrix = torch.where(rows > eps, matrix / rows.clamp(min=eps), 0.0)
        attended = matrix @ z
        if module.normalize == "rms":
            attended = attended / (attended.square().mean(1, keepdim=True) + eps).sqrt()
        if module.gate is not None:
            g = torch.sigmoid(module.gate[head])
            attended = ((1 - g) * z + g * attended) / ((1 - g) + g * matrix.sum(1, keepdim=True) + eps)
        out += [attended, m4]
    return torch.cat(out, dim=1)


def gradients(function, module, x):
    x = x.detach().requires_grad_()
    out = function(x)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), [x, *module.parameters()])]


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("backend", ["dense", "segmented"])
def test_result_and_gradients_are_those_of_the_formula(options, backend, heads):
    module = attention_with(options, heads, backend)
    batch = torch.tensor([0, 2, 0, 2, 2, 3, 0, 2])  # graph 1 and 4 are empty, 3 has one node
    x = torch.randn(8, 6, dtype=torch.float64)

    def alone(x):
        out = x.new_zeros(8, heads * 6)
        for graph in (0, 2, 3):
            out = out.index_copy(0, (batch == graph).nonzero().squeeze(1), by_formula(module, x[batch == graph]))
        return out

    ours, exact = gradients(lambda x: module(x, batch, 5), module, x), gradients(alone, module, x)
    torch.testing.assert_close(ours, exact, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("heads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_triton_kernels_give_the_same(heads):
    """In Triton's interpreter where there is no GPU; the kernels for graphs of a batch."""
    pytest.importorskip("triton")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch = torch.tensor([0, 2, 0, 2, 2, 3, 0], device=device)
    x = torch.randn(7, 6, device=device)
    for name in ("qk_norm", "rms", "qk_norm and gate"):
        ours = attention_with(OPTIONS[name], heads, "triton", torch.float32).to(device)
        exact = attention_with(OPTIONS[name], heads, "dense").to(device)
        exact.load_state_dict(ours.state_dict())
        found = gradients(lambda x, ours=ours: ours(x, batch, 5), ours, x)
        expected = gradients(lambda x, exact=exact: exact(x, batch, 5), exact, x.double())
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("backend", ["dense", "segmented"])
def test_a_graph_never_reaches_another(options, backend, poison):
    module = attention_with(options, backend=backend)
    batch = torch.tensor([0, 1, 0, 1, 1, 0])
    x = torch.randn(6, 6, dtype=torch.float64)
    poisoned = torch.where((batch == 1).unsqueeze(1), poison, x).requires_grad_()
    out, healthy = module(poisoned, batch, 2), batch == 0
    assert torch.equal(out[healthy], module(x, batch, 2)[healthy])
    out[healthy].sum().backward()
    assert poisoned.grad[healthy].isfinite().all()


def test_padding_changes_nothing(options):
    """As in a captured step: fixed capacities, the rows beyond the nodes in a graph of their own."""
    module = attention_with(options)
    batch, x = torch.tensor([0, 0, 0, 1, 1]), torch.randn(5, 6, dtype=torch.float64)
    padded_batch = torch.cat([batch, torch.full((4,), 2)])
    segments = Segments.from_ptr(torch.tensor([0, 3, 5, 9]), padded_batch)
    padded = torch.cat([x, torch.zeros(4, 6, dtype=torch.float64)]).requires_grad_()
    out = module(padded, segments)
    torch.testing.assert_close(out[:5], module(x, batch), rtol=1e-12, atol=1e-14)
    out[:5].sum().backward()
    assert padded.grad[5:].count_nonzero() == 0


def test_no_nodes_one_node_and_dead_maps_are_finite(options):
    module = attention_with(options)
    assert module(torch.zeros(0, 6, dtype=torch.float64), torch.zeros(0, dtype=torch.int64), 3).shape == (0, 12)
    one = torch.randn(1, 6, dtype=torch.float64)
    torch.testing.assert_close(module(one), by_formula(module, one))
    nn.init.zeros_(module.project.weight)
    nn.init.constant_(module.project.bias, -1.0)
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    out = module(x, torch.tensor([0, 0, 1, 1, 3]), 6)
    assert out.count_nonzero() == 0
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in (x, *module.parameters()))


def test_zero_rows_of_u_and_v_stay_zero_with_finite_gradients():
    from lrga.ops.attention import attend

    u, v, z = (torch.rand(4, 2, 3, dtype=torch.float64).requires_grad_() for _ in range(3))
    dead = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64).view(4, 1, 1)
    for more in ({"qk_norm": True}, {"qk_norm": True, "normalize": "rms"}):
        out = attend(u * dead, v * dead, z, Segments(4, 1), **more)
        assert out[::2].count_nonzero() == 0
        assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), (u, v, z)))
    gate = torch.zeros(2, dtype=torch.float64)
    local = attend(u * dead, v, z, Segments(4, 1), gate=gate)[::2]
    torch.testing.assert_close(local, z[::2], rtol=1e-5, atol=0)  # nodes with u = 0 keep their own z


def test_derivatives_of_both_orders_are_right(options):
    module = attention_with(options, heads=1, rank=2)
    batch = torch.tensor([0, 2, 0, 2, 2])
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    names, parameters = zip(*module.named_parameters(), strict=True)

    def run(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x, batch, 4))

    assert torch.autograd.gradcheck(run, (x, *parameters))
    assert torch.autograd.gradgradcheck(lambda x: module(x, batch, 4), (x,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_adds_in_float32(options, dtype):
    """3,000 nodes, whose sums overflow float16 and stand still in bfloat16."""
    half = attention_with(options, dtype=torch.float32).to(dtype)
    exact = copy.deepcopy(half).double()
    x = (1 + torch.rand(3000, 6)).to(dtype)
    with torch.no_grad():
        for module in (half, exact):
            module.project.weight.abs_()
        for batch in (None, torch.arange(3000) // 2900):
            ours, expected = half(x, batch), exact(x.double(), batch)
            assert ours.dtype == dtype
            torch.testing.assert_close(ours.double(), expected, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("options", [*OPTIONS.values(), {"normalize": None}], ids=str)
def test_factors_are_the_attention_matrix(options, heads):
    module = attention_with(options, heads)
    x, batch = torch.randn(9, 6, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 1, 0, 1, 1, 1])
    u, v = module.factors(x, batch)
    assert u.shape == v.shape == ((9, 3) if heads == 1 else (9, heads, 3))
    u, v = u.view(9, heads, 3), v.view(9, heads, 3)
    z = torch.relu(module.project(x)).view(9, heads, 4, 3)[:, :, 2]
    out = module(x, batch).view(9, heads, 2, 3)[:, :, 0]
    # The gate's shares add up to 1 - eps.
    tolerance = {} if module.gate is None else {"rtol": 1e-5, "atol": 1e-6}
    for graph in (0, 1):
        nodes = batch == graph
        matrix = torch.einsum("ihk,jhk->hij", u[nodes], v[nodes])
        attended = torch.einsum("hij,jhz->ihz", matrix, z[nodes])
        if module.gate is not None:
            attended = attended + (1 - matrix.sum(-1)).T.unsqueeze(-1) * z[nodes]
        torch.testing.assert_close(attended, out[nodes], **tolerance)


def test_factors_of_custom_maps_include_the_options():
    maps = [tuple(nn.Sequential(nn.Linear(6, k), nn.Softplus()) for k in (2, 2, 4, 1)) for _ in range(2)]
    for name in ("qk_norm and rms", "qk_norm and gate"):
        module = lrga.LowRankGlobalAttention(6, 0, heads=2, maps=maps, **OPTIONS[name]).double()
        x = torch.randn(5, 6, dtype=torch.float64)
        u, v = module.factors(x)
        for head, (start, (_, _, m3, _)) in enumerate(zip((0, 5), maps, strict=True)):
            matrix, z = u[:, head] @ v[:, head].T, m3(x)
            own = (1 - matrix.sum(1, keepdim=True)) * z if module.gate is not None else 0
            torch.testing.assert_close(matrix @ z + own, module(x)[:, start : start + 4], rtol=1e-5, atol=1e-6)


def test_a_gate_begins_half_open_learns_closes_to_own_values_and_opens_to_rows_that_sum_to_one():
    module = lrga.LowRankGlobalAttention(6, 3, heads=2, gate=True)
    assert module.gate.tolist() == [0.0, 0.0]
    module(torch.randn(5, 6)).square().sum().backward()
    assert (module.gate.grad != 0).all()
    nn.init.ones_(module.gate)
    module.reset_parameters()
    assert module.gate.tolist() == [0.0, 0.0]
    module = attention_with({"gate": True}, heads=1)
    x = torch.randn(7, 6, dtype=torch.float64)
    z = torch.relu(module.project(x))[:, 6:9]
    nn.init.constant_(module.gate, -1000.0)
    torch.testing.assert_close(module(x)[:, :3], z, rtol=2e-6, atol=0)
    nn.init.constant_(module.gate, 1000.0)
    by_row = attention_with({"normalize": "row"}, heads=1)
    by_row.load_state_dict({k: value for k, value in module.state_dict().items() if k != "gate"})
    torch.testing.assert_close(module(x), by_row(x), rtol=1e-4, atol=1e-5)
    nn.init.constant_(module.gate, 0.3)
    assert (module(x)[:, :3] <= z.max(0).values).all()


def test_without_a_gate_the_state_dict_is_the_papers():
    for more in ({}, {"qk_norm": True}, {"normalize": "rms"}):
        assert list(lrga.LowRankGlobalAttention(6, 3, **more).state_dict()) == ["project.weight", "project.bias"]
    assert not lrga.LowRankGlobalAttention(6, 0, gate=True).state_dict()
    torch.manual_seed(1)
    plain = lrga.LowRankGlobalAttention(6, 3)
    torch.manual_seed(1)
    gated = lrga.LowRankGlobalAttention(6, 3, gate=True)
    assert torch.equal(plain.project.weight, gated.project.weight)


def test_repr_names_the_options():
    module = lrga.LowRankGlobalAttention(16, 30, qk_norm=True, gate=True)
    assert repr(module) == "LowRankGlobalAttention(16, rank=30, heads=1, qk_norm=True, gate=True)"
    assert "heads=1, normalize='rms')" in repr(lrga.LRGAConv(GCNConv(4, 4), 4, 4, rank=2, normalize="rms"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"qk_norm": "yes"}, "qk_norm to be True or False"),
        ({"gate": 0.5}, "gate to be True or False"),
        ({"gate": True, "normalize": "rms"}, "'graph' or 'row', got 'rms'.*bounded"),
        ({"gate": True, "normalize": None}, "'graph' or 'row', got None"),
        ({"qk_norm": True, "eps": 0.0}, "eps above 0 with qk_norm=True"),
        ({"normalize": "rms", "eps": 0}, "eps above 0 with normalize='rms'"),
    ],
)
def test_bad_options_are_refused_in_words(options, words):
    with pytest.raises(OptionError, match=words):
        lrga.LowRankGlobalAttention(6, 3, **options)


def attention_modules(model):
    return [module for module in model.modules() if isinstance(module, lrga.LowRankGlobalAttention)]


def test_options_reach_every_attention():
    chosen = {"qk_norm": True, "gate": True, "normalize": "row"}
    models = [
        lrga.LRGAConv(GCNConv(4, 4), 4, 4, rank=2, **chosen),
        lrga.augment(GCN(4, 4, num_layers=2), rank=2, **chosen),
        LRGALayer(GCNLayer(4, 4), 4, 2, attention_options=chosen),
        lrga.GNN(4, 8, 2, 2, rank=2, attention_options=chosen),
        LinkGNN(4, 4, 2, rank=2, attention_options=chosen),
    ]
    for model in models:
        found = attention_modules(model)
        assert found
        assert all(a.qk_norm and a.gate is not None and a.normalize == "row" for a in found)
    out = models[1](torch.randn(4, 4), EDGES, batch=torch.tensor([0, 0, 1, 1]))
    assert torch.equal(out.isfinite(), torch.ones(4, 4, dtype=torch.bool))


@pytest.mark.parametrize(("given", "words"), [({"heads": 2}, "among normalize"), ("rms", "to be a dict")])
def test_unknown_options_of_a_network_are_refused_in_words(given, words):
    with pytest.raises(OptionError, match=words):
        lrga.GNN(4, 8, 2, 2, rank=2, attention_options=given)


def test_options_compile_without_breaks_and_export():
    model = nn.Sequential(*(lrga.LowRankGlobalAttention(6, 3, **OPTIONS[n]) for n in ("qk_norm and gate", "rms")))
    x, batch = torch.randn(7, 6), torch.tensor([0, 0, 1, 1, 1, 2, 2])

    def forward(self, x, batch):
        return torch.cat([attention(x, batch, 3) for attention in self.attention], dim=1)

    both = model_of(forward, attention=model)
    expected = both(x, batch)
    compiled = torch.compile(both, fullgraph=True, backend="eager", dynamic=True)
    torch.testing.assert_close(compiled(x, batch), expected)
    nodes = torch.export.Dim("nodes", min=2)
    exported = torch.export.export(both, (x, batch), dynamic_shapes=({0: nodes}, {0: nodes}))
    more = torch.randn(9, 6), torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2])
    torch.testing.assert_close(exported.module()(*more), both(*more))
