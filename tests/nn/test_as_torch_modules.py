"""Hooks, pruning, parametrisations and replaced modules inside our modules, as inside PyTorch's own."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations, prune
from torch_geometric.nn import GCNConv, GPSConv
from torch_geometric.nn.dense.linear import Linear as PyGLinear

import lrga
from lrga.errors import ShapeError
from lrga.models.embeddings import MatrixFactorization
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor
from lrga.nn.gps import GPSAttention
from lrga.nn.linear import is_plain
from lrga.ops.neighbors.edges import EdgeLayout

pytestmark = pytest.mark.filterwarnings(  # of PyTorch, where the input of a module needs no gradient
    "ignore:Full backward hook is firing:UserWarning"
)
WIDTH, NODES = 8, 11
BATCH = torch.tensor([0] * 4 + [1] * 6 + [2])
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 4, 1], [1, 2, 3, 0, 5, 6, 7, 8, 9, 4, 5, 6, 3]])
CONVOLUTIONS = ("gcn", "gat", "gatedgcn", "graphsage", "gin")
LINEAR = (nn.Linear, PyGLinear)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def gnn(conv, task, **options):
    model = lrga.GNN(WIDTH, WIDTH, 3, 2, conv=conv, rank=3, heads=2 if conv == "gat" else 1, task=task, **options)
    return model, lambda m, x: m(x, EDGES.to(x.device), None, BATCH.to(x.device), 3)


def layout_on(device):
    return EdgeLayout.from_edge_index(EDGES.to(device), NODES)[0]


def link_model():
    model = LinkModel(LinkGNN(WIDTH, WIDTH, 2, rank=3), LinkPredictor(WIDTH, WIDTH, 2), num_nodes=NODES)
    return model, lambda m, x: m.score(m.encode(None, layout_on(x.device)), EDGES[:, :5].to(x.device))


def factorization():
    model = MatrixFactorization(NODES, WIDTH)
    return model, lambda m, x: m.score(m.encode(None), EDGES[:, :5].to(x.device))


def own_maps():
    return tuple(nn.Sequential(nn.Linear(WIDTH, width), nn.Softplus()) for width in (3, 3, 5, 2))


def gps():
    model = GPSConv(WIDTH, GCNConv(WIDTH, WIDTH))
    model.attn = GPSAttention(WIDTH, rank=3)
    return model, lambda m, x: m(x, EDGES.to(x.device), batch=BATCH.to(x.device))


CASES = {
    **{conv: (lambda c=conv: gnn(c, "edge" if c == "gatedgcn" else "node")) for conv in CONVOLUTIONS},
    **{f"{conv} of 2020": (lambda c=conv: gnn(c, "graph", preset="2020")) for conv in ("gatedgcn", "graphsage")},
    "categories": lambda: (
        lrga.GNN(28, WIDTH, 1, 1, conv="gatedgcn", rank=2, task="graph", encoder="embedding"),
        lambda m, x: m(torch.arange(NODES, device=x.device), EDGES.to(x.device), None, BATCH.to(x.device), 3),
    ),
    "several categories": lambda: (
        lrga.GNN((28, 4), WIDTH, 1, 1, conv="gcn", rank=2, task="graph", encoder="embeddings"),
        lambda m, x: m(
            torch.arange(2 * NODES, device=x.device).view(-1, 2) % 4, EDGES.to(x.device), None, BATCH.to(x.device), 3
        ),
    ),
    "attention": lambda: (lrga.LowRankGlobalAttention(WIDTH, 3, heads=2), lambda m, x: m(x, BATCH.to(x.device), 3)),
    "attention of own maps": lambda: (
        lrga.LowRankGlobalAttention(WIDTH, 3, heads=2, maps=[own_maps(), own_maps()]),
        lambda m, x: m(x, BATCH.to(x.device), 3),
    ),
    "convolution": lambda: (
        lrga.LRGAConv(GCNConv(WIDTH, WIDTH), WIDTH, WIDTH, 3),
        lambda m, x: m(x, EDGES.to(x.device), batch=BATCH.to(x.device), num_graphs=3),
    ),
    "links": link_model,
    "links by GraphSAGE": lambda: (LinkGNN(WIDTH, WIDTH, 2, conv="graphsage"), lambda m, x: m(x, layout_on(x.device))),
    "factorization": factorization,
    "gps": gps,
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def prepared(case, device):
    """A model, a function that calls it, features, and how exact results are."""
    model, call = case()
    exact = device == "cpu"
    dtype = torch.float64 if exact else torch.float32
    for module in model.modules():  # nothing random, so that two calls can be compared
        if hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0.0
    x = torch.randn(NODES, WIDTH, dtype=dtype, device=device, requires_grad=True)
    tolerance = {"rtol": 1e-9, "atol": 1e-10} if exact else {"rtol": 2e-3, "atol": 2e-3}
    return model.to(device, dtype), call, x, tolerance


def with_parameters(model):
    """The modules that have parameters of their own: each takes part in a call."""
    return {name: module for name, module in model.named_modules() if any(True for _ in module.parameters(False))}


def gradients(model, out):
    parameters = [p for p in model.parameters() if p.requires_grad]
    return torch.autograd.grad(out.square().sum(), parameters, allow_unused=True)


def test_copies_pickles_and_state_dicts_give_the_same(case):
    model, call, x, _ = prepared(case, "cpu")
    call(model.train(), x)  # for statistics that are not the initial ones
    expected = call(model.eval(), x)
    loaded = case()[0].to(x)
    loaded.load_state_dict(model.state_dict())
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded.eval()):
        assert torch.equal(call(twin, x), expected)


def test_reset_draws_every_weight_anew_and_restores_the_statistics(case):
    model, call, x, _ = prepared(case, "cpu")
    call(model.train(), x)
    drawn = {name: p.clone() for name, p in model.named_parameters() if p.dim() > 1}
    model.reset_parameters()
    assert all(not torch.equal(p, drawn[name]) for name, p in model.named_parameters() if name in drawn)
    assert all(not value.any() for name, value in model.named_buffers() if "running_mean" in name)


def test_every_hook_of_every_module_fires_and_keeps_what_it_was_given(case, device):
    model, call, x, tolerance = prepared(case, device)
    expected = call(copy.deepcopy(model), x)
    modules = with_parameters(model)
    fired = {kind: set() for kind in ("pre", "forward", "backward pre", "backward")}
    kept = []

    def keep(name, out):
        fired["forward"].add(name)
        kept.append((out, out.detach().clone()))

    for name, module in modules.items():
        module.register_forward_pre_hook(lambda *_, name=name: fired["pre"].add(name))
        module.register_forward_hook(lambda m, args, out, name=name: keep(name, out[0] if type(out) is tuple else out))
        module.register_full_backward_pre_hook(lambda *_, name=name: fired["backward pre"].add(name))
        module.register_full_backward_hook(lambda *_, name=name: fired["backward"].add(name))
    out = call(model, x)
    torch.testing.assert_close(out, expected, **tolerance)
    out.square().sum().backward()
    learning = {
        name for name, m in modules.items() if any(p.grad is not None for p in m._parameters.values() if p is not None)
    }
    for kind, names in fired.items():
        wanted = learning if "backward" in kind else set(modules)
        assert names == wanted, f"{wanted - names} without {kind}"
    assert len(learning) >= len(modules) - 1  # nothing reads the edges of the last layer
    for given, as_it_was in kept:
        assert torch.equal(given, as_it_was)


def test_global_hooks_see_every_module(case, device):
    for register in (
        torch_module.register_module_forward_pre_hook,
        torch_module.register_module_forward_hook,
        torch_module.register_module_full_backward_pre_hook,
        torch_module.register_module_full_backward_hook,
    ):
        model, call, x, tolerance = prepared(case, device)
        expected = call(copy.deepcopy(model), x)
        seen = set()
        with register(lambda module, *_, seen=seen: seen.add(id(module))):
            out = call(model, x)
            out.square().sum().backward()
        torch.testing.assert_close(out, expected, **tolerance)
        for name, module in with_parameters(model).items():
            assert id(module) in seen or name.endswith("edge_norm"), (register.__name__, name)


def test_pruned_models_train(case, device):
    model, call, x, _ = prepared(case, device)
    linear = [module for module in model.modules() if isinstance(module, LINEAR) and module._parameters]
    for module in linear:
        prune.random_unstructured(module, "weight", amount=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = [module.weight_orig.detach().clone() for module in linear]
    for _ in range(3):
        optimizer.zero_grad()
        call(model, x).square().sum().backward()
        optimizer.step()
    for module, old in zip(linear, before, strict=True):
        assert module.weight_orig.grad is not None
        assert not module.weight_orig.grad[module.weight_mask == 0].any()
        assert torch.equal(module.weight_orig[module.weight_mask == 0], old[module.weight_mask == 0])
        prune.remove(module, "weight")
        assert (module.weight == 0).sum() >= module.weight.numel() // 2
    call(model, x)


@pytest.mark.parametrize("parametrize", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_parametrised_weights_are_the_ones_used(case, device, parametrize):
    model, call, x, tolerance = prepared(case, device)
    model.eval()
    linear = [module for module in model.modules() if isinstance(module, LINEAR) and module._parameters]
    for module in linear:
        parametrize(module)
    plain, _ = case()
    plain = plain.to(x).eval()
    state = {name: value for name, value in model.state_dict().items() if "parametrizations" not in name}
    names = {id(module): name for name, module in model.named_modules()}
    for module in linear:
        prefix = f"{names[id(module)]}." if names[id(module)] else ""
        state[f"{prefix}weight"] = module.weight.detach()
        if module.bias is not None:
            state[f"{prefix}bias"] = module.bias.detach()
    plain.load_state_dict(state)
    torch.testing.assert_close(call(model, x), call(plain, x), **tolerance)
    originals = [p for name, p in model.named_parameters() if "parametrizations" in name]
    assert originals
    assert all(g is not None for g in torch.autograd.grad(call(model, x).square().sum(), originals))


class Adapter(nn.Module):
    """LoRA: the linear map and a product of two thin ones. Neither its widths nor a weight can be asked for."""

    def __init__(self, lin):
        super().__init__()
        self.calls, weight = 0, lin.weight
        self.lin = lin.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, weight.size(1)).to(weight))
        self.up = nn.Parameter(torch.zeros(weight.size(0), 2).to(weight))

    def forward(self, x):
        self.calls += 1
        return self.lin(x) + x @ self.down.t() @ self.up.t()


class Quantized(nn.Module):
    """Like PyTorch's quantised modules: the weight is a method, the map is in 8 bits."""

    def __init__(self, lin):
        super().__init__()
        self.scale = float(lin.weight.detach().abs().max() / 127)
        self.register_buffer("packed", (lin.weight.detach() / self.scale).round().to(torch.int8))
        self.calls, self.bias = 0, lin.bias

    def weight(self):
        return self.packed * self.scale

    def forward(self, x):
        self.calls += 1
        return nn.functional.linear(x, self.weight().to(x.dtype), self.bias)


