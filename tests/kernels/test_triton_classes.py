"""The sums of each class by Triton's kernels: parts, rows that lie apart, labels of no class."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.kernels import triton_classes
from lrga.kernels.triton_classes import launch_accuracy, launch_loss, launch_loss_gradient
from lrga.tasks.losses import weighted_cross_entropy
from lrga.tasks.metrics import batch_weighted_accuracy as weighted_accuracy

pytestmark = pytest.mark.usefixtures("poisoned")


def check(scores, labels, counted):
    loss, factor = launch_loss(scores, labels, counted)
    theirs = scores.double().requires_grad_()
    expected = weighted_cross_entropy(theirs, labels, counted)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    grad = launch_loss_gradient(scores, labels, counted, factor, torch.tensor(2.0))
    torch.testing.assert_close(grad.double(), 2 * torch.autograd.grad(expected, theirs)[0], rtol=1e-4, atol=1e-6)
    accuracy = launch_accuracy(scores, labels, counted)
    torch.testing.assert_close(accuracy, weighted_accuracy(scores, labels, counted), rtol=1e-12, atol=0)


@pytest.mark.parametrize("parts", [1, 3, 256])
@pytest.mark.parametrize("classes", [2, 3, 20])
def test_rows_are_summed_in_parts(monkeypatch, parts, classes):
    monkeypatch.setattr(triton_classes, "NUMBERS", 16)
    monkeypatch.setattr(triton_classes, "LARGEST_PARTS", parts)
    check(torch.randn(100, classes), torch.randint(0, classes, (100,)), torch.rand(100) < 0.7)


def test_rows_that_lie_apart():
    check(torch.randn(20, 6)[:, 1:4], torch.randint(0, 3, (40,))[::2], torch.ones(20, 2)[:, 0] > 0)


def test_the_ignored_label_counts_for_nothing_and_a_wrong_one_is_seen():
    scores, labels, counted = torch.randn(9, 3), torch.randint(0, 3, (9,)), torch.ones(9) > 0
    labels[4] = -100
    check(scores, labels, counted)
    for wrong in (3, -1):
        labels[4] = wrong
        assert launch_loss(scores, labels, counted)[0].isnan()


def test_a_score_that_is_no_number_makes_the_loss_none():
    scores, labels, counted = torch.randn(9, 3), torch.randint(0, 3, (9,)), torch.ones(9) > 0
    scores[2, 1] = torch.nan
    assert launch_loss(scores, labels, counted)[0].isnan()
