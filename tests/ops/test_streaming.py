"""The attention of one large graph beside its definition; in Triton's interpreter, and on a GPU with `-m gpu`."""

import pytest
import torch

from lrga.ops.attention.reference import segmented_attention
from lrga.ops.attention.segments import Segments

pytest.importorskip("triton")

from lrga.ops.attention import streaming
from lrga.ops.attention.streaming import rows_of_chunk, streaming_attention
from tests.helpers.kernels import distance

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


pytestmark = pytest.mark.usefixtures("poisoned", "without_tf32")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """In the interpreter, blocks and chunks are small so that there are several."""
    if DEVICE == "cpu":
        for name in ("REDUCE_RESIDENT", "GRADIENT", "APPLY"):
            monkeypatch.setattr(streaming, name, {**getattr(streaming, name), "BM": 32})
        monkeypatch.setattr(streaming, "REDUCE", {**streaming.REDUCE, "BM": 32, "BD": 16})
        smaller = {"BUFFER_BYTES": 1, "STORED_BUFFER_BYTES": 1, "MIN_ROWS": 128, "PROGRAMS": 3}
        for name, small in smaller.items():
            monkeypatch.setattr(streaming, name, small)


def short(*shape):
    """Random numbers of few bits, whose products and sums no precision has to round: no activation near zero flips."""
    return (torch.randn(shape) * 4).round().clamp(-12, 12) / 4


