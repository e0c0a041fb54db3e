"""Sums by Triton's kernels against the reference: in its interpreter here, on a GPU with `pytest -m gpu`."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.ops.neighbors import gpu as neighbors_gpu
from lrga.ops.neighbors import reduce as message
from lrga.ops.neighbors.edges import EdgeLayout
from tests.helpers.kernels import POISONED, edges, padded, same

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
HERE = pytest.param("cpu")
GPU = pytest.param("cuda", marks=pytest.mark.gpu)

pytestmark = POISONED


@pytest.fixture(autouse=True)
def kernels_are_chosen(monkeypatch):
    """On a CPU too, where Triton's interpreter runs them."""
    monkeypatch.setattr(message, "runs_on_gpu", lambda *tensors: True)


def check_sums(layout, shape, dtype, weighted, factors):
    device, size = layout.device, layout.num_nodes
    x = torch.randn(size, *shape, device=device).to(dtype).requires_grad_()
    inputs = [x]
    if weighted:
        inputs.append(torch.randn(layout.num_edges, *shape[:-1], device=device).to(dtype).requires_grad_())
    options = (
        {"dst_scale": torch.rand(size, device=device), "src_scale": torch.rand(size, device=device)} if factors else {}
    )
    same(
        lambda x, *w: message.sum_sources(x, layout, *w, **options),
        lambda x, *w: message.sum_sources_reference(x, layout, *w, **options),
        inputs,
        TOLERANCE[dtype],
    )


@pytest.mark.parametrize(
    ("shape", "weighted", "factors"),
    [((1,), False, True), ((33,), True, False), ((33,), False, False), ((2, 5), True, True)],
)
def test_sums_and_gradients_are_those_of_the_reference(monkeypatch, shape, weighted, factors):
    monkeypatch.setattr(neighbors_gpu, "MIN_SPLIT_EDGES", 0)
    monkeypatch.setattr(neighbors_gpu, "CHUNK", 16)
    monkeypatch.setattr(neighbors_gpu, "MAX_RUN", 16)
    check_sums(edges(13, 90), shape, torch.float32, weighted, factors)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("shape", [(1,), (7,), (60,), (100,), (172,), (257,), (8, 19), (3, 1), (1, 64)])
@pytest.mark.parametrize("size", [(1, 5), (5, 0), (300, 20_000), (7_600, 200_000)])
def test_sums_and_gradients_are_those_of_the_reference_on_a_gpu(size, shape, weighted, factors, dtype):
    check_sums(edges(*size, "cuda"), shape, dtype, weighted, factors)


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_half_precision_is_summed_in_single_precision(dtype):
    check_sums(edges(9, 40), (6,), dtype, True, True)


@pytest.mark.parametrize("device", [HERE, GPU])
@pytest.mark.parametrize("size", [(0, 0), (3, 0), (1, 4)])
def test_graphs_without_nodes_or_edges_have_zero_sums_and_gradients(size, device):
    layout = edges(*size, device)
    for shape in ((4,), (2, 3), (0,)):
        check_sums(layout, shape, torch.float32, True, True)


@pytest.mark.parametrize("device", [HERE, GPU])
def test_padding_is_summed_by_no_node_and_has_zero_gradients(device):
    small = edges(9, 40)
    layout = padded(small, 3, 11).to(device)
    x = torch.randn(12, 5, device=device, requires_grad=True)
    weight, values = (torch.randn(51, *s, device=device, requires_grad=True) for s in ((), (5,)))
    out = message.sum_sources(x, layout, weight)
    total = message.sum_edges(values, layout, layout.num_nodes)
    expected = message.sum_sources_reference(x[:9].cpu(), small, weight[:40].cpu())
    torch.testing.assert_close(out[:9].cpu(), expected)
    assert out[9:].abs().max() == total[9:].abs().max() == 0
    grads = torch.autograd.grad((out.square() + total.square()).sum(), (x, weight, values))
    wanted = torch.autograd.grad(expected.square().sum(), (x, weight))
    torch.testing.assert_close(grads[0].cpu(), wanted[0].cpu())
    torch.testing.assert_close(grads[1].cpu(), wanted[1].cpu())
    for grad in (grads[0][9:], grads[1][40:], grads[2][40:]):
        assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.parametrize("shape", [(1,), (33,), (2, 5)])
def test_sums_of_edges_are_those_of_the_reference(shape):
    check_edges(edges(13, 90), shape, torch.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (8,), (80,), (172,), (8, 19)])
@pytest.mark.parametrize("size", [(5, 0), (300, 20_000), (7_600, 200_000)])
def test_sums_of_edges_are_those_of_the_reference_on_a_gpu(size, shape, dtype):
    check_edges(edges(*size, "cuda"), shape, dtype)


def check_edges(layout, shape, dtype):
    values = torch.randn(layout.num_edges, *shape, device=layout.device).to(dtype).requires_grad_()
    same(
        lambda v: message.sum_edges(v, layout, layout.num_nodes),
        lambda v: message.sum_edges_reference(v, layout.target, layout.num_nodes),
        [values],
        TOLERANCE[dtype],
    )


def test_rows_of_a_larger_tensor_and_turned_ones_are_read_where_they_lie():
    layout = edges(8, 30)
    wide = torch.randn(3, 8, 2)
    x = wide[0, :, :].t().contiguous().t()
    torch.testing.assert_close(message.sum_sources(x, layout), message.sum_sources_reference(x, layout))


