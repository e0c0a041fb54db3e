"""A single kernel of the streaming attention; together they are tested in test_streaming.py."""

import pytest
import torch

pytest.importorskip("triton")

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