def check(n, channels, rank, heads, *, dtype=torch.float32, tolerance=2e-5, x_dtype=torch.float32, turned=False):
    columns = heads * 4 * rank
    x, w, b = short(n, channels), short(columns, channels) / 2 ** (channels.bit_length() // 2), short(columns)
    inputs = [t.to(DEVICE) for t in (x.to(x_dtype), w, b)]
    if turned:  # the same numbers, columns together
        inputs = [t.t().contiguous().t() for t in inputs]
    inputs = [t.requires_grad_() for t in inputs]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    out = streaming_attention(*inputs, heads=heads, rank=rank, eps=1e-6, dtype=dtype)
    u, v, z, m4 = torch.relu(exact[0] @ exact[1].t() + exact[2]).view(-1, heads, 4, rank).unbind(2)
    expected = torch.cat([segmented_attention(u, v, z, Segments(n, 1)), m4], dim=-1).flatten(1)
    assert out.dtype == dtype
    assert distance(out, expected) < tolerance
    upstream = torch.randn_like(out)
    ours = torch.autograd.grad(out, inputs, upstream)
    theirs = torch.autograd.grad(expected, exact, upstream.double())
    for mine, right, given in zip(ours, theirs, inputs, strict=True):
        assert mine.dtype == given.dtype
        assert distance(mine, right) < 5 * tolerance


WIDE = [(260, 32, 5, 1), (129, 65, 5, 2), (40, 96, 17, 1), (1, 40, 3, 1), (0, 40, 3, 1)]  # nodes, channels, rank, heads
NARROW = [(260, 25, 5, 1), (40, 51, 5, 2), (129, 72, 17, 1), (135, 7, 5, 1), (1, 3, 2, 1), (0, 3, 2, 1), (32, 16, 1, 3)]


@pytest.fixture
def without_stored(monkeypatch):
    """Projections are computed again in the backward pass."""
    monkeypatch.setattr(streaming, "STORED_BYTES", -1)


@pytest.mark.parametrize(("n", "channels", "rank", "heads"), [*WIDE, *NARROW])
def test_values_and_gradients_are_those_of_the_definition(n, channels, rank, heads):
    check(n, channels, rank, heads)


@pytest.mark.parametrize(("n", "channels", "rank", "heads"), WIDE)
@pytest.mark.usefixtures("without_stored")
def test_projections_computed_again_give_the_same(n, channels, rank, heads):
    check(n, channels, rank, heads)


def stored_rows(n, channels, rank, *, x_dtype=torch.float32, dtype=torch.float32):
    inputs = [t.to(DEVICE) for t in (torch.randn(n, channels), torch.randn(4 * rank, channels), torch.randn(4 * rank))]
    inputs[0] = inputs[0].to(x_dtype)
    return streaming.streaming_forward.function(*inputs, 1, rank, 1e-6, dtype)[2].size(0)


def test_projections_are_stored_if_they_are_not_wider_than_the_features_and_few(monkeypatch):
    assert stored_rows(5, 64, 16) == 5
    assert stored_rows(5, 63, 16) == 0
    assert stored_rows(5, 64, 17) == 0  # rounded up to 24 columns for each map
    assert stored_rows(5, 64, 16, dtype=torch.float16) == 5
    assert stored_rows(5, 64, 16, x_dtype=torch.bfloat16) == 0  # the gradient of x has no room for float32
    monkeypatch.setattr(streaming, "STORED_BYTES", 5 * 64 * 4)
    assert stored_rows(5, 64, 16) == 5
    assert stored_rows(6, 64, 16) == 0
    assert stored_rows(10, 64, 16, dtype=torch.float16) == 10


@pytest.mark.parametrize(("channels", "rank"), [(400, 100), (30, 65), (20, 128)])
def test_ranks_above_64(channels, rank):
    check(70, channels, rank, 1)
    check(70, channels, rank, 1, dtype=torch.bfloat16, tolerance=3e-2, x_dtype=torch.bfloat16)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("n", [1, 130])
def test_gradients_reuse_the_rows_of_projections_that_are_no_longer_needed(n, stored, request):
    if not stored:
        request.getfixturevalue("without_stored")
    check(n, 33, 5, 1)
    check(n, 33, 5, 1, dtype=torch.float16, tolerance=2e-2)
    check(n, 65, 5, 2, dtype=torch.float16, tolerance=2e-2, x_dtype=torch.float16)
    check(n, 33, 5, 1, dtype=torch.bfloat16, tolerance=3e-2)


@pytest.mark.parametrize(
    ("channels", "x_dtype"),
    [
        (20, torch.float32),
        (33, torch.float16),
        pytest.param(33, torch.bfloat16, marks=pytest.mark.slow),
        pytest.param(20, torch.float16, marks=pytest.mark.slow),
    ],
)
def test_half_precision_is_accumulated_in_float32(channels, x_dtype):
    check(130, channels, 5, 1, dtype=torch.float16, tolerance=2e-2, x_dtype=x_dtype)


@pytest.mark.parametrize("x_dtype", [torch.float32, torch.float16])
def test_gradients_that_do_not_fit_where_products_would(x_dtype):
    check(130, 31, 8, 1, dtype=x_dtype, tolerance=2e-5 if x_dtype == torch.float32 else 2e-2, x_dtype=x_dtype)
    check(130, 51, 5, 2, dtype=torch.float16, tolerance=2e-2)


@pytest.mark.parametrize(
    ("channels", "x_dtype"), [(33, torch.float32), pytest.param(20, torch.bfloat16, marks=pytest.mark.slow)]
)
def test_bfloat16_is_multiplied_right_in_the_interpreter_too(channels, x_dtype):
    check(130, channels, 5, 1, dtype=torch.bfloat16, tolerance=3e-2, x_dtype=x_dtype)


def test_features_narrower_than_the_products_are_widened():
    check(130, 33, 5, 1, tolerance=5e-3, x_dtype=torch.bfloat16)


def test_inputs_may_be_views_of_any_stride():
    check(130, 33, 5, 1, turned=True)
    check(130, 9, 5, 1, turned=True)


@pytest.mark.parametrize("stored", [True, False])
def test_few_rows_of_wide_features_are_converted_at_a_time(monkeypatch, stored, request):
    if not stored:
        request.getfixturevalue("without_stored")
    n, channels, converted, multiply = 500, 400, [], streaming._sum_mm
    for name in ("BUFFER_BYTES", "STORED_BUFFER_BYTES"):
        monkeypatch.setattr(streaming, name, 128 * channels * 2)
    monkeypatch.setattr(streaming, "_sum_mm", lambda *args: (converted.append(args[2].size(0)), multiply(*args))[1])
    check(n, channels, 5, 1, dtype=torch.float16, tolerance=2e-2)
    assert sum(converted) == n
    assert max(converted) < 2 * 128


@pytest.mark.parametrize("channels", [25, 33])
def test_results_do_not_vary_between_runs(channels):
    torch.manual_seed(1)
    inputs = [torch.randn(130, channels), torch.randn(20, channels), torch.randn(20)]
    inputs = [t.to(DEVICE).requires_grad_() for t in inputs]
    upstream = torch.randn(130, 10, device=DEVICE)

    def run():
        out = streaming_attention(*inputs, heads=1, rank=5, eps=1e-6, dtype=torch.float32)
        return [out, *torch.autograd.grad(out, inputs, upstream)]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


def test_chunks_are_of_about_one_size_and_do_not_grow_with_the_width(monkeypatch):
    monkeypatch.setattr(streaming, "MIN_ROWS", 1024)
    for row_bytes in (16, 480, 800, 3200):
        assert rows_of_chunk(10_000_000, row_bytes, 48 << 20) * row_bytes <= 48 << 20
    assert rows_of_chunk(10_000_000, 1 << 22, 48 << 20) == 1024  # at least some blocks
    monkeypatch.setattr(streaming, "MIN_ROWS", 128)
    assert rows_of_chunk(1300, 1, 1024) == 768  # two of 768 and 532, not of 1024 and 276
    assert rows_of_chunk(5, 1, 1024) == 128


@pytest.mark.parametrize(("rank", "rows", "warps"), [(64, 128, 4), (65, 64, 8)])
def test_options_of_wide_maps_hold_fewer_rows_in_more_warps(rank, rows, warps):
    fitting = streaming._fitting({"BM": 128, "num_warps": 4, "STAGES": 3}, rank)
    assert (fitting["BM"], fitting["num_warps"]) == (rows, warps)


@pytest.mark.parametrize("memory", [101_376, 232_448])
@pytest.mark.parametrize("channels", [9, 300])
def test_weights_that_stay_in_shared_memory_and_weights_read_for_each_tile_give_the_same(monkeypatch, memory, channels):
    monkeypatch.setattr(streaming, "shared_memory", lambda _: memory)
    check(130, channels, 5, 1, dtype=torch.float16, tolerance=2e-2)


@pytest.mark.parametrize(
    ("memory", "channels", "rank", "dtype", "columns"),
    [
        (232_448, 100, 16, torch.bfloat16, 128),
        (166_912, 100, 16, torch.bfloat16, 64),
        (232_448, 100, 50, torch.bfloat16, 64),
        (232_448, 16, 65, torch.bfloat16, 64),
        (232_448, 64, 30, torch.float32, 32),  # without TF32
    ],
)
def test_the_weight_stays_in_shared_memory_if_it_fits(monkeypatch, memory, channels, rank, dtype, columns):
    monkeypatch.undo()  # the usual sizes of blocks
    monkeypatch.setattr(streaming, "shared_memory", lambda _: memory)
    assert streaming._reduce_options(torch.zeros(1, channels), rank, dtype)["BD"] == columns


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("channels", "rank", "heads"), [(256, 50, 1), (64, 30, 2), (33, 7, 1), (100, 64, 1)])
def test_a_wide_grid_on_a_gpu(channels, rank, heads, dtype):
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 8e-2, torch.float16: 2e-2}[dtype]
    check(30_011, channels, rank, heads, dtype=dtype, tolerance=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_several_chunks_on_a_gpu(monkeypatch, dtype):
    monkeypatch.setattr(streaming, "BUFFER_BYTES", 4 << 20)
    monkeypatch.setattr(streaming, "STORED_BUFFER_BYTES", 4 << 20)
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 8e-2}[dtype]
    check(30_011, 256, 50, 1, dtype=dtype, tolerance=tolerance)
    check(30_011, 256, 50, 1, dtype=dtype, tolerance=tolerance, x_dtype=dtype)
    check(30_011, 201, 33, 2, dtype=dtype, tolerance=tolerance, x_dtype=dtype)
    check(30_011, 265, 33, 2, dtype=dtype, tolerance=tolerance)
    check(30_011, 280, 33, 2, dtype=dtype, tolerance=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.usefixtures("without_stored")
def test_projections_computed_again_on_a_gpu(dtype):
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 8e-2}[dtype]
    check(90_011, 256, 50, 1, dtype=dtype, tolerance=tolerance)
    check(90_011, 256, 50, 1, dtype=dtype, tolerance=tolerance, x_dtype=dtype)