def test_the_compiler_sees_one_operator():
    layout = edges(8, 30)
    x = torch.randn(8, 4, requires_grad=True)
    arrays = neighbors_gpu.graph_of(layout, x)

    def run(x):
        return neighbors_gpu.sum_sources_op(x.relu(), None, None, None, arrays, False).sin()

    results = []
    for function in (run, torch.compile(run, fullgraph=True, backend="aot_eager")):
        out = function(x)
        results.append((out.detach(), torch.autograd.grad(out.sum(), x)[0]))
    torch.testing.assert_close(results[0], results[1])


def test_blocks_waste_few_columns():
    blocks = {0: 1, 1: 1, 20: 32, 33: 64, 60: 64, 80: 128, 100: 128, 172: 64, 256: 128}
    assert {width: neighbors_gpu.block_of(width) for width in blocks} == blocks


def test_long_runs_are_prepared_for_unless_they_are_known_not_to_exist():
    assert not neighbors_gpu.may_be_long(1000, None)
    assert neighbors_gpu.may_be_long(10**6, None)
    assert not neighbors_gpu.may_be_long(10**6, 2000)
    assert neighbors_gpu.may_be_long(10**6, 10**6)


def sums(layout, x, split):
    return neighbors_gpu.launch_sum(
        x, None, None, None, None, layout.in_ptr, layout.source, layout.target, split, torch.float32
    )


@pytest.mark.parametrize("degrees", [[0, 9, 8, 17], [40], [1, 0, 30, 1, 25, 0], [0, 0]])
def test_long_runs_at_every_place_among_the_chunks_are_summed(monkeypatch, degrees):
    monkeypatch.setattr(neighbors_gpu, "CHUNK", 8)
    monkeypatch.setattr(neighbors_gpu, "MAX_RUN", 8)
    nodes = max(len(degrees), 5)
    target = torch.repeat_interleave(torch.arange(len(degrees)), torch.tensor(degrees))
    layout, _ = EdgeLayout.from_edge_index(torch.stack([torch.randint(0, nodes, target.shape), target]), nodes)
    x = torch.randn(nodes, 3)
    expected = torch.zeros(nodes, 3).index_add_(0, layout.target, x[layout.source])
    torch.testing.assert_close(sums(layout, x, True), expected)
    torch.testing.assert_close(sums(layout, x, False), expected)


@pytest.mark.gpu
def test_a_node_with_a_million_edges_is_summed_on_a_gpu():
    count = 1_000_000
    source = torch.randint(0, 1000, (count + 5000,), device="cuda")
    target = torch.cat([torch.full((count,), 3, device="cuda"), torch.randint(0, 1000, (5000,), device="cuda")])
    layout, _ = EdgeLayout.from_edge_index(torch.stack([source, target]), 1000)
    x = torch.randn(1000, 100, device="cuda")
    expected = torch.zeros(1000, 100, device="cuda", dtype=torch.float64).index_add_(0, target, x[source].double())
    out = sums(layout, x, neighbors_gpu.may_be_long(layout.num_edges, None))
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=5e-2)
    assert torch.equal(out, sums(layout, x, True))


def check_max(layout, width, dtype=torch.float32, device="cpu", values=None):
    """Values are equal to the bit, gradients to rounding, ties among them."""
    if values is None:  # few different values: many ties
        values = torch.randint(-3, 2, (layout.num_nodes, width)) * 0.5
    layout = layout.to(device)
    x = values.to(device, dtype).requires_grad_()
    wide = x.detach().double().requires_grad_()
    out, expected = message.max_sources(x, layout), message.max_sources_reference(wide, layout)
    assert torch.equal(out.double(), expected)
    upstream = torch.randn(x.shape, device=device, dtype=torch.float64).to(dtype)
    (grad,) = torch.autograd.grad(out, x, upstream)
    (wanted,) = torch.autograd.grad(expected, wide, upstream.double())
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}[dtype]
    torch.testing.assert_close(grad.double(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("width", "dtype"), [(1, DTYPES[0]), (33, DTYPES[0]), (7, DTYPES[1]), (7, DTYPES[2])])
def test_maxima_and_shared_gradients_are_those_of_the_reference(width, dtype):
    check_max(edges(11, 60), width, dtype)


@pytest.mark.parametrize("size", [(0, 0), (3, 0), (1, 4)])
def test_graphs_without_nodes_or_edges_have_zero_maxima(size):
    check_max(edges(*size), 3)


def test_the_largest_of_infinite_values_is_found():
    values = torch.tensor([[-torch.inf, torch.inf], [0.5, 1.0], [2.0, torch.inf]])
    check_max(EdgeLayout.from_edge_index(torch.tensor([[0, 1, 2, 1], [2, 2, 1, 1]]), 3)[0], 2, values=values)


def test_a_number_that_is_none_is_the_largest():
    layout, _ = EdgeLayout.from_edge_index(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
    out = message.max_sources(torch.tensor([[1.0], [torch.nan], [3.0]]), layout)
    assert out[2].isnan()
    assert out[0] == 3


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 60, 100, 172, 257])
@pytest.mark.parametrize("size", [(1, 5), (5, 0), (300, 20_000), (7_600, 200_000)])
def test_maxima_on_a_gpu_are_those_of_the_reference(size, width, dtype):
    layout = edges(*size, hub_in=False, hub_out=False)  # sums of 33,000 float32 gradients are off by more than 1e-5
    check_max(layout, width, dtype, "cuda")
    check_max(layout, width, dtype, "cuda", torch.randn(layout.num_nodes, width))
