"""Averages over batches."""

import math

import torch

from lrga.tasks.running import Running


def test_a_weighted_mean_is_kept():
    mean = Running()
    for value, weight in ((1.0, 3), (2.0, 1)):
        mean.add(torch.tensor(value), weight)
    assert mean.mean() == 1.25


def test_nothing_added_has_no_mean():
    assert math.isnan(Running().mean())


def test_a_restored_mean_goes_on_bit_for_bit():
    whole, first, second = Running(), Running(), Running()
    values = torch.randn(20)
    for value in values:
        whole.add(value)
    for value in values[:7]:
        first.add(value)
    second.restore(first.state())
    for value in values[7:]:
        second.add(value)
    assert second.mean() == whole.mean()


def test_no_gradient_is_kept():
    mean = Running()
    mean.add(torch.tensor(1.0, requires_grad=True))
    assert not mean.total.requires_grad
