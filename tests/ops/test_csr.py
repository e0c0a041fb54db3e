import pytest
import torch
from torch.autograd import gradgradcheck

from lrga.ops.neighbors import cpu as csr
from lrga.ops.neighbors import edges as edges_module
from lrga.ops.neighbors import reduce as message
from lrga.ops.neighbors.edges import EdgeLayout

N, E, D = 40, 300, 5


@pytest.fixture
def layout(monkeypatch):
    monkeypatch.setattr(edges_module, "EDGES_OF_A_CHUNK", 32)  # several chunks
    return EdgeLayout.from_edge_index(torch.randint(0, N - 3, (2, E)), N)[0]


@pytest.mark.parametrize("reduce", ["sum", "amax"])
@pytest.mark.parametrize("width", [D, csr.WORTH_A_THREAD // E + 1], ids=["small", "shared among threads"])
def test_product_is_that_of_the_dense_matrix(layout, reduce, width):
    dense, values = torch.randn(N, width), torch.rand(E)
    out = csr.product(layout.in_ptr, layout.source, values, dense, reduce)
    for i in range(N):
        edges = (layout.target == i).nonzero().squeeze(-1)
        terms = values[edges, None] * dense[layout.source[edges]]
        expected = terms.sum(0) if reduce == "sum" else terms.amax(0) if len(edges) else torch.zeros(width)
        torch.testing.assert_close(out[i], expected)


@pytest.mark.parametrize("width", [D, csr.WORTH_A_THREAD // E + 1], ids=["small", "shared among threads"])
def test_fast_and_plain_sums_agree_in_values_and_gradients(layout, width):
    x = torch.randn(N, width, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(E, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(N, width, dtype=torch.float64)
    pairs = [
        (csr.sum_sources(x, layout), message.sum_sources_reference(x, layout)),
        (csr.sum_sources(x, layout, weight), message.sum_sources_reference(x, layout, weight)),
        (csr.max_sources(x, layout), message.max_sources_reference(x, layout)),
    ]
    for fast, plain in pairs:
        torch.testing.assert_close(fast, plain, rtol=1e-13, atol=1e-13)
        gradients = [
            torch.autograd.grad((out * upstream).sum(), (x, weight), allow_unused=True) for out in (fast, plain)
        ]
        for a, b in zip(*gradients, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


def test_gradients_can_be_differentiated_again():
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, 5, (2, 12)), 6)
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(12, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(lambda x: csr.sum_sources(x, layout).sin(), (x,), fast_mode=True)
    assert gradgradcheck(lambda x, w: csr.sum_sources(x, layout, w), (x, weight), fast_mode=True)
    assert gradgradcheck(lambda x: csr.max_sources(x, layout).sin(), (x,), fast_mode=True)


def test_products_without_edges_or_columns_are_zeros():
    nothing = torch.empty(2, 0, dtype=torch.int64)
    layout, _ = EdgeLayout.from_edge_index(nothing, 3)
    x = torch.randn(3, 2, requires_grad=True)
    for out in (csr.sum_sources(x, layout), csr.max_sources(x, layout)):
        assert torch.equal(out, torch.zeros(3, 2))
        assert torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.zeros(3, 2))
    layout, _ = EdgeLayout.from_edge_index(torch.tensor([[0], [1]]), 3)
    assert csr.sum_sources(torch.empty(3, 0), layout).shape == (3, 0)


def test_only_single_and_double_precision_take_this_path():
    assert csr.is_supported(torch.ones(1), torch.ones(1, dtype=torch.float64), None)
    assert not csr.is_supported(torch.ones(1, dtype=torch.bfloat16))
    assert not csr.is_supported(torch.ones(1, device="meta"))
