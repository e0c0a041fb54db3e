"""What GatedGCN's kernels are chosen and divided by, and the cases that test_gated_gpu.py does not reach."""

import pytest
import torch

from lrga.ops._triton import HAS_TRITON
from lrga.ops.gated import gpu as gated_gpu

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
D = 5
TILES = gated_gpu.ProductTiles(rows=64, programs=2)


def test_two_blocks_hold_the_columns_and_waste_no_more_than_one():
    for width in range(1, 130):
        first, second = gated_gpu.blocks_of(width)
        assert first >= 16
        assert first & (first - 1) == 0
        assert second == 0 or (second >= 16 and second & (second - 1) == 0)
        assert width <= first + second <= max(16, 1 << (width - 1).bit_length())


@pytest.mark.parametrize(("room", "rows"), [(232_448, 64), (101_376, 32), (0, 32)])
def test_tiles_are_smaller_where_shared_memory_is_scarce(monkeypatch, room, rows):
    assert gated_gpu.tiles_on(torch.device("cpu"), TILES) == TILES
    monkeypatch.setattr(gated_gpu, "shared_memory", lambda _: room)
    assert gated_gpu.tiles_on(torch.device("cuda", 0), TILES) == gated_gpu.ProductTiles(rows=rows, programs=2)
    assert gated_gpu.tiles_on(torch.device("cuda", 0), gated_gpu.ProductTiles(rows=16)).rows == 16


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


def test_a_number_that_is_none_stays_none_in_the_edge_output():
    from lrga.ops.gated.kernels import edge_output

    e_hat = torch.tensor([[torch.nan, 1.0, -1.0, torch.inf, 0.0]], device=DEVICE)
    out, in_ptr = torch.empty_like(e_hat), torch.tensor([0, 1], device=DEVICE)
    edge_output[(1,)](
        e_hat, e_hat, None, e_hat, None, None, in_ptr, out, 1, D,
        D=D, RESIDUAL=False, BLOCK=16,
    )  # fmt: skip
    torch.testing.assert_close(out, e_hat.relu(), equal_nan=True)
