import copy
import math

import pytest
import torch
from torch.autograd import gradcheck

from lrga.errors import ShapeError
from lrga.ops.neighbors import reduce as message
from lrga.ops.neighbors.edges import EdgeLayout

N, E, D = 8, 30, 3


@pytest.fixture
def edge_index():
    """Repeated edges and self-loops among them; the last two nodes have no edge."""
    return torch.randint(0, N - 2, (2, E))


@pytest.fixture(params=["plain", "layout"])
def form(request, edge_index):
    """The edges in either form, and the order that values of edges have in it."""
    return EdgeLayout.from_edge_index(edge_index, N) if request.param == "layout" else (edge_index, torch.arange(E))


def in_neighbours(edge_index, node):
    return [j for j, i in zip(*edge_index.tolist(), strict=True) if i == node]


def by_loops(x, edge_index, combine):
    rows = [[x[j] for j in in_neighbours(edge_index, i)] for i in range(N)]
    return torch.stack([combine(torch.stack(row)) if row else torch.zeros_like(x[0]) for row in rows])


OPERATIONS = {
    "sum": (message.sum_sources, lambda rows: rows.sum(0)),
    "mean": (message.mean_sources, lambda rows: rows.mean(0)),
    "max": (message.max_sources, lambda rows: rows.max(0).values),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_neighbours_are_combined_as_loops_over_nodes_do_and_have_right_gradients(edge_index, form, name):
    operation, combine = OPERATIONS[name]
    x = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(operation(x, form[0]), by_loops(x, edge_index, combine), rtol=1e-14, atol=1e-14)
    assert gradcheck(lambda x: operation(x, form[0]), (x,))


@pytest.mark.parametrize("name", OPERATIONS)
def test_layout_and_plain_edges_give_equal_gradients_even_among_ties(edge_index, name):
    operation, _ = OPERATIONS[name]
    layout, _ = EdgeLayout.from_edge_index(edge_index, N)
    x = torch.randint(-1, 2, (N, D)).double().requires_grad_()
    weights = torch.randn(N, D, dtype=torch.float64)
    plain, sorted_ = (torch.autograd.grad((operation(x, e) * weights).sum(), x)[0] for e in (edge_index, layout))
    torch.testing.assert_close(plain, sorted_, rtol=1e-13, atol=1e-13)


def test_weighted_sum_over_heads_equals_loops_and_has_right_gradients(edge_index, form):
    heads, (edges, order) = 2, form
    x = torch.randn(N, heads, D, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(E, heads, dtype=torch.float64, requires_grad=True)
    expected = torch.zeros(N, heads, D, dtype=torch.float64)
    for e, (source, target) in enumerate(edge_index.t().tolist()):
        for h in range(heads):
            expected[target, h] += weight[e, h].detach() * x[source, h].detach()
    torch.testing.assert_close(message.sum_sources(x, edges, weight[order]), expected, rtol=1e-13, atol=1e-13)
    assert gradcheck(lambda x, w: message.sum_sources(x, edges, w), (x, weight), fast_mode=True)


def test_softmax_of_the_edges_into_a_node_sums_to_one_and_equals_its_definition(edge_index, form):
    edges, order = form
    scores = torch.randn(E, 2, dtype=torch.float64) * 400  # exp of the scores themselves overflows
    result = torch.empty_like(scores)
    result[order] = message.softmax_edges(scores[order], edges, N)
    for e, target in enumerate(edge_index[1].tolist()):
        rivals = [f for f in range(E) if edge_index[1, f] == target]
        for h in range(2):
            total = sum(math.exp(float(scores[f, h] - scores[rivals, h].max())) for f in rivals)
            expected = math.exp(float(scores[e, h] - scores[rivals, h].max())) / total
            assert float(result[e, h]) == pytest.approx(expected, abs=1e-12)


def test_gradients_of_sums_and_softmax_over_edges_are_right(form):
    values = torch.randn(E, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda v: message.sum_edges(v, form[0], N), (values,))
    assert gradcheck(lambda v: message.softmax_edges(v, form[0], N), (values,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", [False, True])
def test_half_precision_is_summed_in_single_precision(dtype, layout):
    count = 4096  # adding ones in float16 sticks at 2048, in bfloat16 at 256
    edge_index = torch.stack([torch.arange(1, count + 1), torch.zeros(count, dtype=torch.int64)])
    edges = EdgeLayout.from_edge_index(edge_index, count + 1)[0] if layout else edge_index
    out = message.sum_sources(torch.ones(count + 1, 2, dtype=dtype), edges)
    assert out.dtype == dtype
    assert out[0].tolist() == [count, count]


def test_degrees_count_edges_in_and_out_and_factors_of_gcn_are_their_inverse_roots(edge_index, form):
    into, out_of = message.degrees(form[0], N)
    assert into.tolist() == [edge_index[1].tolist().count(i) for i in range(N)]
    assert out_of.tolist() == [edge_index[0].tolist().count(i) for i in range(N)]
    factors = message.symmetric_factors(form[0], torch.randn(N, D, dtype=torch.float64))
    for factor, degree in zip(factors, (into, out_of), strict=True):
        torch.testing.assert_close(factor, degree.clamp(min=1).double() ** -0.5)


def test_weights_for_other_edges_and_factors_for_other_nodes_are_refused(edge_index):
    with pytest.raises(ShapeError, match=r"\[30\].*\[29\]"):
        message.sum_sources(torch.randn(N, D), edge_index, torch.randn(29))
    with pytest.raises(ShapeError, match=r"src_scale of shape \[8\].*\[7\]"):
        message.sum_sources(torch.randn(N, D), edge_index, src_scale=torch.randn(7))


def test_narrow_edges_have_the_same_gradients():
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 2, 0, 0]], dtype=torch.int32)
    assert gradcheck(lambda x: message.max_sources(x, edges), x)


@pytest.mark.parametrize("shape", [(D,), (2, D)])
def test_factors_of_both_ends_multiply_the_messages(edge_index, form, shape):
    edges, _ = form
    x = torch.randn(N, *shape, dtype=torch.float64, requires_grad=True)
    into, out_of = torch.rand(2, N, dtype=torch.float64).requires_grad_().unbind()
    expected = torch.zeros(N, *shape, dtype=torch.float64)
    for source, target in edge_index.t().tolist():
        expected[target] += into[target].detach() * out_of[source].detach() * x[source].detach()
    torch.testing.assert_close(message.sum_sources(x, edges, dst_scale=into, src_scale=out_of), expected)
    assert gradcheck(
        lambda x, a, b: message.sum_sources(x, edges, dst_scale=a, src_scale=b), (x, into, out_of), fast_mode=True
    )


@pytest.mark.parametrize("way", ["csr", "csr in chunks", "differentiable csr", "triton"])
@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_what_is_no_number_spreads_as_in_the_definition(monkeypatch, edge_index, way, bad):
    layout, _ = EdgeLayout.from_edge_index(edge_index, N)
    x = torch.randint(-1, 2, (N, D)).float()
    x[1, 0], x[4, 2] = bad, bad
    x.requires_grad_()
    upstream = torch.randn(N, D)
    if way == "triton":
        pytest.importorskip("triton")
        monkeypatch.setattr(message, "runs_on_gpu", lambda *tensors: True)
    if way == "csr in chunks":
        monkeypatch.setattr("lrga.ops.neighbors.edges.EDGES_OF_A_CHUNK", 4)
        monkeypatch.setattr("lrga.ops.neighbors.cpu.WORTH_A_THREAD", 0)
    results = []
    for function, edges in ((message.max_sources, layout), (message.max_sources_reference, edge_index)):
        out = function(x, edges)
        create = way == "differentiable csr"
        results.append((out.detach(), torch.autograd.grad(out, x, upstream, create_graph=create)[0].detach()))
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("conv", ["gcn", "gat", "graphsage"])
def test_layers_on_the_kernels_compile_to_one_graph(monkeypatch, edge_index, conv):
    pytest.importorskip("triton")
    from lrga.models.gnn import CONVOLUTIONS
    from lrga.ops.gat import definition as attention_sum
    from lrga.ops.norm import definition as norm

    torch._dynamo.reset()
    for module in (message, norm, attention_sum):
        monkeypatch.setattr(module, "runs_on_gpu", lambda *tensors: True)
    layer = CONVOLUTIONS[conv](D, D)
    other = copy.deepcopy(layer)
    layout, _ = EdgeLayout.from_edge_index(edge_index, N)
    x = torch.randn(N, D, requires_grad=True)
    results = []
    for module, run in ((layer, layer), (other, torch.compile(other, fullgraph=True, backend="aot_eager"))):
        out = run(x, layout)
        grads = torch.autograd.grad(out.square().sum(), [x, *module.parameters()])
        results.append((out.detach(), grads, module.norm.running_mean, module.norm.running_var))
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


HALF = [torch.float16, torch.bfloat16]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def star(leaves, device, *, sorted_edges):
    """All leaves point at node 0."""
    edges = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.int64)]).to(device)
    return EdgeLayout.from_edge_index(edges, leaves + 1)[0] if sorted_edges else edges


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sorted_edges", [True, False])
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_scaled_before_it_is_rounded(dtype, sorted_edges, device):
    leaves = 1000
    edges = star(leaves, device, sorted_edges=sorted_edges)
    x = torch.full((leaves + 1, 3), 100.0, dtype=dtype, device=device, requires_grad=True)
    mean = message.mean_sources(x, edges)  # the sum is larger than float16 holds
    assert mean.dtype == dtype
    assert torch.equal(mean[0], torch.full((3,), 100.0, dtype=dtype, device=device))
    small = torch.full((leaves + 1,), 1 / leaves, device=device)
    ones = torch.ones(leaves, dtype=dtype, device=device)
    for total in (
        message.sum_sources(x, edges, dst_scale=small),
        message.sum_sources(x, edges, ones, dst_scale=small),
        message.sum_sources_reference(x, edges, dst_scale=small),
        message.sum_sources(x, edges, src_scale=small),
    ):
        torch.testing.assert_close(total[0], mean[0])
        (grad,) = torch.autograd.grad(total[0, 0], x)
        torch.testing.assert_close(grad[1:, 0], torch.full_like(grad[1:, 0], 1 / leaves))