def replace_linear(model, make):
    """Puts ``make(linear)`` in the place of each linear map of ours; PyG's convolutions read those inside them."""
    made = []
    for name, module in list(model.named_modules()):
        parent_name, _, own = name.rpartition(".")
        parent = model.get_submodule(parent_name)
        foreign = type(parent).__module__.startswith("torch_geometric")
        if isinstance(module, LINEAR) and own and not foreign:
            made.append(make(module))
            parent._modules[own] = made[-1]
    return made


WITH_LINEAR = [name for name in CASES if name != "links by GraphSAGE"]


@pytest.mark.parametrize("name", WITH_LINEAR)
def test_adapters_and_quantised_maps_in_the_place_of_linear_ones_are_called(name, device):
    model, call, x, tolerance = prepared(CASES[name], device)
    expected, adapted, rounded = call(copy.deepcopy(model), x), copy.deepcopy(model), copy.deepcopy(model)
    adapters, quantized = replace_linear(adapted, Adapter), replace_linear(model, Quantized)
    adapted_out, out = call(adapted, x), call(model, x)
    assert [module.calls for module in (*adapters, *quantized)] == [1] * 2 * len(adapters) != []
    torch.testing.assert_close(adapted_out, expected, **tolerance)  # they begin by changing nothing
    adapted_out.square().sum().backward()
    assert all(adapter.up.grad is not None for adapter in adapters)
    for module in rounded.modules():  # linear maps of the same numbers
        if isinstance(module, LINEAR):
            module.weight.data = Quantized(module).weight().to(module.weight.dtype)
    inside_pyg = any(isinstance(module, LINEAR) for module in model.modules())  # which were not quantised
    if not inside_pyg:
        torch.testing.assert_close(out, call(rounded, x), **tolerance)


