"""The attention of one large graph beside its definition; in Triton's interpreter, and on a GPU with `-m gpu`."""

import pytest
import torch

from lrga.errors import UnsupportedError
from lrga.kernels.reference import segmented_attention
from lrga.kernels.segments import Segments

pytest.importorskip("triton")

from lrga.kernels import streaming
from lrga.kernels.streaming import rows_of_chunk, streaming_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """Memory that is not written is NaN; in the interpreter, blocks and chunks are small so that there are several."""
    before, tf32 = torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.matmul.allow_tf32
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    if DEVICE == "cpu":
        for name in ("REDUCE", "REDUCE_GRADIENT", "GRADIENT"):
            monkeypatch.setattr(streaming, name, {**getattr(streaming, name), "BM": 32, "BD": 16})
        monkeypatch.setattr(streaming, "BUFFER_BYTES", 1)
        monkeypatch.setattr(streaming, "PROGRAMS", 3)
    yield
    torch.use_deterministic_algorithms(before)
    torch.backends.cuda.matmul.allow_tf32 = tf32


def difference(ours, exact):
    assert not ours.isnan().any()
    return float((ours.detach().double() - exact.detach()).norm() / exact.detach().norm().clamp(min=1e-3))


def check(n, channels, rank, heads, *, dtype=torch.float32, tolerance=2e-5, narrow_x=False):
    x, w = torch.randn(n, channels), torch.randn(heads * 4 * rank, channels) / channels**0.5
    b = torch.randn(heads * 4 * rank)
    if dtype != torch.float32:  # both sides from what this precision can hold, or activations near zero flip
        x, w, b = (t.to(dtype).float() for t in (x, w, b))
    x = x.to(dtype) if narrow_x else x
    inputs = [t.to(DEVICE).requires_grad_() for t in (x, w, b)]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    out = streaming_attention(*inputs, heads=heads, rank=rank, eps=1e-6, dtype=dtype)
    u, v, z, m4 = torch.relu(exact[0] @ exact[1].t() + exact[2]).view(-1, heads, 4, rank).unbind(2)
    expected = torch.cat([segmented_attention(u, v, z, Segments(n, 1)), m4], dim=-1).flatten(1)
    assert out.dtype == dtype
    assert difference(out, expected) < tolerance
    upstream = torch.randn_like(out)
    ours = torch.autograd.grad(out, inputs, upstream)
    theirs = torch.autograd.grad(expected, exact, upstream.double())
    for mine, right, given in zip(ours, theirs, inputs, strict=True):
        assert mine.dtype == given.dtype
        assert difference(mine, right) < 5 * tolerance


@pytest.mark.parametrize(
    ("n", "channels", "rank", "heads"),
    [(1030, 7, 5, 1), (70, 7, 5, 2), (1, 3, 2, 1), (0, 3, 2, 1), (129, 20, 17, 1), (64, 16, 1, 3)],
)
def test_values_and_gradients_are_those_of_the_definition(n, channels, rank, heads):
    check(n, channels, rank, heads)


def test_half_precision_is_accumulated_in_float32():
    check(150, 20, 5, 1, dtype=torch.float16, tolerance=2e-2)


def test_a_second_derivative_is_refused_by_name():
    x, weight, bias = torch.randn(9, 3, device=DEVICE, requires_grad=True), torch.randn(8, 3), torch.ones(8)
    out = streaming_attention(x, weight.to(DEVICE), bias.to(DEVICE), heads=1, rank=2, eps=1e-6, dtype=torch.float32)
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="segmented"):
        gradient.sum().backward()


def test_the_operator_passes_the_checks_of_torch():
    x, weight, bias = (torch.randn(s, device=DEVICE, requires_grad=True) for s in ((9, 3), (8, 3), (8,)))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(
        torch.ops.lrga.streaming_forward.default, (x, weight, bias, 1, 2, 1e-6, torch.float32), test_utils=checks
    )


def test_chunks_do_not_grow_with_the_width(monkeypatch):
    monkeypatch.setattr(streaming, "BUFFER_BYTES", 48 << 20)
    for columns in (4, 120, 200, 800):
        assert rows_of_chunk(columns, torch.float32) * columns * 4 <= 48 << 20
    assert rows_of_chunk(1 << 20, torch.float32) == 1024  # at least a block for every program


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("channels", "rank", "heads"), [(256, 50, 1), (64, 30, 2), (33, 7, 1), (100, 64, 1)])
def test_a_wide_grid_on_a_gpu(channels, rank, heads, dtype):
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 8e-2, torch.float16: 2e-2}[dtype]
    check(30_011, channels, rank, heads, dtype=dtype, tolerance=tolerance)


@pytest.mark.gpu
def test_tf32_follows_the_switch_on_a_gpu():
    torch.backends.cuda.matmul.allow_tf32 = True
    check(40_000, 256, 50, 1, tolerance=5e-3)


@pytest.mark.gpu
def test_features_in_half_precision_on_a_gpu():
    check(30_000, 256, 50, 1, dtype=torch.bfloat16, tolerance=8e-2, narrow_x=True)


@pytest.mark.gpu
def test_ten_million_nodes_in_bounded_workspace_on_a_gpu():
    n, channels, rank = 10_000_000, 64, 30
    x = torch.randn(n, channels, device="cuda", requires_grad=True)
    w = torch.randn(4 * rank, channels, device="cuda", requires_grad=True)
    b = torch.zeros(4 * rank, device="cuda", requires_grad=True)
    upstream = torch.ones(n, 2 * rank, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = streaming_attention(x, w, b, heads=1, rank=rank, eps=1e-6, dtype=torch.float32)
    dx, _, _ = torch.autograd.grad(out, (x, w, b), upstream)
    workspace = torch.cuda.max_memory_allocated() - before - 4 * (out.numel() + dx.numel())
    assert workspace < 64 << 20
    assert out[-1].isfinite().all()
    assert dx[-1].isfinite().all()
