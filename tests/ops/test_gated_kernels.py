"""The products of edges with a weight, our own and the library's, against the formula in float64; and the kernels of
GatedGCN by themselves, where test_gated_gpu.py shows them only together."""

import pytest
import torch

from lrga.ops._triton import HAS_TRITON
from lrga.ops.gated import gpu as gated_gpu
from lrga.ops.neighbors.edges import EdgeLayout

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
D = 5
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


def test_two_blocks_hold_the_columns_and_waste_no_more_than_one():
    for width in range(1, 130):
        first, second = gated_gpu.blocks_of(width)
        assert first >= 16
        assert first & (first - 1) == 0
        assert second == 0 or (second >= 16 and second & (second - 1) == 0)
        assert width <= first + second <= max(16, 1 << (width - 1).bit_length())


@pytest.mark.parametrize(
    ("inner", "outer", "edges", "real"),
    [(1, 1, 1, 1), (16, 16, 64, 64), (45, 45, 70, 61), (80, 80, 70, 0), (20, 70, 150, 131), (33, 5, 64, 9)],
)
def test_arguments_of_the_gates_and_gradients_of_edges(inner, outer, edges, real):
    x, weight, (source, target), in_ptr = batch(edges, real, inner, outer)
    nodes = torch.randn(6, 3 * outer, device=DEVICE)
    bias, d, t = torch.randn(outer, device=DEVICE), nodes[:, outer : 2 * outer], nodes[:, 2 * outer :]
    out = torch.full((edges, outer), torch.nan, device=DEVICE)
    gated_gpu.map_edges(x, weight, in_ptr, ends=(bias, d, t, source, target), out=out)
    exact = x.double() @ weight.double().t() + bias + d[source] + t[target]
    torch.testing.assert_close(out[:real].double(), exact[:real], rtol=1e-5, atol=1e-5)
    assert not out[real:].any()
    grad, added = torch.randn(edges, outer, device=DEVICE), torch.randn(edges, inner, device=DEVICE)
    for more in (added, None):
        out = torch.full((edges, inner), torch.nan, device=DEVICE)
        gated_gpu.map_edges(grad, weight.t(), in_ptr, added=more, out=out)
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
    gated_gpu.map_edges(x, weight.t(), in_ptr, added=x, out=out)
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
    gated_gpu.map_edges(x, weight, in_ptr, ends=(bias, d, t, source, target), out=out)
    exact = x.double() @ weight.double().t() + bias + d[source] + t[target]
    torch.testing.assert_close(out[:131].double(), exact[:131], rtol=1e-5, atol=1e-5)
    assert not out[131:].any()
    gated_gpu.map_edges(x, weight.t(), in_ptr, added=x, out=out)
    exact = x.double() @ weight.double() + x
    torch.testing.assert_close(out[:131].double(), exact[:131], rtol=1e-5, atol=1e-5)
    assert not out[131:].any()


@pytest.mark.parametrize(("programs", "forward"), [(1, True), (3, False), (9, True)])
def test_every_row_is_written_by_one_program_and_nothing_behind_the_end(programs, forward):
    import triton.language as tl

    from lrga.ops.gated.kernels import map_edges

    edges, width = 75, 20
    x = torch.randn(edges, width, device=DEVICE)
    out = torch.full((edges + 16, width), torch.nan, device=DEVICE)
    in_ptr = torch.tensor([0, 70], device=DEVICE)
    zeros, node = torch.zeros(1, width, device=DEVICE), torch.zeros(edges, dtype=torch.int64, device=DEVICE)
    map_edges[(programs,)](
        x, torch.eye(width, device=DEVICE), zeros, zeros, zeros, node, node, x, in_ptr, out, 1, edges, width, width,
        INNER=width, OUTER=width, STRIDE_I=1, STRIDE_O=width, FORWARD=forward, ADDED=False, STAGES=2,
        COMPUTE=tl.float32, PRECISION="tf32x3", BM=16, I0=16, I1=16, O0=32, O1=0,
    )  # fmt: skip
    torch.testing.assert_close(out[:70], x[:70])
    assert not out[70:edges].any()
    assert out[edges:].isnan().all()


