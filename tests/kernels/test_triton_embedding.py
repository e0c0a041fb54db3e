"""Sums over the rows of each category by Triton's kernel: in its interpreter here, on a GPU with `pytest -m gpu`."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.kernels import triton_embedding
from lrga.kernels.triton_embedding import launch_category_sums

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


pytestmark = pytest.mark.usefixtures("poisoned")


def check(x, index, categories):
    out = launch_category_sums(x, index, categories)
    assert out.dtype == x.dtype
    exact = torch.zeros(categories, x.size(1), dtype=torch.float64)
    exact.index_add_(0, index.cpu(), x.double().cpu())
    size = max(1.0, float(exact.abs().max())) if exact.numel() else 1.0
    tolerance = TOLERANCE[x.dtype]
    torch.testing.assert_close(out.double().cpu(), exact, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("most", [1, 3, 512])
@pytest.mark.parametrize("rows", [0, 1, 70, 200])
@pytest.mark.parametrize(("categories", "width"), [(1, 1), (3, 7), (5, 33), (2, 70)])
def test_rows_are_summed_by_category(monkeypatch, rows, categories, width, most):
    monkeypatch.setattr(triton_embedding, "MOST_PARTS", most)
    check(torch.randn(rows, width), torch.randint(0, categories, (rows,)), categories)


def test_categories_without_rows_are_zero():
    out = launch_category_sums(torch.randn(9, 4), torch.full((9,), 2), 4)
    assert (out[[0, 1, 3]] == 0).all()


def test_rows_that_lie_apart_and_narrow_numbers():
    check(torch.randn(80, 20)[:, 3:12], torch.randint(0, 3, (160,))[::2], 3)
    check(torch.randn(9).expand(80, 9), torch.randint(0, 3, (80,)), 3)
    for dtype in (torch.bfloat16, torch.float16):
        check(torch.randn(80, 20).to(dtype), torch.randint(0, 3, (80,)), 3)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("categories", "width"), [(1, 80), (3, 100), (28, 65), (64, 7)])
@pytest.mark.parametrize("rows", [1, 7_731, 390_001])
def test_rows_are_summed_by_category_on_a_gpu(rows, categories, width, dtype):
    x = torch.randn(rows, width, device="cuda").to(dtype)
    index = torch.randint(0, categories, (rows,), device="cuda")
    check(x, index, categories)
    assert torch.equal(launch_category_sums(x, index, categories), launch_category_sums(x, index, categories))
