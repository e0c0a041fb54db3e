"""The products of edges with a weight, our own and the library's, against the formula in float64."""

import pytest
import torch

from lrga.ops._triton import HAS_TRITON
from lrga.ops.gated import gpu as gated_gpu

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TILES = gated_gpu.ProductTiles(rows=64, programs=2)
TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(gated_gpu, "product_tiles", TILES)


def batch(edges, real, inner, outer, dtype=torch.float32, nodes=6):
    """Edges of which the last are padding, a weight, and the ends of the edges."""
    x = torch.randn(edges, inner, device=DEVICE).to(dtype)
    weight = (torch.randn(outer, inner, device=DEVICE) / inner**0.5).to(dtype)
    ends = [torch.randint(0, nodes, (edges,), device=DEVICE) for _ in range(2)]
    return x, weight, ends, torch.tensor([0] * nodes + [real], device=DEVICE)


@pytest.mark.parametrize("width", range(1, 130))
def test_two_blocks_hold_the_columns_and_waste_no_more_than_one(width):
    first, second = gated_gpu.blocks_of(width)
    assert first >= 16
    assert first & (first - 1) == 0
    assert second == 0 or (second >= 16 and second & (second - 1) == 0)
    assert width <= first + second <= max(16, 1 << (width - 1).bit_length())


@pytest.mark.parametrize(("inner", "outer"), [(1, 1), (16, 16), (45, 45), (80, 80), (20, 70), (33, 5)])
@pytest.mark.parametrize(("edges", "real"), [(1, 1), (64, 64), (150, 131), (70, 0)])
def test_arguments_of_the_gates_and_gradients_of_edges(inner, outer, edges, real):
    x, weight, (source, target), in_ptr = batch(edges, real, inner, outer)
    nodes = torch.randn(6, 3 * outer, device=DEVICE)
    bias, d, t = torch.randn(outer, device=DEVICE), nodes[:, outer : 2 * outer], nodes[:, 2 * outer :]
    out = torch.full((edges, outer), torch.nan, device=DEVICE)
    gated_gpu.gate_arguments(x, weight, bias, d, t, source, target, in_ptr, out=out)
    exact = x.double() @ weight.double().t() + bias + d[source] + t[target]
    torch.testing.assert_close(out[:real].double(), exact[:real], rtol=1e-5, atol=1e-5)
    assert not out[real:].any()
    grad, added = torch.randn(edges, outer, device=DEVICE), torch.randn(edges, inner, device=DEVICE)
    for more in (added, None):
        out = torch.full((edges, inner), torch.nan, device=DEVICE)
        gated_gpu.edge_gradient(grad, weight, more, in_ptr, out=out)
        exact = grad.double() @ weight.double() + (0 if more is None else more)
        torch.testing.assert_close(out[:real].double(), exact[:real], rtol=1e-5, atol=1e-5)
        assert not out[real:].any()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("edges", [150, 0])
def test_gradients_of_the_weight(kind, edges):
    x, weight, (source, _), _ = batch(edges, edges, 20, 7)
    grad = torch.randn(edges, 7, device=DEVICE)
    exact = grad.double().t() @ x.double(), grad.double().sum(0)
    of_source = grad.new_zeros(6, 7).index_add(0, source, grad)
    found = gated_gpu.weight_gradient(grad, x, weight.to(kind), of_source)
    for a, b in zip(found, exact, strict=True):
        assert a.dtype == kind
        size = float(b.abs().max()) if edges else 1.0
        torch.testing.assert_close(a.double(), b, rtol=TOLERANCE[kind], atol=TOLERANCE[kind] * size)