@pytest.mark.parametrize("programs", [1, 2, 12])
def test_sums_over_the_edges_that_leave_a_node(programs):
    from lrga.ops.gated.kernels import backward_by_source

    layout = EdgeLayout.from_edge_index(torch.randint(0, 6, (2, 60)), 7)[0].to(DEVICE)
    grad, e_hat = (torch.randn(60, D, device=DEVICE) for _ in range(2))
    grad_total = torch.randn(7, D, device=DEVICE)
    of_gated, of_source = (torch.full((8, D), torch.nan, device=DEVICE) for _ in range(2))
    backward_by_source[(1, programs)](
        grad, e_hat, grad_total, layout.out_target, layout.out_order, layout.out_ptr, of_gated, of_source, 7,
        -(-7 // programs), D=D, FAST=False, BLOCK_E=4, BLOCK_D=16,
    )  # fmt: skip
    zeros = torch.zeros(7, D, device=DEVICE)
    torch.testing.assert_close(of_source[:7], zeros.index_add(0, layout.source, grad))
    wanted = zeros.index_add(0, layout.source, e_hat.sigmoid() * grad_total[layout.target])
    torch.testing.assert_close(of_gated[:7], wanted)
    assert of_gated[7].isnan().all()
    assert of_source[7].isnan().all()


@pytest.mark.parametrize("outlier", [1.0, 1e4])
def test_statistics_do_not_depend_on_which_row_they_are_counted_from(outlier):
    from lrga.ops.gated.kernels import forward_by_target

    layout = EdgeLayout.from_edge_index(torch.randint(0, 6, (2, 90)), 6)[0].to(DEVICE)
    e_hat = torch.randn(90, D, device=DEVICE) + 50
    e_hat[0] += outlier  # the row that the first program counts from
    nodes = torch.randn(6, D, device=DEVICE)
    mean, below = (torch.full((6, D), torch.nan, device=DEVICE) for _ in range(2))
    counts, parts = torch.full((2,), torch.nan, device=DEVICE), torch.full((2, 2, D), torch.nan, device=DEVICE)
    forward_by_target[(1, 2)](
        e_hat, nodes, nodes, nodes, None, layout.source, layout.in_ptr, e_hat, mean, below, counts, parts, 6, 3,
        D, D, D, D=D, JOIN=False, STATISTICS=True, FAST=False, BLOCK_E=4, BLOCK_D=16,
    )  # fmt: skip
    for place, (first, end) in enumerate(
        zip(layout.in_ptr[[0, 3]].tolist(), layout.in_ptr[[3, 6]].tolist(), strict=True)
    ):
        rows = e_hat[first:end].double()
        assert counts[place] == end - first
        torch.testing.assert_close(parts[0, place].double(), rows.mean(0), rtol=1e-5, atol=0)
        squares = (rows - rows.mean(0)).square().sum(0)
        torch.testing.assert_close(parts[1, place].double(), squares, rtol=1e-4, atol=0)


def finished(parts, *, momentum=0.1, on_device=False):
    """finish_statistics on the statistics of some sets of rows."""
    from lrga.ops.gated.kernels import finish_statistics

    counts = torch.tensor([float(len(p)) for p in parts], device=DEVICE)
    means = torch.stack([p.mean(0) if len(p) else torch.zeros(D) for p in parts])
    squares = torch.stack([(p - p.mean(0)).square().sum(0) if len(p) else torch.zeros(D) for p in parts])
    partials = torch.stack([means, squares]).to(DEVICE)
    old = torch.arange(D, dtype=torch.float32, device=DEVICE), torch.ones(D, device=DEVICE) * 4
    statistics, running = torch.full((3, D), torch.nan, device=DEVICE), torch.full((2, D), torch.nan, device=DEVICE)
    rate = torch.tensor(momentum, device=DEVICE) if on_device else None
    finish_statistics[(1,)](
        counts, partials, *old, rate, statistics, running, len(parts), momentum, 1e-5,
        D=D, TRAINING=True, BLOCK_P=4, BLOCK_D=16,
    )  # fmt: skip
    return statistics.cpu(), running.cpu(), [t.cpu() for t in old]


@pytest.mark.parametrize(
    ("sizes", "on_device"), [([1, 1], True), ([0, 5, 0, 2], False), ([4, 0, 0, 0, 7, 1, 9, 2, 3, 11], True)]
)
def test_statistics_of_parts_join_to_those_of_all_rows(sizes, on_device):
    parts = [torch.randn(n, D) * 3 + 100 for n in sizes]
    rows = torch.cat(parts).double()
    statistics, running, (mean, var) = finished(parts, on_device=on_device)
    torch.testing.assert_close(statistics[0].double(), rows.mean(0), rtol=1e-6, atol=0)
    wanted = (rows.var(0, correction=0) + 1e-5).rsqrt()
    torch.testing.assert_close(statistics[1].double(), wanted, rtol=1e-4, atol=0)
    assert torch.allclose(statistics[2], torch.tensor(1 / len(rows)))
    torch.testing.assert_close(running[0].double(), 0.9 * mean + 0.1 * rows.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(running[1].double(), 0.9 * var + 0.1 * rows.var(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [[0], [0, 1, 0]])
def test_fewer_than_two_rows_leave_the_running_statistics_in_their_place(sizes):
    statistics, running, (mean, var) = finished([torch.randn(n, D) for n in sizes])
    assert torch.equal(statistics[0], mean)
    torch.testing.assert_close(statistics[1], (var + 1e-5).rsqrt())
    assert not statistics[2].any()
    assert torch.equal(running, torch.stack([mean, var]))


def test_the_edge_output_is_zero_in_padding_and_writes_nothing_behind_the_end():
    from lrga.ops.gated.kernels import edge_output

    e_hat, edge_attr = torch.randn(7, D, device=DEVICE), torch.randn(7, D, device=DEVICE)
    out = torch.full((9, D), torch.nan, device=DEVICE)
    in_ptr = torch.tensor([0, 2, 4], device=DEVICE)
    edge_output[(3,)](
        e_hat, edge_attr, None, e_hat, None, None, in_ptr, out, 2, 7 * D,
        D=D, RESIDUAL=True, BLOCK=16,
    )  # fmt: skip
    torch.testing.assert_close(out[:4], (edge_attr + e_hat.relu())[:4])
    assert not out[4:7].any()
    assert out[7:].isnan().all()


def test_a_number_that_is_none_stays_none_in_the_edge_output():
    from lrga.ops.gated.kernels import edge_output

    e_hat = torch.tensor([[torch.nan, 1.0, -1.0, torch.inf, 0.0]], device=DEVICE)
    out, in_ptr = torch.empty_like(e_hat), torch.tensor([0, 1], device=DEVICE)
    edge_output[(1,)](
        e_hat, e_hat, None, e_hat, None, None, in_ptr, out, 1, D,
        D=D, RESIDUAL=False, BLOCK=16,
    )  # fmt: skip
    torch.testing.assert_close(out, e_hat.relu(), equal_nan=True)
