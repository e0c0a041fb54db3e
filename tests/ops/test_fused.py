"""The fused attention of many graphs beside its definition; in Triton's interpreter, and on a GPU with `-m gpu`."""

import pytest
import torch

import lrga
from lrga.ops.attention.reference import segmented_attention
from lrga.ops.attention.segments import Segments

pytest.importorskip("triton")

from lrga.ops.attention import batched
from lrga.ops.attention.batched import fused_attention, tiled_attention
from lrga.ops.attention.segments import Tiles
from tests.helpers.kernels import distance

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# TF32 and half precision differ by rounding of the projections, which flips activations near zero: see the gpu tests.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 8e-2}


pytestmark = pytest.mark.usefixtures("poisoned", "without_tf32")


def graphs(sizes, *, shuffled=False):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    if shuffled:
        batch = batch[torch.randperm(len(batch))]
    return Segments.from_batch(batch.to(DEVICE), len(batch), len(sizes))


def by_definition(x, weight, bias, segments, heads, rank):
    maps = torch.relu(x @ weight.t() + bias).view(-1, heads, 4, rank)
    u, v, z, m4 = maps.unbind(2)
    return torch.cat([segmented_attention(u, v, z, segments), m4], dim=-1).flatten(1)


def compare(function, exact_function, inputs, tolerance):
    """Values and all gradients, relative to those in float64."""
    inputs = [t.to(DEVICE).requires_grad_() for t in inputs]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    out, expected = function(*inputs), exact_function(*exact)
    upstream = torch.randn_like(out)
    assert distance(out, expected) < tolerance
    ours = torch.autograd.grad(out, inputs, upstream)
    theirs = torch.autograd.grad(expected, exact, upstream.double())
    for mine, right in zip(ours, theirs, strict=True):
        assert distance(mine, right) < 5 * tolerance


def check_fused(sizes, channels, rank, heads, *, shuffled=False, dtype=torch.float32):
    segments = graphs(sizes, shuffled=shuffled)
    tiles = Tiles.of(segments, torch.device(DEVICE))
    inputs = torch.randn(sum(sizes), channels), torch.randn(heads * 4 * rank, channels), torch.randn(heads * 4 * rank)
    compare(
        lambda x, w, b: fused_attention(x, w, b, tiles, heads=heads, rank=rank, eps=1e-6, dtype=dtype),
        lambda x, w, b: by_definition(x, w, b, segments, heads, rank),
        inputs,
        TOLERANCE[dtype],
    )


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(
    ("sizes", "channels", "rank", "heads"),
    [((3, 66, 0, 1), 7, 5, 2), ((1, 0, 2), 1, 1, 1), ((129,), 33, 17, 1), ((0, 5), 20, 3, 3)],
)
def test_values_and_gradients_are_those_of_the_definition(sizes, channels, rank, heads, shuffled):
    check_fused(sizes, channels, rank, heads, shuffled=shuffled)


