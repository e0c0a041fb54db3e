import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import lrga
from lrga.errors import BatchError, DeviceError, DTypeError, NonFiniteError, OptionError, ShapeError
from tests.helpers.processes import run_text

SIZES = st.lists(st.integers(0, 60), min_size=1, max_size=7).filter(sum)


def batch_of(sizes):
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def custom_maps(in_channels=6, rank=3, attended=5, passed=2):
    return tuple(nn.Sequential(nn.Linear(in_channels, k), nn.Softplus()) for k in (rank, rank, attended, passed))


def modules(dtype=torch.float64):
    yield lrga.LowRankGlobalAttention(6, 4).to(dtype)
    yield lrga.LowRankGlobalAttention(6, 3, heads=3, normalize="row").to(dtype)
    yield lrga.LowRankGlobalAttention(6, 3, maps=custom_maps()).to(dtype)
    yield lrga.LowRankGlobalAttention(6, 3, heads=2, maps=[custom_maps(), custom_maps(rank=2)]).to(dtype)
    yield lrga.LowRankGlobalAttention(6, 3, normalize=None).to(dtype)


def relative_error(ours, expected):
    return ((ours - expected).norm() / expected.norm().clamp(min=1e-30)).item()


def test_one_graph_equals_the_paper_in_numpy():
    module = lrga.LowRankGlobalAttention(5, 3).double()
    x = torch.randn(11, 5, dtype=torch.float64)
    weight, bias = (p.detach().numpy() for p in (module.project.weight, module.project.bias))
    m1, m2, m3, m4 = (
        np.maximum(x.numpy() @ weight[3 * i : 3 * i + 3].T + bias[3 * i : 3 * i + 3], 0) for i in range(4)
    )
    eta = (np.ones(11) @ m1) @ (m2.T @ np.ones(11)) / 11
    expected = np.concatenate([m1 @ (m2.T @ m3) / (eta + 1e-6), m4], axis=1)
    np.testing.assert_allclose(module(x).detach().numpy(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@settings(deadline=None, max_examples=12)
@given(sizes=SIZES, shuffled=st.booleans(), give_count=st.booleans())
def test_attention_of_a_batch_equals_each_graph_alone(dtype, tolerance, sizes, shuffled, give_count):
    batch = batch_of(sizes)
    batch = batch[torch.randperm(len(batch))] if shuffled else batch
    x = torch.randn(len(batch), 6, dtype=dtype)
    for module in modules(dtype):
        together = module(x, batch, len(sizes) if give_count else None)
        for graph in range(len(sizes)):
            nodes = batch == graph
            if nodes.any():
                assert relative_error(together[nodes], module(x[nodes])) <= tolerance


@settings(deadline=None, max_examples=12)
@given(sizes=SIZES)
def test_permuting_the_nodes_permutes_the_result(sizes):
    batch = batch_of(sizes)
    order = torch.randperm(len(batch))
    x = torch.randn(len(batch), 6, dtype=torch.float64)
    for module in modules():
        expected = module(x, batch, len(sizes))[order]
        assert relative_error(module(x[order], batch[order], len(sizes)), expected) <= 1e-12


def test_the_order_of_the_graphs_does_not_matter():
    batch = batch_of([4, 9, 2])
    renamed = torch.tensor([2, 0, 1])[batch]
    x = torch.randn(15, 6, dtype=torch.float64)
    for module in modules():
        assert relative_error(module(x, renamed), module(x, batch)) <= 1e-12


@pytest.mark.parametrize("index", range(5))
def test_gradients_of_every_parameter_and_input_are_right(index):
    module = list(modules())[index]
    batch = torch.tensor([0, 2, 0, 2, 2, 3])
    x = torch.randn(6, 6, dtype=torch.float64, requires_grad=True)
    names, parameters = zip(*module.named_parameters(), strict=True)

    def run(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x, batch, 5))

    assert torch.autograd.gradcheck(run, (x, *parameters))


def test_custom_maps_replace_the_linear_ones():
    fused = lrga.LowRankGlobalAttention(6, 3)
    maps = tuple(nn.Sequential(nn.Linear(6, 3), nn.ReLU()) for _ in range(4))
    for i, m in enumerate(maps):
        m[0].weight.data = fused.project.weight.data[3 * i : 3 * i + 3]
        m[0].bias.data = fused.project.bias.data[3 * i : 3 * i + 3]
    custom = lrga.LowRankGlobalAttention(6, 3, maps=maps)
    x, batch = torch.randn(8, 6), torch.arange(8) // 4
    torch.testing.assert_close(custom(x, batch), fused(x, batch))


def test_rows_sum_to_one_on_average_and_each_of_them_under_row_normalisation():
    x, one = torch.randn(7, 6, dtype=torch.float64), torch.ones((), dtype=torch.float64)
    u, v = lrga.LowRankGlobalAttention(6, 8, eps=0.0).double().factors(x)
    torch.testing.assert_close((u @ v.T).sum() / 7, one)
    u, v = lrga.LowRankGlobalAttention(6, 3, normalize="row", maps=custom_maps()).double().factors(x)  # no row is dead
    torch.testing.assert_close((u @ v.T).sum(1), one.expand(7))


def test_rank_zero_has_no_columns_and_no_parameters():
    module = lrga.LowRankGlobalAttention(6, 0)
    assert module(torch.randn(4, 6)).shape == (4, 0)
    assert not list(module.parameters())
    assert module.factors(torch.randn(4, 6))[0].shape == (4, 0)


def test_autocast_rounds_the_maps_but_not_the_sums(tmp_path):
    """In a process of its own, as bfloat16 products kill the process on CPUs that lack them."""
    code = """
        import torch, lrga
        u, v, z = (torch.rand(4000, 3) for _ in range(3))
        exact = lrga.low_rank_attention(u, v, z)
        module, x = lrga.LowRankGlobalAttention(6, 4), torch.randn(50, 6)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(lrga.low_rank_attention(u, v, z), exact)
            out = module(x)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out.float(), module(x), rtol=5e-2, atol=5e-2)
        out.float().sum().backward()
        assert module.project.weight.grad.isfinite().all()
    """
    ended, _, errors = run_text(code, tmp_path)
    if ended in (-4, 132):
        pytest.skip("this CPU has no bfloat16 products")
    assert ended == 0, errors


def test_dropout_acts_in_training_only():
    module = lrga.LowRankGlobalAttention(6, 16, dropout=0.5)
    x = torch.randn(50, 6)
    plain = module.eval()(x)
    dropped = module.train()(x)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
    assert 0.3 < ((dropped == 0) & (plain != 0)).sum() / (plain != 0).sum() < 0.7


def test_lazy_width_is_taken_from_the_first_call():
    module = lrga.LowRankGlobalAttention(-1, 4, heads=2)
    assert module(torch.randn(3, 7)).shape == (3, 16)
    assert module.project.weight.shape == (32, 7)
    assert module.in_channels == 7
    with pytest.raises(ShapeError, match=r"\[N, 7\].*\[3, 6\]"):
        module(torch.randn(3, 6))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((6, -1), {}, OptionError, "rank of at least 0"),
        ((6, 2.5), {}, DTypeError, "rank"),
        ((-2, 4), {}, OptionError, "in_channels"),
        ((6, 4), {"heads": 0}, OptionError, "heads of at least 1"),
        ((6, 4), {"dropout": 50}, OptionError, "between 0 and 1"),
        ((6, 4), {"normalize": "softmax"}, OptionError, "'graph', 'row', 'rms', None"),
        ((6, 4), {"backend": "cuda"}, OptionError, "'auto'"),
        ((6, 4), {"maps": custom_maps()[:3]}, OptionError, "four modules"),
        ((6, 4), {"maps": [custom_maps()], "heads": 2}, OptionError, "each of 2 heads"),
        ((6, 4), {"maps": [torch.relu] * 4}, OptionError, "wrap plain functions"),
    ],
)
def test_bad_options_are_refused_in_words(arguments, options, error, words):
    with pytest.raises(error, match=words):
        lrga.LowRankGlobalAttention(*arguments, **options)


