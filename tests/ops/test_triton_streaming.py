"""Single kernels of the streaming attention; together they are tested in test_streaming.py."""

import pytest
import torch

pytest.importorskip("triton")

from lrga.ops.attention import streaming_kernels as kernels

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


@pytest.mark.parametrize("maps", [3, 4])
def test_maps_are_filled_up_with_zeros_and_rounded_to_nearest(maps):
    heads, rank, channels, block = 2, 3, 5, 16
    weight, bias = torch.randn(channels, heads * 4 * rank, device=DEVICE).t(), torch.randn(heads * 4 * rank)
    wide = torch.full((heads, maps, block, channels), float("nan"), device=DEVICE)
    wide_bias = torch.full((heads, maps, block), float("nan"), device=DEVICE)
    kernels.fill_maps[heads * maps * block,](
        weight, bias.to(DEVICE), wide, wide_bias, *weight.stride(),
        D=channels, K=rank, B=block, MAPS=maps, PRECISION="tf32", BD=8,
    )  # fmt: skip
    right = weight.reshape(heads, 4, rank, channels)[:, :maps]
    ours = wide[:, :, :rank]
    assert ((ours - right).abs() <= right.abs() * 2**-11).all()  # half of the last of TF32's ten bits
    assert (ours.contiguous().view(torch.int32) & 0x1FFF == 0).all()
    assert (wide[:, :, rank:] == 0).all()
    assert torch.equal(wide_bias[:, :, :rank].cpu(), bias.view(heads, 4, rank)[:, :maps])
    assert (wide_bias[:, :, rank:] == 0).all()
