"""Blocks of the Triton kernels."""

import pytest
import torch

pytest.importorskip("triton")

from lrga.ops._triton import block, compute_type
from lrga.ops.attention.batched import _constants


@pytest.mark.parametrize(("size", "expected"), [(1, 16), (16, 16), (17, 32), (30, 32), (50, 64), (100, 128)])
def test_blocks_are_powers_of_two_that_hold_all_columns(size, expected):
    assert block(size) == expected


def test_half_precision_multiplies_sums_in_tf32():
    assert _constants(30, 30, torch.bfloat16)["PRECISION"] == "tf32"


def test_float32_follows_the_switch_of_pytorch():
    assert not torch.backends.cuda.matmul.allow_tf32
    assert _constants(30, 30, torch.float32)["PRECISION"] == "tf32x3"


@pytest.mark.parametrize(("interpreted", "kind"), [("1", "fp32"), ("0", "bf16")])
def test_the_interpreter_multiplies_bfloat16_as_float32(monkeypatch, interpreted, kind):
    monkeypatch.setenv("TRITON_INTERPRET", interpreted)
    assert str(compute_type(torch.bfloat16)) == kind
    assert str(compute_type(torch.float16)) == "fp16"
