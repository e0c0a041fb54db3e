"""Forward-mode derivatives and torch.func, for which our operators have no rules, are right wherever they are taken."""

from functools import partial

import pytest
import torch
from torch.autograd import forward_ad

import lrga
from lrga.errors import UnsupportedError
from lrga.models.gnn import CONVOLUTIONS, GNN
from lrga.ops import linear as linear_ops
from lrga.ops._triton import HAS_TRITON, why_not_triton
from lrga.ops.attention import low_rank_attention
from lrga.ops.gat import definition as gat
from lrga.ops.gated import definition as gated
from lrga.ops.neighbors import reduce as message
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.norm import definition as norm

N, E, D, H, C = 9, 30, 6, 2, 3
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
BATCH = torch.arange(N) // 4


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The automatic choice of a GPU, in Triton's interpreter."""
    for module in ("neighbors.reduce", "norm.definition", "gat.definition", "gated.definition", "attention", "linear"):
        monkeypatch.setattr(f"lrga.ops.{module}.runs_on_gpu", lambda *tensors: why_not_triton(*tensors) is None)
    monkeypatch.setattr(linear_ops, "MIN_MIXED_NUMBERS", 0)


def draw(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


def attention(x, edges):
    u = x[:, :C]
    return low_rank_attention(u, u + 0.5, u, BATCH, 3)


def weighted_scores(x, edges):
    heads = x.view(-1, H, C)
    scores = gat.node_scores(heads, draw(H, C).to(x), draw(H, C).to(x) + 1)
    return gat.attention_sum(heads, *scores, edges, negative_slope=0.2)


def gates(x, edges):
    statistics = [draw(D).to(x) + shift for shift in (0.0, 1.0, 2.0, 3.0)]
    state = norm.BatchNormState(*statistics, None)
    rows = x.index_select(0, message.endpoints(edges)[0])
    mean, new = gated.gated_edges(rows, draw(D, D).to(x), draw(D).to(x), x, x, x, edges, norm=state, training=False)
    return torch.cat([mean, new])


def normalized(x, edges):
    state = norm.BatchNormState(*(draw(D).to(x) for _ in range(4)), torch.tensor(0))
    return norm.batch_norm(x, state, training=False, after="elu", residual=x)


FUNCTIONS = {
    "attention": attention,
    "sum": message.sum_sources,
    "mean": message.mean_sources,
    "max": message.max_sources,
    "edges": lambda x, edges: message.sum_edges(x.index_select(0, message.endpoints(edges)[0]), edges, N),
    "gat": weighted_scores,
    "gates": gates,
    "norm": normalized,
    "mixture": lambda x, edges: linear_ops.mixed_linear([x, x.square()], draw(C, 2 * D).to(x), draw(C).to(x)),
}


@pytest.fixture
def edges():
    return torch.randint(0, N - 2, (2, E))


def expected(name, edges, x, tangent):
    """Tangent of the result, and gradient of the sum of its squares, by backward through the definition."""
    x = x.double().requires_grad_()
    plain = EdgeLayout.from_edge_index(edges, N)[0].edge_index  # the layout's order, without its kernels
    out = FUNCTIONS[name](x, plain)
    upstream = torch.zeros_like(out, requires_grad=True)
    (back,) = torch.autograd.grad(out, x, upstream, create_graph=True)
    (moved,) = torch.autograd.grad((back * tangent.double()).sum(), upstream, retain_graph=True)
    return moved, torch.autograd.grad(out.square().sum(), x)[0]


@needs_triton
@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_and_functional_gradients_are_those_of_the_definition(request, edges, name, gpu):
    if gpu:
        request.getfixturevalue("as_on_a_gpu")
    layout, _ = EdgeLayout.from_edge_index(edges, N)
    x, tangent = torch.rand(N, D), torch.randn(N, D)
    function = partial(FUNCTIONS[name], edges=layout)
    moved, gradient = expected(name, edges, x, tangent)
    close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4, check_dtype=False)
    close(torch.func.jvp(function, (x,), (tangent,))[1], moved)
    with forward_ad.dual_level():
        close(forward_ad.unpack_dual(function(forward_ad.make_dual(x, tangent))).tangent, moved)
    close(torch.func.grad(lambda x: function(x).square().sum())(x), gradient)
    x.requires_grad_()  # and what a layout keeps is still good for backward
    close(torch.autograd.grad(function(x).square().sum(), x)[0], gradient)


@needs_triton
@pytest.mark.usefixtures("as_on_a_gpu")
def test_second_derivatives_by_torch_func_are_right():
    x = torch.rand(4, 2)
    hessian = torch.func.hessian(lambda x: low_rank_attention(x, x, x, BATCH[:4], 2).square().sum())(x)
    wide = torch.autograd.functional.hessian(
        lambda x: low_rank_attention(x, x, x, BATCH[:4], 2, backend="dense").square().sum(), x.double()
    )
    torch.testing.assert_close(hessian, wide.float(), rtol=1e-3, atol=1e-3)


def dual(function, x):
    with forward_ad.dual_level():
        return function(forward_ad.make_dual(x, x))


TRANSFORMS = {
    "jvp": lambda function, x: torch.func.jvp(function, (x,), (x,)),
    "grad": lambda function, x: torch.func.grad(lambda x: function(x).sum())(x),
    "dual": dual,
}


@needs_triton
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_kernels_that_were_asked_for_refuse_in_words(transform):
    x = torch.rand(N, D)
    module = lrga.LowRankGlobalAttention(D, rank=C, backend="triton")
    for function in (lambda u: low_rank_attention(u, u, u, BATCH, 3, backend="triton"), lambda x: module(x, BATCH, 3)):
        with pytest.raises(UnsupportedError, match=r"torch\.func and forward-mode"):
            TRANSFORMS[transform](function, x)


@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_a_whole_network_has_functional_gradients(edges, conv):
    model = GNN(D, 8, 2, 2, conv=conv, rank=2, task="graph", heads=1).eval()
    x, parameters = torch.randn(N, D), dict(model.named_parameters())

    def loss(parameters):
        out = torch.func.functional_call(model, parameters, (x, edges), {"batch": BATCH, "num_graphs": 3})
        return out.square().sum()

    found = torch.func.grad(loss)(parameters)
    wanted = torch.autograd.grad(loss(parameters), parameters.values(), allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(list(found.values()), list(wanted), rtol=1e-3, atol=1e-4)