@pytest.mark.parametrize(
    ("x", "batch", "error", "words"),
    [
        (torch.ones(4, 5), None, ShapeError, r"\[N, 6\].*\[4, 5\]"),
        (torch.ones(4, 6, dtype=torch.int64), None, DTypeError, "floating point.*int64"),
        (torch.ones(4, 6, dtype=torch.float64), None, DTypeError, "float32, the dtype of the parameters.*float64"),
        (torch.ones(4, 6), torch.zeros(5, dtype=torch.int64), BatchError, r"\[4\].*\[5\]"),
        (torch.ones(4, 6), torch.zeros(4), DTypeError, "integer graph ids"),
        (torch.ones(4, 6), -torch.ones(4, dtype=torch.int64), BatchError, "-1"),
        (torch.ones(4, 6, device="meta"), None, DeviceError, "x on meta, parameters on cpu"),
    ],
)
def test_bad_input_is_refused_in_words(x, batch, error, words):
    with pytest.raises(error, match=words):
        lrga.LowRankGlobalAttention(6, 4)(x, batch)


def test_non_finite_input_is_found_while_checking():
    with lrga.checking(), pytest.raises(NonFiniteError, match="finite values in x"):
        lrga.LowRankGlobalAttention(2, 2)(torch.tensor([[1.0, float("nan")]]))


def test_maps_of_different_widths_are_refused():
    maps = list(custom_maps())
    maps[1] = nn.Linear(6, 4)
    with pytest.raises(ShapeError, match="3 and 4 columns"):
        lrga.LowRankGlobalAttention(6, 3, maps=tuple(maps))(torch.randn(4, 6))


def test_one_huge_and_many_tiny_graphs_fit_in_little_memory(tmp_path):
    """Forward and backward of a 200,000-node graph beside 10,000 of three nodes, in a process of its own."""
    code = """
        import torch, lrga
        def peak():
            lines = open("/proc/self/status").read().splitlines()
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
        torch.set_num_threads(2)
        counts = torch.tensor([200_000] + [3] * 10_000)
        batch = torch.repeat_interleave(torch.arange(len(counts)), counts)
        x = torch.randn(len(batch), 64, requires_grad=True)
        module = lrga.LowRankGlobalAttention(64, 30)
        module(x[:10], batch[:10]).sum().backward()
        before = peak()
        module(x, batch, len(counts)).square().sum().backward()
        print((peak() - before) / 2**30)
    """
    ended, out, errors = run_text(code, tmp_path)
    assert ended == 0, errors
    assert 0.1 < float(out) < 1.5
