"""Losses and metrics of valid rows are those of these rows alone."""

import pytest
import torch

from lrga.tasks.losses import LOSSES, weighted_cross_entropy
from lrga.tasks.metrics import batch_weighted_accuracy
from lrga.tasks.task import METRICS as ALL_METRICS

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
    assert float(batch_weighted_accuracy(scores, labels, torch.tensor([True, True, False]))) == 100.0


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


def test_the_kernel_of_a_gpu_is_asked_for_rows_without_smoothing_only(monkeypatch):
    asked = []
    monkeypatch.setattr("lrga.kernels.classes.takes", lambda *rows: bool(asked.append(rows)))
    scores, labels = make("classification", 3)
    weighted_cross_entropy(scores, labels)
    weighted_cross_entropy(scores, labels, torch.ones(23).bool(), label_smoothing=0.1)
    assert asked == []
    weighted_cross_entropy(scores, labels, torch.ones(23).bool())
    assert len(asked) == 1
