"""Parts of the kernels that the whole, tested in test_gated_gpu.py, shows only together."""

import pytest
import torch

from lrga.ops._triton import HAS_TRITON

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
D = 5


def finished(parts, *, momentum=0.1, on_device=False):
    """finish_statistics on the statistics of some sets of rows."""
    from lrga.ops.gated.kernels import finish_statistics

    counts = torch.tensor([float(len(p)) for p in parts], device=DEVICE)
    means = torch.stack([p.mean(0) if len(p) else torch.zeros(D) for p in parts])
    squares = torch.stack([(p - p.mean(0)).square().sum(0) if len(p) else torch.zeros(D) for p in parts])
    partials = torch.stack([means, squares]).to(DEVICE)
    old = torch.arange(D, dtype=torch.float32, device=DEVICE), torch.ones(D, device=DEVICE) * 4
    statistics, running = torch.full((3, D), torch.nan, device=DEVICE), torch.full((2, D), torch.nan, device=DEVICE)
    rate = torch.tensor(momentum, device=DEVICE) if on_device else counts
    finish_statistics[(1,)](
        counts, partials, *old, rate, statistics, running, len(parts), momentum, 1e-5,
        D=D, TRAINING=True, HAS_MOMENTUM=on_device, BLOCK_P=4, BLOCK_D=16,
    )  # fmt: skip
    return statistics.cpu(), running.cpu(), [t.cpu() for t in old]


@pytest.mark.parametrize("sizes", [[3], [1, 1], [0, 5, 0, 2], [4, 0, 0, 0, 7, 1, 9, 2, 3, 11], [1] * 13])
@pytest.mark.parametrize("on_device", [True, False])
def test_statistics_of_parts_join_to_those_of_all_rows(sizes, on_device):
    parts = [torch.randn(n, D) * 3 + 100 for n in sizes]
    rows = torch.cat(parts).double()
    statistics, running, (mean, var) = finished(parts, on_device=on_device)
    torch.testing.assert_close(statistics[0].double(), rows.mean(0), rtol=1e-6, atol=0)
    wanted = (rows.var(0, correction=0) + 1e-5).rsqrt()
    torch.testing.assert_close(statistics[1].double(), wanted, rtol=1e-4, atol=0)
    assert torch.allclose(statistics[2], torch.tensor(1 / len(rows)))
    torch.testing.assert_close(running[0].double(), 0.9 * mean + 0.1 * rows.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(running[1].double(), 0.9 * var + 0.1 * rows.var(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [[0], [0, 1, 0], [1]])
def test_fewer_than_two_rows_leave_the_running_statistics_in_their_place(sizes):
    statistics, running, (mean, var) = finished([torch.randn(n, D) for n in sizes])
    assert torch.equal(statistics[0], mean)
    torch.testing.assert_close(statistics[1], (var + 1e-5).rsqrt())
    assert not statistics[2].any()
    assert torch.equal(running, torch.stack([mean, var]))


def test_the_edge_output_is_zero_in_padding_and_writes_nothing_behind_the_end():
    from lrga.ops.gated.kernels import edge_output

    e_hat, edge_attr = torch.randn(7, D, device=DEVICE), torch.randn(7, D, device=DEVICE)
    out = torch.full((9, D), torch.nan, device=DEVICE)
    in_ptr = torch.tensor([0, 2, 4], device=DEVICE)
    edge_output[(3,)](
        e_hat, edge_attr, e_hat, e_hat, e_hat, e_hat, in_ptr, out, 2, 7 * D,
        D=D, NORM=False, SCALED=False, RESIDUAL=True, BLOCK=16,
    )  # fmt: skip
    torch.testing.assert_close(out[:4], (edge_attr + e_hat.relu())[:4])
    assert not out[4:7].any()
    assert out[7:].isnan().all()


def test_a_number_that_is_none_stays_none_in_the_edge_output():
    from lrga.ops.gated.kernels import edge_output

    e_hat = torch.tensor([[torch.nan, 1.0, -1.0, torch.inf, 0.0]], device=DEVICE)
    out, in_ptr = torch.empty_like(e_hat), torch.tensor([0, 1], device=DEVICE)
    edge_output[(1,)](
        e_hat, e_hat, e_hat, e_hat, e_hat, e_hat, in_ptr, out, 1, D,
        D=D, NORM=False, SCALED=False, RESIDUAL=False, BLOCK=16,
    )  # fmt: skip
    torch.testing.assert_close(out, e_hat.relu(), equal_nan=True)
