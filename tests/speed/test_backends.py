"""What is said of the choices is what the operations choose."""

import pytest
import torch

from lrga.errors import OptionError
from lrga.speed import backends
from lrga.speed.backends import explain_choices


def said(**options):
    return {choice.operation: choice for choice in explain_choices(options.pop("device", "cpu"), **options)}


def test_on_a_cpu_every_operation_says_that_it_is_one():
    choices = said()
    assert len(choices) == 9
    assert choices["sums over neighbours"].taken == "sparse products"
    for name in ("attention, many small graphs", "attention, one large graph", "edges of GatedGCN"):
        assert choices[name].why == "the tensors are on the CPU"
    assert (choices["training step"].taken, choices["training step"].why) == ("plain loop", "there is no GPU")


def test_double_precision_is_the_reason_where_it_is():
    choices = said(dtype="float64")
    why = "the tensors are on the CPU; also float64 is computed by PyTorch"
    assert choices["attention, one large graph"].why == choices["batch normalisation"].why == why


def test_a_rank_too_large_is_named_after_what_the_machine_lacks(monkeypatch):
    names = ("attention, many small graphs", "attention, one large graph")
    rank = "rank 100, the kernels hold up to 64"
    assert {said(rank=100)[name].why for name in names} == {f"the tensors are on the CPU; also {rank}"}
    monkeypatch.setattr("lrga.ops._triton.has_triton", lambda: False)
    wanted = f"the tensors are on the CPU; also Triton is not installed; also {rank}"
    assert {said(rank=100)[name].why for name in names} == {wanted}


@pytest.mark.gpu
def test_on_a_gpu_a_rank_too_large_is_the_only_reason():
    choices = said(device="cuda", rank=100)
    assert choices["attention, one large graph"].why == "rank 100, the kernels hold up to 64"
    both = said(device="cuda", rank=100, dtype="float64")["attention, one large graph"].why
    assert both == "float64 is computed by PyTorch; also rank 100, the kernels hold up to 64"


def test_half_precision_has_no_sparse_products_on_a_cpu():
    assert said(dtype="bfloat16")["sums over neighbours"].taken == "PyTorch, gather and add"


def test_a_missing_triton_is_the_reason(monkeypatch):
    monkeypatch.setattr(backends, "why_not_triton", lambda *tensors: "Triton is not installed")
    assert said()["edges of GatedGCN"].why == "the tensors are on the CPU; also Triton is not installed"


@pytest.mark.parametrize("wrong", [{"dtype": "int8"}, {"width": 0}, {"rank": 0}])
def test_impossible_shapes_are_refused(wrong):
    with pytest.raises(OptionError):
        explain_choices("cpu", **wrong)


@pytest.mark.gpu
def test_on_a_gpu_kernels_are_taken():
    before = torch.cuda.memory_allocated()
    choices = said(device="cuda")
    assert choices["attention, many small graphs"].taken == "triton (fused)"
    assert choices["attention, one large graph"].taken == "triton (streaming)"
    assert {choices[name].taken for name in ("sums over neighbours", "edges of GatedGCN")} == {"triton"}
    assert choices["training step"].taken == "captured"
    wide = said(device="cuda", width=256, rank=50)["attention, many small graphs"]
    assert wide.taken == "triton (attention only)"
    assert "256 channels" in wide.why
    assert torch.cuda.memory_allocated() - before < 2**26  # what is asked about is not built
