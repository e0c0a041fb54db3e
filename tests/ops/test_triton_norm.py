"""The statistics that the kernels take, where they are hard to take well."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.ops.norm import gpu as norm_ops
from lrga.ops.norm.definition import BatchNormState

DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)]


def statistics(x, many, monkeypatch):
    monkeypatch.setattr(norm_ops, "MIN_WHOLE", 0 if many else 1 << 40)
    width = x.size(1)
    state = BatchNormState(
        None, None, torch.zeros(width, device=x.device), torch.ones(width, device=x.device), None, 1.0
    )
    norm_ops.batch_norm(x, state, training=True)
    return state.mean, state.var


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("many", [False, True])
def test_a_large_mean_does_not_drown_the_variance(monkeypatch, many, device):
    x = (torch.randn(700, 3, dtype=torch.float64) + torch.tensor([0.0, 3e3, -2e4])).float().to(device)
    mean, var = statistics(x, many, monkeypatch)
    torch.testing.assert_close(mean.double(), x.double().mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(var.double(), x.double().var(0), rtol=1e-4, atol=0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("many", [False, True])
def test_an_outlier_in_the_first_row_leaves_the_statistics_right(monkeypatch, many, device):
    x = torch.randn(300, 2, device=device)
    x[0] = 1e6
    mean, var = statistics(x, many, monkeypatch)
    off = (mean.double() - x.double().mean(0)).abs() / x.double().std(0)  # what the normalised values are off by
    assert off.max() < 1e-5
    torch.testing.assert_close(var.double(), x.double().var(0), rtol=1e-5, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_a_constant_column_has_no_variance(monkeypatch, device):
    x = torch.full((130, 1), 0.1, device=device)
    mean, var = statistics(x, False, monkeypatch)
    assert var.item() < 1e-14
    torch.testing.assert_close(mean, x[0])


@pytest.mark.parametrize("many", [False, True])
def test_a_number_that_is_none_is_passed_on(monkeypatch, many):
    x = torch.randn(40, 2)
    x[3, 1] = torch.nan
    mean, _ = statistics(x, many, monkeypatch)
    assert mean[0].isfinite()
    assert mean[1].isnan()