@pytest.mark.gpu
def test_memory_of_stored_projections_is_theirs_and_a_buffer_on_a_gpu():
    n, channels, rank = 500_000, 256, 50
    x = torch.randn(n, channels, device="cuda", requires_grad=True)
    w, b = torch.randn(4 * rank, channels, device="cuda", requires_grad=True), torch.zeros(4 * rank, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = streaming_attention(x, w, b, heads=1, rank=rank, eps=1e-6, dtype=torch.float32)
    (dx,) = torch.autograd.grad(out, x, torch.ones_like(out[:1]).expand_as(out))
    workspace = torch.cuda.max_memory_allocated() - before - 8 * out.numel() - 4 * dx.numel()
    stored = 4 * n * 4 * 56
    assert stored <= workspace < stored + (136 << 20)


@pytest.mark.gpu
def test_x_and_products_in_different_half_precisions_on_a_gpu():
    check(30_000, 256, 50, 1, dtype=torch.float16, tolerance=2e-2, x_dtype=torch.bfloat16)
    check(30_000, 64, 30, 1, dtype=torch.bfloat16, tolerance=8e-2, x_dtype=torch.float16)


@pytest.mark.gpu
def test_tf32_follows_the_switch_on_a_gpu():
    torch.backends.cuda.matmul.allow_tf32 = True
    check(40_000, 256, 50, 1, tolerance=5e-3)


@pytest.mark.gpu
def test_features_in_half_precision_on_a_gpu():
    check(30_000, 256, 50, 1, dtype=torch.bfloat16, tolerance=8e-2, x_dtype=torch.bfloat16)


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