@pytest.mark.parametrize("dtype", HALF)
def test_degrees_beyond_float16_have_factors(dtype):
    edges = torch.zeros(2, 70_000, dtype=torch.int64)
    x = torch.ones(1, 2, dtype=dtype)
    into, out_of = message.symmetric_factors(edges, x)
    torch.testing.assert_close(message.sum_sources(x, edges, dst_scale=into, src_scale=out_of), x)


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_on_a_cpu_is_float32_rounded_once(dtype):
    edges = torch.randint(0, 30, (2, 400))
    x, weight = torch.randn(30, 2, 4).to(dtype), torch.rand(400, 2).to(dtype)
    factor = torch.rand(30)
    expected = message.sum_sources(x.float(), edges, weight.float(), dst_scale=factor, src_scale=factor).to(dtype)
    layout, order = EdgeLayout.from_edge_index(edges, 30)
    for found in (
        message.sum_sources(x, edges, weight, dst_scale=factor, src_scale=factor),
        message.sum_sources_reference(x, edges, weight, dst_scale=factor, src_scale=factor),
    ):
        assert torch.equal(found, expected)
    sorted_sum = message.sum_sources(x, layout, weight[order], dst_scale=factor, src_scale=factor)
    torch.testing.assert_close(sorted_sum, expected)
    assert message.sum_sources(x, edges, weight.float()).dtype == torch.float32
