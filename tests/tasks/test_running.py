"""Averages and metrics over batches."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    mean_absolute_error,
    mean_squared_error,
    recall_score,
    roc_auc_score,
)

from lrga.tasks import METRICS, Task
from lrga.tasks.running import Scores


def test_a_weighted_mean_is_kept_without_gradient_and_nothing_has_none():
    mean = Scores(None)
    for value, weight in ((1.0, 3), (2.0, 1)):
        mean.add(torch.tensor(value), weight=weight)
    assert mean.means()[0] == 1.25
    mean = Scores(None)
    mean.add(torch.tensor(1.0, requires_grad=True))
    assert not mean.total.requires_grad
    assert math.isnan(Scores(None).means()[0])


def test_a_restored_mean_goes_on_bit_for_bit():
    whole, first, second = Scores(None), Scores(None), Scores(None)
    values = torch.randn(20)
    for value in values:
        whole.add(value)
    for value in values[:7]:
        first.add(value)
    second.restore(first.state())
    for value in values[7:]:
        second.add(value)
    assert second.means()[0] == whole.means()[0]


def of_classes(function, scale=1.0, **options):
    return lambda scores, labels: scale * function(labels, scores.argmax(1), **options)


def of_labels(function):
    def mean(scores, labels):
        columns = [(s[~np.isnan(y)], y[~np.isnan(y)]) for s, y in zip(scores.T, labels.T, strict=True)]
        return np.mean([function(y, s) for s, y in columns])

    return mean


SKLEARN = {
    ("accuracy", "classification"): of_classes(accuracy_score, 100.0),
    ("weighted_accuracy", "classification"): of_classes(recall_score, 100.0, average="macro"),
    ("f1_positive", "classification"): of_classes(f1_score),
    ("roc_auc", "classification"): lambda scores, labels: roc_auc_score(labels, scores[:, 1] - scores[:, 0]),
    ("average_precision", "classification"): lambda scores, labels: average_precision_score(
        labels, scores[:, 1] - scores[:, 0]
    ),
    ("roc_auc", "multilabel"): of_labels(roc_auc_score),
    ("average_precision", "multilabel"): of_labels(average_precision_score),
    ("mae", "regression"): lambda scores, targets: mean_absolute_error(targets, scores),
    ("mse", "regression"): lambda scores, targets: mean_squared_error(targets, scores),
    ("rmse", "regression"): lambda scores, targets: mean_squared_error(targets, scores) ** 0.5,
}
CASES = sorted(SKLEARN)


def make(metric, kind, rows=60):
    width = 2 if kind == "classification" else 3
    scores, task = torch.randn(rows, width), Task(level="node", kind=kind, out_channels=width, metric=metric)
    if kind == "classification":
        return task, scores, torch.randint(0, 2, (rows,))
    targets = torch.randn(rows, width)
    if kind == "multilabel":
        targets = (targets > 0).float().masked_fill(torch.rand(rows, width) < 0.2, math.nan)
    return task, scores, targets


NO_LOSS = torch.zeros(())


def add_padded(sums, scores, targets, valid):
    """As a captured step does, and what follows it."""
    sums.add(NO_LOSS, scores, targets, valid)
    sums.count(int(valid.sum()), (scores, targets, valid))


def value_of(task, scores, targets, sizes):
    sums = Scores(task, "cpu")
    for rows in zip(scores.split(sizes), targets.split(sizes), strict=True):
        sums.add(NO_LOSS, *rows)
    return sums.means()[1]


def test_every_metric_of_a_set_is_compared():
    by_batch = {(name, kind) for name, m in METRICS.items() for kind in m.kinds if m.by_batch or kind == "link"}
    assert {(name, kind) for name, m in METRICS.items() for kind in m.kinds} - by_batch == set(SKLEARN)


@pytest.mark.parametrize(("metric", "kind"), CASES)
def test_a_metric_is_scikit_learn_s_of_the_set_whatever_the_batches_and_none_without(metric, kind):
    task, scores, targets = make(metric, kind)
    expected = SKLEARN[metric, kind](scores.double().numpy(), targets.numpy())
    assert float(task.score(scores, targets)) == pytest.approx(expected, rel=1e-6)
    whole = value_of(task, scores, targets, [60])
    assert whole == pytest.approx(expected, rel=1e-6)
    for sizes in ([1] * 60, [7] * 8 + [4], [59, 1]):
        assert value_of(task, scores, targets, sizes) == pytest.approx(whole, rel=1e-13)
    assert math.isnan(Scores(make(metric, kind)[0], "cpu").means()[1])


@pytest.mark.parametrize(("metric", "kind"), CASES)
def test_rows_of_padding_change_nothing(metric, kind):
    task, scores, targets = make(metric, kind)
    plain, padded = Scores(task, "cpu"), Scores(task, "cpu")
    places = [tensor.data_ptr() for tensor in padded.tensors.values()]
    for part in torch.randperm(60).split(17):
        valid = torch.rand(len(part)) < 0.7
        plain.add(NO_LOSS, scores[part][valid], targets[part][valid])
        add_padded(padded, scores[part], targets[part], valid)
    assert padded.means() == pytest.approx(plain.means(), rel=1e-13)
    plain.reset()
    padded.reset()
    plain.add(NO_LOSS, scores[:30], targets[:30])
    add_padded(padded, scores[:30], targets[:30], torch.ones(30).bool())
    assert padded.means() == pytest.approx(plain.means(), rel=1e-13)
    assert [tensor.data_ptr() for tensor in padded.tensors.values()] == places


@pytest.mark.parametrize(("metric", "kind"), [*CASES, ("weighted_accuracy_by_batch", "classification")])
@pytest.mark.parametrize("padded", [False, True])
def test_a_restored_metric_goes_on(metric, kind, padded):
    task, scores, targets = make(metric, kind)
    first, second = Scores(task, "cpu"), Scores(task, "cpu")
    if padded:
        add_padded(first, scores[:20], targets[:20], torch.ones(20).bool())
    else:
        first.add(NO_LOSS, scores[:20], targets[:20])
    second.add(NO_LOSS, scores[:5], targets[:5])
    second.restore(json.loads(json.dumps(first.state())))
    second.add(NO_LOSS, scores[20:], targets[20:])
    assert second.means()[1] == pytest.approx(value_of(task, scores, targets, [20, 40]), rel=1e-14)
    second.restore(Scores(task, "cpu").state())
    second.add(NO_LOSS, scores, targets)
    assert second.means()[1] == value_of(task, scores, targets, [60])


@pytest.mark.parametrize("others", [("f1_positive", "weighted_accuracy"), ("roc_auc", "f1_positive"), ("roc_auc",)])
@pytest.mark.parametrize("padded", [False, True])
def test_several_metrics_are_those_of_each_alone_whatever_the_batches(others, padded):
    task, scores, labels = make("accuracy", "classification")
    sums = Scores(replace(task, log_metrics=others))
    for number, part in enumerate(torch.randperm(60).split(17)):
        rows = scores[part], labels[part]
        add_padded(sums, *rows, torch.ones(len(part)).bool()) if padded else sums.add(NO_LOSS, *rows)
        again = Scores(sums.task)
        again.restore(json.loads(json.dumps(sums.state())))
        sums = again if number % 2 else sums
    assert sums.means()[1] == pytest.approx(value_of(task, scores, labels, [60]), rel=1e-13)
    alone = {name: value_of(replace(task, metric=name), scores, labels, [60]) for name in others}
    assert sums.numbers() == pytest.approx(alone, rel=1e-13)


def test_scores_that_are_not_finite_have_no_rank():
    task, scores, targets = make("roc_auc", "multilabel")
    scores[3, 1] = math.nan
    assert math.isnan(value_of(task, scores, targets, [60]))


@pytest.mark.parametrize("metric", ["accuracy", "weighted_accuracy", "f1_positive"])
def test_the_benchmark_s_metric_is_the_mean_over_batches(metric):
    task, scores, labels = make(f"{metric}_by_batch", "classification")
    parts = [float(task.score(*rows)) for rows in zip(scores.split(25), labels.split(25), strict=True)]
    found = value_of(task, scores, labels, [25, 25, 10])
    assert found == pytest.approx(sum(parts) / 3, rel=1e-14)
    assert found != value_of(task, scores, labels, [60])


def test_the_state_of_one_metric_keeps_the_form_of_earlier_checkpoints():
    task, scores, labels = make("accuracy", "classification")
    sums = Scores(task)
    sums.add(NO_LOSS, scores, labels)
    assert sums.state() == {"loss": (0.0, 1.0), "metric": {"sums": sums.tensors["accuracy"].tolist()}}
    ranking = Scores(make("roc_auc", "classification")[0])
    ranking.add(NO_LOSS, scores, labels)
    assert set(ranking.state()["metric"]) == {"scores", "targets"}
    with pytest.raises(RuntimeError, match="split"):  # of another number of metrics
        Scores(replace(task, log_metrics=("f1_positive",))).restore(sums.state())
