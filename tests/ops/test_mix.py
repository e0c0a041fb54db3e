"""A linear map of matrices side by side, without their concatenation."""

import pytest
import torch
import torch.nn.functional as F

from lrga.ops import linear as linear_ops
from lrga.ops.linear import mixed_linear


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch):
    monkeypatch.setattr(linear_ops, "MIN_MIXED_NUMBERS", 0)


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("widths", [(3,), (2, 1), (4, 0, 5)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_values_and_gradients_equal_those_of_the_concatenation(rows, widths, has_bias):
    parts = [torch.randn(rows, w, dtype=torch.float64, requires_grad=True) for w in widths]
    weight = torch.randn(6, sum(widths), dtype=torch.float64, requires_grad=True)
    bias = torch.randn(6, dtype=torch.float64, requires_grad=True) if has_bias else None
    out = mixed_linear(parts, weight, bias)
    expected = F.linear(torch.cat(parts, -1), weight, bias)
    torch.testing.assert_close(out, expected)
    inputs = [*parts, weight, *([bias] if has_bias else [])]
    upstream = torch.randn_like(out)
    for ours, theirs in zip(
        torch.autograd.grad(out, inputs, upstream), torch.autograd.grad(expected, inputs, upstream), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_second_derivatives_are_right():
    parts = [torch.randn(4, w, dtype=torch.float64, requires_grad=True) for w in (2, 3)]
    weight = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, requires_grad=True)

    def function(a, b, w, c):
        return mixed_linear([a, b], w, c).pow(2)

    assert torch.autograd.gradgradcheck(function, (*parts, weight, bias))


def test_small_matrices_are_put_side_by_side(monkeypatch):
    monkeypatch.setattr(linear_ops, "MIN_MIXED_NUMBERS", 1 << 24)
    monkeypatch.setattr(linear_ops, "_in_one_type", None)  # would fail if it were called
    assert mixed_linear([torch.randn(4, 2), torch.randn(4, 3)], torch.randn(2, 5), None).shape == (4, 2)


@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
@pytest.mark.parametrize("kinds", [("float32", "float32"), ("float64", "float64"), ("bfloat16", "bfloat16"),
                                   ("float32", "bfloat16"), ("float32", "float64"),
                                   ("bfloat16", "float64")])  # fmt: skip
@pytest.mark.parametrize("weight_kind", ["float32", "float64", "bfloat16"])
def test_the_result_has_the_same_type_at_every_size(monkeypatch, kinds, weight_kind, autocast):
    parts = [torch.randn(4, w, dtype=getattr(torch, kind)) for w, kind in zip((2, 3), kinds, strict=True)]
    weight = torch.randn(2, 5, dtype=getattr(torch, weight_kind))
    found = []
    for worth_it in (0, 1 << 24):
        monkeypatch.setattr(linear_ops, "MIN_MIXED_NUMBERS", worth_it)
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            try:
                found.append(mixed_linear(parts, weight, weight[:, 0]))
            except RuntimeError as error:
                found.append(str(error))
    large, small = found
    if isinstance(small, str):
        assert large == small
    else:
        torch.testing.assert_close(large, small, rtol=2e-2, atol=2e-2)
        assert large.dtype == small.dtype
