import re

import numpy as np
import pytest
import torch

import lrga
from lrga.errors import BatchError, DeviceError, DTypeError, OptionError, ShapeError, UnsupportedError
from lrga.ops import attention as dispatch
from lrga.ops.attention import BACKENDS, choose_implementation
from lrga.ops.attention.segments import Segments


def test_the_function_is_the_formula_for_each_graph():
    u, v, z = torch.rand(9, 2), torch.rand(9, 2), torch.rand(9, 5)
    batch = torch.tensor([0, 2, 0, 2, 2, 4, 0, 4, 2])
    out = lrga.low_rank_attention(u, v, z, batch, num_graphs=6)
    for graph in (0, 2, 4):
        nodes = (batch == graph).numpy()
        ug, vg, zg = (t.numpy()[nodes].astype(np.float64) for t in (u, v, z))
        eta = ug.sum(0) @ vg.sum(0) / len(ug)
        np.testing.assert_allclose(out.numpy()[nodes], ug @ (vg.T @ zg) / (eta + 1e-6), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_backends_compute_the_same(backend):
    if backend == "triton":
        pytest.importorskip("triton")
    u, v, z = torch.rand(7, 3), torch.rand(7, 3), torch.rand(7, 2)
    batch = torch.tensor([0, 0, 1, 1, 1, 2, 2])
    torch.testing.assert_close(
        lrga.low_rank_attention(u, v, z, batch, backend=backend), lrga.low_rank_attention(u, v, z, batch)
    )


def test_the_smallest_inputs_have_results():
    out = lrga.low_rank_attention(torch.ones(3, 0), torch.ones(3, 0), torch.ones(3, 2))
    assert torch.equal(out, torch.zeros(3, 2))
    empty = torch.ones(0, 2)
    assert lrga.low_rank_attention(empty, empty, empty).shape == (0, 2)
    none = torch.empty(0, dtype=torch.int64)
    assert lrga.low_rank_attention(empty, empty, empty, none, num_graphs=3).shape == (0, 2)
    u, v, z = torch.rand(1, 3), torch.rand(1, 3), torch.rand(1, 2)
    torch.testing.assert_close(lrga.low_rank_attention(u, v, z), z, rtol=1e-4, atol=0)


def test_mixed_precision_is_promoted():
    u, v, z = torch.rand(4, 2).double(), torch.rand(4, 2), torch.rand(4, 2)
    assert lrga.low_rank_attention(u, v, z).dtype == torch.float64


def test_eps_is_part_of_the_divisor():
    u = v = z = torch.ones(2, 1)
    torch.testing.assert_close(lrga.low_rank_attention(u, v, z, eps=2.0), torch.full((2, 1), 2 / (2 + 2.0)))


GOOD = torch.ones(4, 2)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"u": torch.ones(4, 3)}, ShapeError, r"u \[4, 3\], v \[4, 2\]"),
        ({"z": torch.ones(5, 2)}, ShapeError, r"z \[5, 2\]"),
        ({"v": torch.ones(4, 2, dtype=torch.int32)}, DTypeError, "v.*int32"),
        ({"z": torch.ones(4)}, ShapeError, "z"),
        ({"batch": torch.zeros(3, dtype=torch.int64)}, BatchError, r"\[4\].*\[3\]"),
        ({"batch": torch.zeros(4)}, DTypeError, "integer graph ids"),
        ({"batch": torch.tensor([0, -2, 0, 0])}, BatchError, "-2"),
        ({"u": torch.ones(4, 2, device="meta")}, DeviceError, "u on meta.*v on cpu"),
        ({"eps": -1.0}, OptionError, "eps"),
        ({"backend": "fastest"}, OptionError, "'auto', 'segmented', 'dense'"),
    ],
)
def test_bad_input_is_refused_in_words(change, error, words):
    arguments = {"u": GOOD, "v": GOOD, "z": GOOD} | change
    with pytest.raises(error, match=words):
        lrga.low_rank_attention(**arguments)


def test_auto_is_the_linear_form():
    assert choose_implementation("auto", Segments(5, 1), "graph", 3, torch.float32, (torch.zeros(1),)) == "segmented"


def test_triton_is_refused_with_the_reason_where_it_cannot():
    u = torch.rand(4, 2, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="float64 is computed by PyTorch"):
        lrga.low_rank_attention(u, u, u, backend="triton")


@pytest.mark.parametrize("heads", [1, 3])
def test_the_module_computes_the_same_by_all_backends_from_one_state(heads):
    pytest.importorskip("triton")
    x, batch = torch.randn(20, 6), torch.tensor([0] * 7 + [1] * 13)
    torch.manual_seed(1)
    expected = lrga.LowRankGlobalAttention(6, 4, heads=heads, backend="dense")
    for backend in ("segmented", "triton", "auto"):
        module = lrga.LowRankGlobalAttention(6, 4, heads=heads, backend=backend)
        module.load_state_dict(expected.state_dict())
        torch.testing.assert_close(module(x, batch), expected(x, batch), rtol=1e-4, atol=1e-5)


