"""Single kernels of the backward pass of the streaming attention; together they are tested in test_streaming.py."""

import pytest
import torch

pytest.importorskip("triton")

import triton.language as tl

from lrga.ops.attention import streaming_kernels as kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("add", [True, False])
def test_columns_that_only_fill_a_product_up_are_not_taken_for_numbers(add):
    n, rank, columns, block, programs = 37, 3, 8, 16, 2
    maps, bias = torch.randn(n, 3, columns, device=DEVICE), torch.randn(4 * rank, device=DEVICE)
    maps[:, :, rank:] = float("nan")
    grad, out = torch.randn(n, 2 * rank, device=DEVICE), torch.randn(n, 2 * rank, device=DEVICE)
    parts = torch.full((1, programs, block * block), float("nan"), device=DEVICE)
    shape = {"STRIDE": 3 * columns, "H": 1, "K": rank, "C": columns, "B": block, "PRECISION": "tf32x3", "BM": 32}
    kernels.reduce_gradient_maps[programs, 1](maps, bias, grad, parts, n, COMPUTE=tl.float32, STAGES=2, **shape)
    u, v, z = torch.relu(maps[:, :, :rank] + bias.view(4, rank)[:3]).unbind(1)
    da, dm = grad[:, :rank], grad[:, rank:]
    t = parts.sum(1).view(block, block)
    torch.testing.assert_close(t[:rank, :rank], u.t() @ da, rtol=1e-4, atol=1e-4)
    assert (t[rank:] == 0).all()
    s, shifts = torch.zeros(2, block, block), torch.zeros(2, block)
    s[:, :rank, :rank], shifts[:, :rank] = torch.randn(2, rank, rank), torch.randn(2, rank)
    factors = torch.cat([s.flatten(), shifts.flatten()])[None].to(DEVICE)
    gradients = torch.full((n, 4 * rank + 5), float("nan"), device=DEVICE)
    bias_parts = torch.full((1, programs, 4 * block), 1.0 if add else float("nan"), device=DEVICE)
    kernels.gradient_maps[2 * programs, 1](
        maps, bias, out, grad, factors, gradients, bias_parts, n, int(add),
        TARGET=gradients.stride(0), **shape,
    )  # fmt: skip
    (a, b), (c, d) = s[:, :rank, :rank].to(DEVICE), shifts[:, :rank].to(DEVICE)
    right = torch.cat(
        [(da @ a.t() + c) * (u > 0), (z @ b.t() + d) * (v > 0), (v @ b) * (z > 0), dm * (out[:, rank:] > 0)], dim=1
    )
    torch.testing.assert_close(gradients[:, : 4 * rank], right, rtol=1e-4, atol=1e-4)
    assert gradients[:, 4 * rank :].isnan().all()
    sums = bias_parts.sum(1).view(4, block)[:, :rank].flatten() - (programs if add else 0)
    torch.testing.assert_close(sums, right.sum(0), rtol=1e-4, atol=1e-4)


def test_factors_of_the_gradient_are_those_of_the_formula():
    n, rank, block = 11, 3, 16
    square, t, u_sum, v_sum = torch.rand(rank, rank), torch.rand(rank, rank), torch.rand(rank), torch.rand(rank)
    totals, t_totals = torch.zeros(1, block * block + 2 * block), torch.zeros(1, block * block)
    totals[0, : block * block].view(block, block)[:rank, :rank] = square
    totals[0, block * block : block * block + rank] = u_sum
    totals[0, block * block + block : block * block + block + rank] = v_sum
    t_totals[0].view(block, block)[:rank, :rank] = t
    factors = torch.empty(1, 2 * block * block + 2 * block, device=DEVICE)
    kernels.gradient_factors[1,](
        totals.to(DEVICE), t_totals.to(DEVICE), factors, n, 1e-6, B=block, HALF=False, PRECISION="tf32x3"
    )
    c = 1 / (float(u_sum @ v_sum) / n + 1e-6)
    alpha = -float((c * square * c * t).sum()) / n
    c_s, c_t, u_shift, v_shift = factors[0].cpu().split([block * block, block * block, block, block])
    torch.testing.assert_close(c_s.view(block, block)[:rank, :rank], c * square, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(c_t.view(block, block)[:rank, :rank], c * t, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(u_shift[:rank], alpha * v_sum, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(v_shift[:rank], alpha * u_sum, rtol=1e-4, atol=1e-4)
