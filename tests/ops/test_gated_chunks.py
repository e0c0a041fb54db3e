"""The fused path against the plain one: values, every gradient, running statistics."""

from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from lrga.ops.gated.definition import gated_edges, gated_edges_reference
from lrga.ops.neighbors import edges as edges_module
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.norm.definition import BatchNormState

N, E, D = 30, 200, 5


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(edges_module, "EDGES_OF_A_CHUNK", 16)


@pytest.fixture
def layout():
    return EdgeLayout.from_edge_index(torch.randint(0, N - 2, (2, E)), N)[0]


def make(dtype=torch.float64, in_channels=D, edges=E, nodes=N, offset=0.0):
    draw = lambda *shape: torch.randn(*shape, dtype=dtype).requires_grad_()  # noqa: E731
    tensors = [draw(edges, in_channels), draw(D, in_channels), (draw(D) + offset).detach().requires_grad_()]
    tensors += [draw(nodes, D) for _ in range(3)]
    statistics = torch.randn(D, dtype=dtype), torch.rand(D, dtype=dtype) + 0.5
    return tensors, BatchNormState(draw(D), draw(D), *statistics, None, 0.1, 1e-5)


def with_copied_statistics(norm):
    return replace(norm, mean=norm.mean.clone(), var=norm.var.clone())


def gradients(outputs, tensors, upstream):
    pairs = [(out, up) for out, up in zip(outputs, upstream, strict=True) if up is not None]
    total = sum((out * up).sum() for out, up in pairs)
    return torch.autograd.grad(total, tensors, allow_unused=True)


def assert_fused_equals_plain(layout, *, training=True, scaled=False, residual=True, used="both"):
    tensors, norm = make()
    scale = torch.rand(E, 1, dtype=torch.float64) + 0.1 if scaled else None
    upstream = [
        torch.randn(N, D, dtype=torch.float64) if used != "edges" else None,
        torch.randn(E, D, dtype=torch.float64) if used != "nodes" else None,
    ]
    results = []
    for function in (gated_edges, gated_edges_reference):
        own = with_copied_statistics(norm)
        outputs = function(*tensors, layout, norm=own, training=training, scale=scale, residual=residual)
        found = gradients(outputs, [*tensors, norm.weight, norm.bias], upstream)
        results.append((*outputs, own.mean, own.var, *found))
    for fused, plain in zip(*results, strict=True):
        # A gradient that nothing needs may be zeros in one and absent in the other.
        plain = torch.zeros_like(fused) if plain is None and fused is not None else plain
        fused = torch.zeros_like(plain) if fused is None and plain is not None else fused
        if plain is not None:
            torch.testing.assert_close(fused, plain, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("residual", "used"), [(True, "both"), (True, "nodes"), (False, "edges")])
def test_fused_equals_plain(layout, training, scaled, residual, used):
    assert_fused_equals_plain(layout, training=training, scaled=scaled, residual=residual, used=used)


def test_node_results_and_statistics_do_not_depend_on_whether_edges_are_needed(layout):
    tensors, norm = make()
    with_edges, without = with_copied_statistics(norm), with_copied_statistics(norm)
    mean, _ = gated_edges(*tensors, layout, norm=with_edges)
    same, nothing = gated_edges(*tensors, layout, norm=without, need_edges=False)
    assert nothing is None
    assert torch.equal(mean, same)
    assert torch.equal(with_edges.var, without.var)
    same.sum().backward()
    assert tensors[0].grad is not None


def test_input_may_have_another_width_than_the_result(layout):
    tensors, norm = make(in_channels=2)
    outputs = [f(*tensors, layout, norm=norm, residual=False) for f in (gated_edges, gated_edges_reference)]
    for a, b in zip(*outputs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_gradients_are_right_and_can_be_differentiated_again():
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, 4, (2, 9)), 5)
    tensors, norm = make(edges=9, nodes=5)

    def run(*tensors):
        return gated_edges(*tensors[:6], layout, norm=replace(norm, weight=tensors[6], bias=tensors[7]))

    assert gradcheck(run, (*tensors, norm.weight, norm.bias), fast_mode=True)
    assert gradgradcheck(run, (*tensors, norm.weight, norm.bias), fast_mode=True)


def test_statistics_keep_their_digits_where_the_mean_is_large_beside_the_spread(layout):
    tensors, norm = make(dtype=torch.float32, offset=1e4)
    exact = [t.detach().double() for t in tensors]
    own = with_copied_statistics(norm)
    gated_edges(*tensors, layout, norm=own)
    parts = [t.detach().double() for t in (norm.weight, norm.bias, norm.mean, norm.var)]
    double = BatchNormState(*parts, None, 0.1, 1e-5)
    gated_edges_reference(*exact, layout, norm=double)
    torch.testing.assert_close(own.var.double(), double.var, rtol=1e-2, atol=1e-3)
