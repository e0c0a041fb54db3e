"""Single kernels of the attention; together they are tested in test_fused.py and test_streaming.py."""

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
kernels = pytest.importorskip("lrga.ops.attention.batched_kernels")
streaming = pytest.importorskip("lrga.ops.attention.streaming_kernels")

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


def test_the_last_pass_applies_the_square_and_leaves_m4_alone():
    n, rank, block = 37, 3, 16
    out = torch.rand(n, 2 * rank, device=DEVICE)
    u, m4 = out[:, :rank].clone(), out[:, rank:].clone()
    square, u_sum, v_sum = torch.rand(rank, rank), torch.rand(rank), torch.rand(rank)
    totals = torch.zeros(1, block * block + 2 * block)
    totals[0, : block * block].view(block, block)[:rank, :rank] = square
    totals[0, block * block : block * block + rank] = u_sum
    totals[0, block * block + block : block * block + block + rank] = v_sum
    streaming.apply_rows[2, 1](
        out, totals.to(DEVICE), n, 1e-6, H=1, K=rank, B=block, HALF=False, PRECISION="tf32x3", BM=32
    )
    eta = float(u_sum @ v_sum) / n
    torch.testing.assert_close(out[:, :rank].cpu(), u.cpu() @ square / (eta + 1e-6), rtol=1e-4, atol=1e-4)
    assert torch.equal(out[:, rank:], m4)


def test_maps_are_filled_up_with_zeros_and_rounded_to_nearest():
    heads, rank, channels, block = 2, 3, 5, 16
    weight, bias = torch.randn(channels, heads * 4 * rank, device=DEVICE).t(), torch.randn(heads * 4 * rank)
    wide = torch.full((heads, 4, block, channels), float("nan"), device=DEVICE)
    wide_bias = torch.full((heads, 4, block), float("nan"), device=DEVICE)
    streaming.fill_maps[heads * 4 * block,](
        weight, bias.to(DEVICE), wide, wide_bias, *weight.stride(),
        D=channels, K=rank, B=block, PRECISION="tf32", BD=8,
    )  # fmt: skip
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
    gradients = torch.full((n, 4 * rank + 5), float("nan"), device=DEVICE)
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
    factors, shifts = torch.empty(1, 3, block, block, device=DEVICE), torch.empty(1, 3, block, device=DEVICE)
    streaming.gradient_factors[1,](
        totals.to(DEVICE), t_totals.to(DEVICE), factors, shifts, n, 1e-6, B=block, HALF=False, PRECISION="tf32x3"
    )
    c = 1 / (float(u_sum @ v_sum) / n + 1e-6)
    alpha = -float((c * square * c * t).sum()) / n
    of_u, of_v, of_z = factors[0, :, :rank, :rank].cpu()
    torch.testing.assert_close(of_u, c * square.t(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(of_v, c * t.t(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(of_z, c * t, rtol=1e-4, atol=1e-4)
    right = torch.stack([alpha * v_sum, alpha * u_sum, torch.zeros(rank)])
    torch.testing.assert_close(shifts[0, :, :rank].cpu(), right, rtol=1e-4, atol=1e-4)