@pytest.mark.parametrize(("room", "rows"), [(232_448, 64), (101_376, 32), (0, 32)])
def test_tiles_are_smaller_where_shared_memory_is_scarce(monkeypatch, room, rows):
    assert gated_gpu.tiles_on(torch.device("cpu"), TILES) == TILES
    monkeypatch.setattr(gated_gpu, "shared_memory", lambda _: room)
    assert gated_gpu.tiles_on(torch.device("cuda", 0), TILES) == gated_gpu.ProductTiles(rows=rows, programs=2)
    assert gated_gpu.tiles_on(torch.device("cuda", 0), gated_gpu.ProductTiles(rows=16)).rows == 16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_in_and_out(dtype):
    x, weight, _, in_ptr = batch(90, 90, 20, 20, dtype)
    out = torch.empty(90, 20, device=DEVICE, dtype=dtype)
    gated_gpu.edge_gradient(x, weight, x, in_ptr, out=out)
    exact = x.double() @ weight.double() + x.double()
    assert float((out.double() - exact).detach().norm() / exact.norm()) < TOLERANCE[dtype]


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_the_library_gives_the_same(monkeypatch, kind, precision):
    monkeypatch.setattr(gated_gpu, "dot_precision", lambda _: precision)
    x, weight, _, _ = batch(40, 40, 7, 5)
    weight, bias = weight.to(kind), torch.randn(5, device=DEVICE).to(kind)
    out = torch.full((40, 5), torch.nan, device=DEVICE)
    found = gated_gpu.vendor_product(x, weight, bias, out=out)
    assert (found is out) == (kind == torch.float32)
    exact = x.double() @ weight.double().t() + bias.double()
    torch.testing.assert_close(found.double(), exact, rtol=TOLERANCE[kind], atol=TOLERANCE[kind])
    for added in (True, False):
        out, before = (torch.randn(40, 7, device=DEVICE) for _ in range(2))
        out.copy_(before)
        gated_gpu.vendor_gradient(exact.to(kind), weight, added=added, out=out)
        wanted = exact @ weight.double() + (before if added else 0)
        torch.testing.assert_close(out.double(), wanted, rtol=4 * TOLERANCE[kind], atol=4 * TOLERANCE[kind])


def test_a_weight_is_turned_round_for_tf32_alone(monkeypatch):
    weight = torch.randn(5, 3)
    monkeypatch.setattr(gated_gpu, "dot_precision", lambda _: "tf32")
    assert gated_gpu.across(weight).t().is_contiguous()
    assert torch.equal(gated_gpu.across(weight), weight)
    monkeypatch.setattr(gated_gpu, "dot_precision", lambda _: "tf32x3")
    assert gated_gpu.across(weight) is weight


def test_wide_weights_and_exact_products_are_the_librarys(monkeypatch):
    monkeypatch.setattr(gated_gpu, "dot_precision", lambda _: "tf32")
    takes = lambda o, i, **kind: gated_gpu.product_is_supported(torch.empty(o, i, **kind))  # noqa: E731
    assert takes(80, 80)
    assert takes(96, 1)
    assert not takes(97, 80)
    assert not takes(80, 0)
    monkeypatch.setattr(gated_gpu, "dot_precision", lambda _: "tf32x3")
    assert not takes(80, 80)
    assert takes(80, 80, dtype=torch.bfloat16)


@pytest.mark.parametrize("tiles", [gated_gpu.ProductTiles(16, 4, 40, 1), gated_gpu.ProductTiles(32, 4, 3, 4)])
def test_any_division_into_tiles_gives_the_same_even_where_padding_is_not_a_number(monkeypatch, tiles):
    monkeypatch.setattr(gated_gpu, "product_tiles", tiles)
    x, weight, (source, target), in_ptr = batch(150, 131, 20, 20)
    x[131:] = torch.nan
    bias, d, t = (torch.randn(*shape, device=DEVICE) for shape in [(20,), (6, 20), (6, 20)])
    out = torch.empty_like(x)
    gated_gpu.gate_arguments(x, weight, bias, d, t, source, target, in_ptr, out=out)
    exact = x.double() @ weight.double().t() + bias + d[source] + t[target]
    torch.testing.assert_close(out[:131].double(), exact[:131], rtol=1e-5, atol=1e-5)
    assert not out[131:].any()
    gated_gpu.edge_gradient(x, weight, x, in_ptr, out=out)
    exact = x.double() @ weight.double() + x
    torch.testing.assert_close(out[:131].double(), exact[:131], rtol=1e-5, atol=1e-5)
    assert not out[131:].any()