@pytest.mark.parametrize("heads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_gradient_whose_rows_lie_apart_is_read_where_it_lies(heads):
    segments = graphs((3, 66, 0))
    tiles = Tiles.of(segments, torch.device(DEVICE))
    x, weight, bias = (torch.randn(shape, device=DEVICE) for shape in ((69, 7), (heads * 20, 7), (heads * 20,)))
    x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()
    out = fused_attention(x, weight, bias, tiles, heads=heads, rank=5, eps=1e-6, dtype=torch.float32)
    between = torch.full((69, heads * 10 + 13), torch.nan, device=DEVICE)
    grad = between[:, 4:-9].copy_(torch.randn(out.shape))
    apart = torch.autograd.grad(out, [x, weight, bias], grad, retain_graph=True)
    dense = torch.autograd.grad(out, [x, weight, bias], grad.contiguous())
    assert all(torch.equal(a, b) for a, b in zip(apart, dense, strict=True))


def test_half_precision_is_accumulated_in_float32():
    check_fused((40, 3, 30), 9, 5, 1, dtype=torch.float16)


@pytest.mark.parametrize("dtype", [pytest.param(torch.float16, marks=pytest.mark.slow), torch.bfloat16])
def test_half_precision_from_the_features_and_from_given_maps(dtype):
    """In the interpreter too, which does not multiply bfloat16."""
    segments = graphs((40, 3, 30))
    tiles = Tiles.of(segments, torch.device(DEVICE))
    # both sides from what this precision can hold, or activations near zero flip
    x, w, b = (t.to(dtype).float() for t in (torch.randn(73, 9), torch.randn(20, 9) / 3, torch.randn(20)))
    compare(
        lambda x, w, b: fused_attention(x, w, b, tiles, heads=1, rank=5, eps=1e-6, dtype=dtype),
        lambda x, w, b: by_definition(x, w, b, segments, 1, 5),
        (x, w, b),
        TOLERANCE[dtype] / 2,
    )
    compare(
        lambda u, v, z: tiled_attention(u, v, z, tiles, eps=1e-6),
        lambda u, v, z: segmented_attention(u, v, z, segments),
        [torch.rand(73, 2, 5).to(dtype) for _ in range(3)],
        TOLERANCE[dtype] / 2,
    )


@pytest.mark.parametrize("columns", [1, 6])
def test_given_maps_of_any_sign_and_width(columns):
    segments = graphs((3, 66, 0), shuffled=True)
    tiles = Tiles.of(segments, torch.device(DEVICE))
    # Sums of both signs, well away from zero: a divisor near zero would make every rounding large.
    u, v = torch.randn(69, 2, 5) + 1, torch.randn(69, 2, 5) - 1
    inputs = u, v, torch.randn(69, 2, columns)
    compare(
        lambda u, v, z: tiled_attention(u, v, z, tiles, eps=1e-6),
        lambda u, v, z: segmented_attention(u, v, z, segments),
        inputs,
        2e-5,
    )


def test_maps_that_are_slices_of_a_larger_tensor():
    segments = graphs((30, 9))
    maps = torch.rand(39, 2, 4, 5, device=DEVICE)
    u, v, z, _ = maps.unbind(2)
    out = tiled_attention(u, v, z, Tiles.of(segments, u.device), eps=1e-6)
    torch.testing.assert_close(out, segmented_attention(u, v, z, segments), rtol=1e-4, atol=1e-5)


def test_graphs_that_attend_to_nothing_or_have_no_nodes_stay_finite():
    segments = graphs((4, 3))
    x = torch.randn(7, 3, device=DEVICE, requires_grad=True)
    weight, bias = torch.zeros(8, 3, device=DEVICE, requires_grad=True), torch.full((8,), -1.0, device=DEVICE)
    out = fused_attention(x, weight, bias, segments.tiles, heads=1, rank=2, eps=1e-6, dtype=torch.float32)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert out.count_nonzero() == 0
    assert gradient.isfinite().all()
    segments = graphs((0, 0))
    inputs = [torch.randn(s, device=DEVICE, requires_grad=True) for s in ((0, 3), (8, 3), (8,))]
    out = fused_attention(*inputs, segments.tiles, heads=1, rank=2, eps=1e-6, dtype=torch.float32)
    assert out.shape == (0, 4)
    assert all(g.count_nonzero() == 0 for g in torch.autograd.grad(out.sum(), inputs))


def test_nan_in_a_graph_stays_in_that_graph():
    segments = graphs((4, 3))
    x = torch.randn(7, 3, device=DEVICE)
    x[1, 1] = torch.nan
    weight, bias = torch.randn(8, 3, device=DEVICE), torch.ones(8, device=DEVICE)
    out = fused_attention(x, weight, bias, segments.tiles, heads=1, rank=2, eps=1e-6, dtype=torch.float32)
    assert out[1].isnan().any()
    assert out[4:].isfinite().all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rank", [1, 13, 30, 64])
@pytest.mark.parametrize("channels", [1, 60, 128])
def test_a_wide_grid_on_a_gpu(channels, rank, dtype):
    torch.backends.cuda.matmul.allow_tf32 = dtype == torch.float32 and rank == 30
    sizes = tuple(torch.randint(0, 190, (40,)).tolist())
    tolerance = TOLERANCE[dtype]
    segments = graphs(sizes)
    tiles = Tiles.of(segments, torch.device(DEVICE))
    heads = 1 if rank > 30 else 2
    x, w = torch.randn(sum(sizes), channels), torch.randn(heads * 4 * rank, channels) / channels**0.5
    b = torch.randn(heads * 4 * rank)
    if dtype != torch.float32:  # both sides from what this precision can hold, or activations near zero flip
        x, w, b = (t.to(dtype).float() for t in (x, w, b))
    compare(
        lambda x, w, b: fused_attention(x, w, b, tiles, heads=heads, rank=rank, eps=1e-6, dtype=dtype),
        lambda x, w, b: by_definition(x, w, b, segments, heads, rank),
        (x, w, b),
        1e-2 if torch.backends.cuda.matmul.allow_tf32 else tolerance,
    )


@pytest.mark.gpu
def test_a_batch_of_one_huge_graph_and_many_tiny_ones_on_a_gpu():
    check_fused((50_000, *[3] * 2000, 0, 1), 60, 30, 1)


@pytest.mark.gpu
def test_two_runs_on_a_gpu_are_bit_equal():
    segments = graphs((3000, 5, 700))
    x, weight, bias = (torch.randn(s, device=DEVICE, requires_grad=True) for s in ((3705, 60), (120, 60), (120,)))
    results = []
    for _ in range(2):
        out = fused_attention(x, weight, bias, segments.tiles, heads=1, rank=30, eps=1e-6, dtype=torch.float32)
        results.append((out, *torch.autograd.grad(out.square().sum(), (x, weight, bias))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_batch_of_graphs_takes_three_launches(monkeypatch):
    """As the page on how it works says."""
    launched = []
    monkeypatch.setattr(batched, "launch", lambda kernel, *args, **options: launched.append(kernel.__name__))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    attention = lrga.LowRankGlobalAttention(8, 4, backend="triton").to(device)
    with torch.no_grad():
        attention(torch.randn(30, 8, device=device), torch.arange(30, device=device) // 10, 3)
    assert launched == ["reduce_tiles", "sum_tiles", "apply_tiles"]