def why_not_fused(channels=8, rank=3, *, dtype=torch.float32, **options):
    x, bias = torch.zeros(5, channels, dtype=dtype), torch.zeros(4 * rank, dtype=dtype)
    options = {"normalize": "graph", "between": ""} | options
    return dispatch._why_not_fused(x, bias, Segments(5, 1), rank, **options)


@pytest.mark.parametrize(
    ("options", "reason"), [({"normalize": "row"}, "normalize='row'"), ({"rank": 200}, "rank 200"), ({}, "CPU")]
)
def test_why_not_the_faster_backend_is_said(options, reason, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    module = lrga.LowRankGlobalAttention(
        8, options.get("rank", 3), backend="triton", normalize=options.get("normalize", "graph")
    )
    with pytest.raises(UnsupportedError, match=reason):
        module(torch.zeros(5, 8))
    u = torch.zeros(5, 1, options.pop("rank", 3))
    with pytest.raises(UnsupportedError, match=reason):
        dispatch.attend(u, u, u, Segments(5, 1), backend="triton", **options)


def test_a_rank_that_only_tf32_would_allow_on_one_large_graph_is_refused_with_that_reason(monkeypatch, without_tf32):
    pytest.importorskip("triton")
    monkeypatch.setattr(dispatch, "MIN_STREAMED_NODES", 4)
    module, x = lrga.LowRankGlobalAttention(3, 100, backend="triton"), torch.randn(4, 3)
    with pytest.raises(UnsupportedError, match="rank 100.*at most 64 .128 for a module on one large graph, in TF32"):
        module(x)
    torch.backends.cuda.matmul.allow_tf32 = True
    assert module(x).shape == (4, 200)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"channels": 300}, "300 channels"),
        ({"between": "qk_norm"}, "qk_norm=True is computed between"),
        ({"between": "gate"}, "gate=True is computed between"),
    ],
)
def test_the_fused_kernels_take_the_papers_attention_of_narrow_features(options, reason):
    pytest.importorskip("triton")
    assert why_not_fused() is None
    assert reason in why_not_fused(**options)
    assert not dispatch._is_large(Segments(5, 1))
    assert dispatch._is_large(Segments(1 << 15, 1))


@pytest.mark.parametrize(("room", "rank", "taken"), [(101_376, 33, False), (101_376, 32, True), (166_912, 64, True)])
def test_exact_products_of_high_rank_need_much_shared_memory(monkeypatch, room, rank, taken):
    pytest.importorskip("triton")
    monkeypatch.setattr(dispatch, "shared_memory", lambda _: room)
    why = why_not_fused(rank=rank)
    assert (why is None) is taken
    assert taken or "without TF32" in why
    assert why_not_fused(rank=rank, dtype=torch.bfloat16) is None


class OnGPU(torch.Tensor):
    """A tensor on the CPU that reports a GPU as its device, for the choice alone."""

    device = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("why_not_fused", "width", "supported", "chosen", "said"),
    [
        (None, 8, True, "fused", []),
        ("", 8, True, "triton", []),
        ("300 channels", 8, True, "triton", ["projection by PyTorch, before the attention: 300 channels"]),
        ("", 200, True, "segmented", ["attention by PyTorch, not by Triton kernels: rank 200, but "]),
        (
            "no bias",
            200,
            True,
            "segmented",
            ["attention by PyTorch.*rank 200.*; not fused.*: no bias"],
        ),
        (None, 8, False, "segmented", ["attention by PyTorch, not by Triton kernels: it is old$"]),
        (
            "no bias",
            8,
            False,
            "segmented",
            ["attention by PyTorch.*: it is old; not fused with.*: no bias"],
        ),
    ],
)
def test_one_choice_for_a_call_and_one_line_that_explains_it(
    monkeypatch, caplog, why_not_fused, width, supported, chosen, said
):
    checks = []
    monkeypatch.setattr(dispatch, "_said", set())
    monkeypatch.setattr(dispatch, "shared_memory", lambda _: 1 << 20)
    monkeypatch.setattr(dispatch, "runs_on_gpu", lambda *_: checks.append(1) or supported)
    monkeypatch.setattr(dispatch, "why_not_triton", lambda *_: checks.append(1) or "it is old")
    x = torch.zeros(5, 8).as_subclass(OnGPU)
    with caplog.at_level("INFO", "lrga.ops"):
        for _ in range(2):
            arguments = "auto", Segments(5, 1), "graph", width, torch.float16, (x,), why_not_fused
            assert choose_implementation(*arguments) == chosen
    assert len(checks) == (2 if supported else 4)
    assert len(caplog.messages) == len(said)
    assert all(re.match(words, message) for words, message in zip(said, caplog.messages, strict=True))


def test_kernels_that_are_switched_off_are_not_chosen(monkeypatch, caplog):
    monkeypatch.setattr(dispatch, "runs_on_gpu", lambda *_: False)
    monkeypatch.setattr(dispatch, "why_not_triton", lambda *_: None)
    x = torch.zeros(5, 8).as_subclass(OnGPU)
    with caplog.at_level("INFO", "lrga.ops"):
        found = choose_implementation("auto", Segments(5, 1), "graph", 8, torch.float32, (x,), None)
    assert found == "segmented"
    assert not caplog.messages
