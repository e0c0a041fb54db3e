"""When the Triton kernels may be used."""

from types import SimpleNamespace

import pytest
import torch

from lrga.kernels import support
from lrga.kernels.support import dot_precision, runs_on_gpu, shared_memory, why_not_triton


def test_float64_is_left_to_pytorch():
    assert "float64" in why_not_triton(torch.zeros(1, dtype=torch.float64))


def test_a_missing_triton_is_named(monkeypatch):
    monkeypatch.setattr(support, "HAS_TRITON", False)
    assert why_not_triton(torch.zeros(1)) == "Triton is not installed"


@pytest.mark.parametrize("interpreted", [True, False])
def test_a_cpu_runs_them_in_the_interpreter_only(monkeypatch, interpreted):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
    assert (why_not_triton(torch.zeros(1)) is None) is interpreted


def test_the_automatic_choice_on_a_cpu_is_never_triton():
    assert not runs_on_gpu(torch.zeros(1))


def test_integers_beside_the_features_are_no_obstacle():
    pytest.importorskip("triton")
    assert "float" not in (why_not_triton(torch.zeros(1), torch.zeros(1, dtype=torch.int64)) or "")


def test_the_meta_device_is_named():
    pytest.importorskip("triton")
    assert why_not_triton(torch.zeros(1, device="meta")) == "the tensors are on meta"


def test_products_follow_the_switch_of_pytorch():
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        assert dot_precision(torch.float32) == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = False
        assert dot_precision(torch.float32) == "tf32x3"
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize(("properties", "room"), [({"shared_memory_per_block_optin": 101_376}, 101_376), ({}, 0)])
def test_shared_memory_is_what_the_device_says(monkeypatch, properties, room):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**properties))
    assert shared_memory.__wrapped__(torch.device("cuda", 0)) == room
    assert shared_memory.__wrapped__(torch.device("cpu")) > 1 << 40
