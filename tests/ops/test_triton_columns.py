"""Sums over rows and filling up by Triton's kernels: in its interpreter here, on a GPU with `pytest -m gpu`."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.ops.linear import Plan, launch_column_sum, plan

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-3}
PLANS = [Plan(1, 16, 8, 4), Plan(3, 16, 16, 4), Plan(5, 32, 2, 4)]


pytestmark = pytest.mark.usefixtures("poisoned")


def check(x, how=None):
    out = launch_column_sum(x, how)
    assert out.dtype == x.dtype
    expected = x.double().sum(1)
    scale = float(x.double().abs().sum(1).max()) if out.numel() and x.size(1) else 1.0
    tolerance = TOLERANCE[x.dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=1e-6 * scale)
    return out


@pytest.mark.parametrize("how", [None, *PLANS])
@pytest.mark.parametrize("width", [1, 7, 20, 33])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_columns_are_summed(rows, width, how):
    check(torch.randn(1, rows, width), how)


@pytest.mark.parametrize("how", [None, *PLANS])
def test_no_rows_sum_to_zero_and_no_columns_to_nothing(how):
    assert torch.equal(check(torch.randn(2, 0, 5), how), torch.zeros(2, 5))
    assert check(torch.randn(1, 4, 0), how).shape == (1, 0)
    assert check(torch.randn(0, 4, 3), how).shape == (0, 3)


@pytest.mark.parametrize("how", [None, *PLANS])
def test_several_matrices_and_rows_with_gaps_between_them(how):
    wide = torch.randn(3, 21, 24)
    check(wide, how)
    check(wide[:, :, 4:15], how)
    check(wide[:, 1::2, 3:], how)
    check(wide.transpose(1, 2), how)
    check(torch.randn(1, 1, 9).expand(2, 13, 9), how)
    check(torch.randn(2, 13, 1).expand(2, 13, 9), how)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("how", [None, *PLANS])
def test_narrow_numbers_are_added_in_float32(dtype, how):
    check(torch.randn(2, 37, 19).to(dtype), how)
    many = torch.full((1, 700, 3), 1.0, dtype=dtype)  # added one by one in bfloat16 this stops at 256
    assert torch.equal(launch_column_sum(many, how), torch.full((1, 3), 700.0, dtype=dtype))


def test_many_rows_are_summed_in_parts():
    assert plan(100, 30).parts == 1
    assert plan(10_000_000, 30).parts > 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", [1, 25, 100, 320, 1001])
@pytest.mark.parametrize("rows", [0, 1, 7_731, 390_001])
def test_columns_are_summed_on_a_gpu(rows, width, dtype):
    x = torch.randn(1, rows, width, device="cuda").to(dtype)
    first = check(x)
    assert torch.equal(first, launch_column_sum(x))
    check(torch.randn(3, min(rows, 500), 2 * width, device="cuda").to(dtype)[:, :, :width])
