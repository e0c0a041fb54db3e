"""Losses and metrics of padded rows are those of the real ones."""

import pytest
import torch

from lrga.tasks.losses import CLASSIFICATION_LOSSES, REGRESSION_LOSSES
from lrga.tasks.masked import MASKED_LOSSES, MASKED_METRICS
from lrga.tasks.task import METRICS as ALL_METRICS

# those of link prediction score pairs, which are never padded
METRICS = {name: metric for name, metric in ALL_METRICS.items() if metric.kind != "link"}
LOSSES = CLASSIFICATION_LOSSES | REGRESSION_LOSSES


def make(kind, classes, rows=23, width=1, dtype=torch.float64):
    scores = torch.randn(rows, classes if kind == "classification" else width, dtype=dtype)
    if kind == "classification":
        return scores, torch.randint(0, classes, (rows,))
    return scores, torch.randn(rows, width, dtype=dtype)


def kind_of(loss):
    return "classification" if loss in CLASSIFICATION_LOSSES else "regression"


def test_every_loss_and_metric_has_a_masked_form():
    assert set(MASKED_LOSSES) == set(LOSSES)
    assert set(MASKED_METRICS) == set(METRICS)


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("where", ["first rows", "any rows", "all rows", "one class"])
@pytest.mark.parametrize("width", [1, 3])
def test_a_masked_loss_is_the_loss_of_the_rows_that_count(loss, where, width):
    scores, targets = make(kind_of(loss), 4, width=width)
    counted = torch.arange(23) < 9 if where == "first rows" else torch.rand(23) < 0.5
    if where == "all rows":
        counted = torch.ones(23, dtype=torch.bool)
    if where == "one class":
        counted = targets.view(23, -1)[:, 0] == targets.view(23, -1)[0, 0]
    scores.requires_grad_()
    plain = LOSSES[loss](scores[counted], targets[counted])
    (expected,) = torch.autograd.grad(plain, scores)
    masked = MASKED_LOSSES[loss](scores, targets, counted)
    (gradient,) = torch.autograd.grad(masked, scores)
    torch.testing.assert_close(masked, plain, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-13)
    assert torch.all(gradient[~counted] == 0)


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("real", [1, 7, 23])
def test_a_masked_metric_is_the_metric_of_the_rows_that_count(metric, real):
    scores, targets = make(METRICS[metric].kind, 2)
    counted = torch.randperm(23) < real
    plain = METRICS[metric].function(scores[counted], targets[counted])
    masked = MASKED_METRICS[metric](scores, targets, counted)
    assert masked.dtype == torch.float64
    torch.testing.assert_close(masked, plain, rtol=1e-14, atol=0)


def test_a_class_that_only_padding_has_does_not_occur():
    scores, labels = torch.eye(3)[[0, 1, 2]], torch.tensor([0, 1, 2])
    counted = torch.tensor([True, True, False])
    assert float(MASKED_METRICS["weighted_accuracy"](scores, labels, counted)) == 100.0


@pytest.mark.parametrize("name", [*LOSSES, *METRICS])
def test_without_a_row_that_counts_the_result_is_zero(name):
    kind = METRICS[name].kind if name in METRICS else kind_of(name)
    scores, targets = make(kind, 2)
    scores.requires_grad_()
    value = (MASKED_METRICS if name in METRICS else MASKED_LOSSES)[name](scores, targets, torch.zeros(23).bool())
    assert value.item() == 0.0
    if name in LOSSES:
        (gradient,) = torch.autograd.grad(value, scores)
        assert torch.all(gradient == 0)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_half_precision_scores_have_a_single_precision_loss(loss):
    scores, targets = make(kind_of(loss), 3, dtype=torch.bfloat16)
    assert MASKED_LOSSES[loss](scores, targets, torch.ones(23).bool()).dtype == torch.float32
