"""Losses against independent computations."""

import pytest
import torch
from torch import nn

from lrga.tasks.losses import binary_cross_entropy, cross_entropy, l1, mse, weighted_cross_entropy


def benchmark_weights(labels, num_classes):
    rows = len(labels)
    count = torch.tensor([(labels == c).sum().item() for c in range(num_classes)])
    return torch.where(count > 0, (rows - count) / rows, torch.zeros(num_classes))


@pytest.mark.parametrize("present", [[0, 1, 2, 3], [1, 3], [0, 2, 2, 2]])
def test_weighted_cross_entropy_is_torch_s_with_the_batch_s_weights(present):
    labels = torch.tensor(present)[torch.randint(0, len(present), (40,))]
    labels[: len(present)] = torch.tensor(present)
    scores = torch.randn(40, 4, requires_grad=True)
    ours = weighted_cross_entropy(scores, labels)
    theirs = nn.CrossEntropyLoss(weight=benchmark_weights(labels, 4))(scores, labels)
    torch.testing.assert_close(ours, theirs)
    smooth = nn.CrossEntropyLoss(weight=benchmark_weights(labels, 4), label_smoothing=0.2)(scores, labels)
    torch.testing.assert_close(weighted_cross_entropy(scores, labels, label_smoothing=0.2), smooth)
    (grad,) = torch.autograd.grad(ours, scores, retain_graph=True)
    torch.testing.assert_close(grad, torch.autograd.grad(theirs, scores)[0])


def test_a_batch_of_one_class_gives_loss_and_gradient_0_and_not_nan():
    scores = torch.randn(5, 3, requires_grad=True)
    loss = weighted_cross_entropy(scores, torch.ones(5, dtype=torch.long))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert scores.grad is not None
    assert not scores.grad.any()


def test_plain_losses_are_torch_s():
    scores, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    torch.testing.assert_close(cross_entropy(scores, labels), nn.functional.cross_entropy(scores, labels))
    values, targets = torch.randn(6, 1), torch.randn(6)
    torch.testing.assert_close(l1(values, targets), (values[:, 0] - targets).abs().mean())
    torch.testing.assert_close(mse(values, targets), ((values[:, 0] - targets) ** 2).mean())


def test_half_precision_scores_are_scored_in_single_precision():
    scores = torch.randn(6, 3).bfloat16()
    assert weighted_cross_entropy(scores, torch.tensor([0, 1, 2, 0, 1, 2])).dtype == torch.float32
    assert l1(scores, torch.zeros(6, 3)).dtype == torch.float32


def test_binary_cross_entropy_is_torch_s_over_the_labels_that_are_there():
    scores, labels = torch.randn(20, 5, requires_grad=True), torch.randint(0, 2, (20, 5)).float()
    labels[torch.rand(20, 5) < 0.4] = float("nan")
    labels[3] = float("nan")
    there = ~labels.isnan()
    expected = nn.functional.binary_cross_entropy_with_logits(scores[there], labels[there])
    ours = binary_cross_entropy(scores, labels)
    torch.testing.assert_close(ours, expected)
    (grad,) = torch.autograd.grad(ours, scores, retain_graph=True)
    torch.testing.assert_close(grad, torch.autograd.grad(expected, scores)[0])
    assert float(binary_cross_entropy(scores[:1], labels[3:4]).detach()) == 0.0
