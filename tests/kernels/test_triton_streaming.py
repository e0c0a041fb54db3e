"""Single kernels of the streaming attention; together they are tested in test_streaming.py."""

import pytest
import torch

pytest.importorskip("triton")

import triton.language as tl

from lrga.kernels import triton_streaming as kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_the_last_pass_applies_the_square_and_leaves_m4_alone():
    n, rank, block = 37, 3, 16
    out = torch.rand(n, 2 * rank, device=DEVICE)
    u, m4 = out[:, :rank].clone(), out[:, rank:].clone()
    square, u_sum, v_sum = torch.rand(rank, rank), torch.rand(rank), torch.rand(rank)
    totals = torch.zeros(1, block * block + 2 * block)
    totals[0, : block * block].view(block, block)[:rank, :rank] = square
    totals[0, block * block : block * block + rank] = u_sum
    totals[0, block * block + block : block * block + block + rank] = v_sum
    kernels.apply_rows[2, 1](
        out, totals.to(DEVICE), n, 1e-6, H=1, K=rank, B=block, HALF=False, PRECISION="tf32x3", BM=32
    )
    eta = float(u_sum @ v_sum) / n
    torch.testing.assert_close(out[:, :rank].cpu(), u.cpu() @ square / (eta + 1e-6), rtol=1e-4, atol=1e-4)
    assert torch.equal(out[:, rank:], m4)


def test_columns_that_only_fill_a_product_up_are_not_taken_for_numbers():
    n, rank, columns, block = 37, 3, 8, 16
    maps, bias = torch.randn(n, 4, columns, device=DEVICE), torch.randn(4 * rank, device=DEVICE)
    maps[:, :, rank:] = float("nan")
    out = torch.empty(n, 2 * rank, device=DEVICE)
    parts = torch.ones(1, 2, block * block + 2 * block, device=DEVICE)
    kernels.reduce_maps[2, 1](
        maps, bias, out, parts, n,
        STRIDE=4 * columns, H=1, K=rank, C=columns, B=block, ADD=True, COMPUTE=tl.float32, PRECISION="tf32x3", BM=32,
    )  # fmt: skip
    u, v, z, m4 = torch.relu(maps[:, :, :rank] + bias.view(4, rank)).unbind(1)
    torch.testing.assert_close(out, torch.cat([u, m4], dim=1))
    square, u_sum, v_sum = (parts.sum(1)[0] - 2).split([block * block, block, block])  # two programs added to ones
    torch.testing.assert_close(square.view(block, block)[:rank, :rank], v.t() @ z, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(u_sum[:rank], u.sum(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(v_sum[:rank], v.sum(0), rtol=1e-4, atol=1e-4)
    assert (square.view(block, block)[rank:] == 0).all()


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
