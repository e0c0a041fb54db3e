"""Single kernels of the attention; together they are tested in test_fused.py."""

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
kernels = pytest.importorskip("lrga.ops.attention.batched_kernels")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_sums_over_tiles_are_those_of_each_graph():
    parts = torch.randn(2, 9, 37, device=DEVICE)
    ptr = torch.tensor([0, 0, 7, 9], device=DEVICE)
    totals = torch.full((2, 3, 37), torch.nan, device=DEVICE)
    kernels.sum_tiles[3, 2, 3](parts, totals, ptr, 37, 9, ROWS=4, BF=16)
    torch.testing.assert_close(totals[:, 0], torch.zeros_like(totals[:, 0]))
    torch.testing.assert_close(totals[:, 1], parts[:, :7].sum(1))
    torch.testing.assert_close(totals[:, 2], parts[:, 7:].sum(1))


@triton.jit
def round_all(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, kernels._rounded(tl.load(x + at), "tf32"))


def test_rounding_to_tf32_is_to_nearest_and_keeps_what_is_not_finite():
    values = torch.cat([torch.randn(60), torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0])]).to(DEVICE)
    out = torch.empty_like(values)
    round_all[(1,)](values, out, N=64)
    assert out[60].isnan()
    assert out[61:].tolist() == [float("inf"), float("-inf"), 0.0]
    finite, rounded = values[:60].double(), out[:60].double()
    assert ((rounded - finite).abs() <= finite.abs() * 2.0**-11).all()
    assert (out[:60].view(torch.int32) & 0x1FFF).count_nonzero() == 0