NORMS = [
    lambda norm: nn.Identity(),
    lambda norm: nn.GroupNorm(2, norm.num_features),
    lambda norm: nn.BatchNorm1d(norm.num_features),
    lambda norm: nn.BatchNorm1d(norm.num_features, affine=False),
    lambda norm: type(norm)(norm.num_features, affine=False),
    lambda norm: type(norm)(norm.num_features, track_running_stats=False),
]


@pytest.mark.parametrize(
    ("conv", "make"), [*(("gatedgcn", make) for make in NORMS), *((conv, NORMS[1]) for conv in CONVOLUTIONS)]
)
def test_norms_are_replaced_by_other_modules(conv, make, device):
    model, call, x, tolerance = prepared(lambda: gnn(conv, "node"), device)
    norms = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.BatchNorm1d)]
    called = set()
    for name, norm in norms:
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, make(norm).to(x))
    again = copy.deepcopy(model)
    for name, _ in norms:
        again.get_submodule(name).register_forward_hook(lambda *_, name=name: called.add(name))
    out = call(model, x)
    torch.testing.assert_close(out, call(again, x), **tolerance)
    assert called == {name for name, _ in norms}
    assert all(g is None or g.isfinite().all() for g in gradients(model, out))
    model.reset_parameters()


def test_a_forward_that_a_subclass_or_an_object_overrides_is_called(case, device):
    model, call, x, _ = prepared(case, device)
    replaced = copy.deepcopy(model)
    expected = call(copy.deepcopy(model), x)
    for module in model.modules():
        if type(module) in (nn.Linear, PyGLinear):
            module.__class__ = type("Shifted", (type(module),), {"forward": shifted})
    assert not torch.allclose(call(model, x), expected)
    for module in replaced.modules():  # and a forward replaced on the object
        if type(module) in (nn.Linear, PyGLinear):
            module.forward = lambda x, plain=module.forward: plain(x) + 1.0
    torch.testing.assert_close(call(replaced, x), call(model, x))


def shifted(self, x):
    return super(type(self), self).forward(x) + 1.0


class Traced(torch.Tensor):
    """A tensor subclass as quantisation libraries put it in the place of a weight."""


def test_what_is_not_plain():
    lin = nn.Linear(2, 2)
    assert is_plain(lin, nn.Linear)
    assert not is_plain(lin, nn.Bilinear, nn.Conv1d)
    assert not is_plain(None, nn.Linear)
    compiled, subclassed, uninitialized = nn.Linear(2, 2), nn.Linear(2, 2), PyGLinear(-1, 2)
    compiled.compile(backend="eager")
    subclassed.weight = nn.Parameter(torch.zeros(2, 2).as_subclass(Traced))
    for module in (compiled, subclassed, uninitialized, torch.compile(lin, backend="eager")):
        assert not is_plain(module, nn.Linear, PyGLinear)


def test_a_projection_of_another_width_is_refused():
    attention = lrga.LowRankGlobalAttention(4, 3)
    attention.project = nn.Identity()
    with pytest.raises(ShapeError, match=r"\[5, 12\].*\[5, 4\]"):
        attention(torch.randn(5, 4))
    attention.project = nn.Linear(6, 12)
    assert attention(torch.randn(5, 6)).shape == (5, 6)
