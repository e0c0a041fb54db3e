"""Losses, and what is left out of them by a mask."""

import pytest
import torch
from torch import nn

from lrga.tasks.losses import LOSSES, binary_cross_entropy, cross_entropy, l1, mse, weighted_cross_entropy
from lrga.tasks.task import METRICS as ALL_METRICS


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


METRICS = {name: metric for name, metric in ALL_METRICS.items() if metric.sums is not None}
KIND = {loss: kind for kind, losses in LOSSES.items() for loss in losses}
CASES = [(loss, {}) for loss in KIND] + [
    ("cross_entropy", {"label_smoothing": 0.1}),
    ("weighted_cross_entropy", {"label_smoothing": 0.1}),
]


def make(kind, classes, rows=23, width=1, dtype=torch.float64):
    scores = torch.randn(rows, classes if kind == "classification" else width, dtype=dtype)
    if kind == "classification":
        return scores, torch.randint(0, classes, (rows,))
    if kind == "multilabel":
        labels = torch.randint(0, 2, (rows, width)).to(dtype)
        return scores, labels.masked_fill(torch.rand(rows, width) < 0.3, float("nan"))
    return scores, torch.randn(rows, width, dtype=dtype)


@pytest.mark.parametrize(("loss", "options"), CASES)
@pytest.mark.parametrize("where", ["first rows", "any rows", "all rows", "one class"])
@pytest.mark.parametrize("width", [1, 3])
def test_a_loss_is_that_of_the_valid_rows(loss, options, where, width):
    function, (scores, targets) = LOSSES[KIND[loss]][loss], make(KIND[loss], 4, width=width)
    valid = torch.arange(23) < 9 if where == "first rows" else torch.rand(23) < 0.5
    if where == "all rows":
        valid = torch.ones(23, dtype=torch.bool)
    if where == "one class":
        valid = targets.view(23, -1)[:, 0] == targets.view(23, -1)[:, 0].nan_to_num()[0]
    scores.requires_grad_()
    plain = function(scores[valid], targets[valid], **options)
    (expected,) = torch.autograd.grad(plain, scores)
    masked = function(scores, targets, valid, **options)
    (gradient,) = torch.autograd.grad(masked, scores)
    torch.testing.assert_close(masked, plain, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-13)
    assert torch.all(gradient[~valid] == 0)


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("real", [1, 7, 23])
def test_the_sums_of_a_metric_are_those_of_the_valid_rows(metric, real):
    scores, targets = make(METRICS[metric].kinds[0], 2)
    valid = torch.randperm(23) < real
    plain = METRICS[metric].sums(scores[valid], targets[valid], None)
    masked = METRICS[metric].sums(scores, targets, valid)
    torch.testing.assert_close(masked, plain, rtol=1e-14, atol=0)


def test_a_class_that_only_padding_has_does_not_occur():
    scores, labels = torch.eye(3)[[0, 1, 2]], torch.tensor([0, 1, 2])
    assert float(METRICS["weighted_accuracy_by_batch"].sums(scores, labels, torch.tensor([True, True, False]))) == 100.0


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_without_a_valid_row_the_sums_are_zero(metric):
    scores, targets = make(METRICS[metric].kinds[0], 2)
    assert not METRICS[metric].sums(scores, targets, torch.zeros(23).bool()).any()


@pytest.mark.parametrize("loss", sorted(KIND))
def test_without_a_valid_row_the_loss_is_zero(loss):
    scores, targets = make(KIND[loss], 2)
    scores.requires_grad_()
    value = LOSSES[KIND[loss]][loss](scores, targets, torch.zeros(23).bool())
    assert value.item() == 0.0
    (gradient,) = torch.autograd.grad(value, scores)
    assert torch.all(gradient == 0)


@pytest.mark.parametrize("loss", sorted(KIND))
@pytest.mark.parametrize("valid", [None, torch.ones(23).bool()])
def test_half_precision_scores_have_a_single_precision_loss(loss, valid):
    scores, targets = make(KIND[loss], 3, dtype=torch.bfloat16)
    assert LOSSES[KIND[loss]][loss](scores, targets, valid).dtype == torch.float32
