"""Single kernels of the attention where test_fused.py and test_streaming.py do not reach: rounding, filled columns."""

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
kernels = pytest.importorskip("lrga.ops.attention.batched_kernels")
streaming = pytest.importorskip("lrga.ops.attention.streaming_kernels")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


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


@pytest.mark.parametrize("by_head", [True, False])
def test_maps_are_filled_up_with_zeros_and_rounded_to_nearest(by_head):
    heads, rank, channels, block = 2, 3, 5, 16
    weight, bias = torch.randn(channels, heads * 4 * rank, device=DEVICE).t(), torch.randn(heads * 4 * rank)
    shape = (heads, 4, block) if by_head else (4, heads, block)
    wide = torch.full((*shape, channels), float("nan"), device=DEVICE)
    wide_bias = torch.full(shape, float("nan"), device=DEVICE)
    streaming.fill_maps[heads * 4 * block,](
        weight, bias.to(DEVICE), wide, wide_bias, *weight.stride(),
        D=channels, H=heads, K=rank, B=block, BY_HEAD=by_head, PRECISION="tf32", BD=8,
    )  # fmt: skip
    if not by_head:
        wide, wide_bias = wide.transpose(0, 1), wide_bias.transpose(0, 1)
    right = weight.reshape(heads, 4, rank, channels)
    ours = wide[:, :, :rank]
    assert ((ours - right).abs() <= right.abs() * 2**-11).all()  # half of the last of TF32's ten bits
    assert (ours.contiguous().view(torch.int32) & 0x1FFF == 0).all()
    assert (wide[:, :, rank:] == 0).all()
    assert torch.equal(wide_bias[:, :, :rank].cpu(), bias.view(heads, 4, rank))
    assert (wide_bias[:, :, rank:] == 0).all()


@pytest.mark.parametrize("add", [True, False])
def test_columns_that_only_fill_a_product_up_are_not_taken_for_numbers(add):
    n, rank, columns, block, programs = 37, 3, 8, 16, 2
    maps, bias = torch.randn(n, 3, columns, device=DEVICE), torch.randn(4 * rank, device=DEVICE)
    maps[:, :, rank:] = float("nan")
    grad, out = torch.randn(n, 2 * rank, device=DEVICE), torch.randn(n, 2 * rank, device=DEVICE)
    parts = torch.full((1, programs, block * block), 1.0 if add else float("nan"), device=DEVICE)
    shape = {
        "STRIDE": 3 * columns, "H": 1, "K": rank, "C": columns, "B": block, "PRECISION": "tf32x3", "BM": 32,
        "STAGES": 2,
    }  # fmt: skip
    streaming.reduce_gradient_maps[programs, 1](maps, bias, grad, parts, n, int(add), COMPUTE=tl.float32, **shape)
    u, v, z = torch.relu(maps[:, :, :rank] + bias.view(4, rank)[:3]).unbind(1)
    da, dm = grad[:, :rank], grad[:, rank:]
    t = parts.sum(1).view(block, block) - (programs if add else 0)
    torch.testing.assert_close(t[:rank, :rank], u.t() @ da, rtol=1e-4, atol=1e-4)
    assert (t[rank:] == 0).all()
    f, shifts = torch.zeros(3, block, block), torch.zeros(3, block)
    f[:, :rank, :rank], shifts[:, :rank] = torch.randn(3, rank, rank), torch.randn(3, rank)
    gradients = torch.full((n, 4 * columns + 5), float("nan"), device=DEVICE)
    bias_parts = torch.full((1, programs, 4, block), 1.0 if add else float("nan"), device=DEVICE)
    streaming.gradient_maps[4 * programs, 1](
        maps, bias, out, grad, f.to(DEVICE), shifts.to(DEVICE), gradients, bias_parts, n, int(add),
        TARGET=gradients.stride(0), **shape,
    )  # fmt: skip
    products = [da, z, v]
    right = [
        (q @ f[i, :rank, :rank].to(DEVICE) + shifts[i, :rank].to(DEVICE)) * (own > 0)
        for i, (q, own) in enumerate(zip(products, (u, v, z), strict=True))
    ]
    right = torch.cat([*right, dm * (out[:, rank:] > 0)], dim=1)
    padded = gradients[:, : 4 * columns].view(n, 4, columns)
    torch.testing.assert_close(padded[:, :, :rank].flatten(1), right, rtol=1e-4, atol=1e-4)
    assert (padded[:, :, rank:] == 0).all()
    assert gradients[:, 4 * columns :].isnan().all()
    sums = bias_parts.sum(1).view(4, block)[:, :rank].flatten() - (programs if add else 0)
    torch.testing.assert_close(sums, right.sum(0), rtol=1e-4, atol=1e-4)
