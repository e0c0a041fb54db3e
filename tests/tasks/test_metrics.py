"""Metrics to the letter of their protocols."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    confusion_matrix,
    f1_score,
    mean_absolute_error,
    recall_score,
    roc_auc_score,
)

from lrga.errors import DataError, DeviceError, DTypeError, NonFiniteError, OptionError, ShapeError
from lrga.tasks.metrics import (
    accuracy,
    auc,
    average_precision,
    f1_positive,
    hits_at_k,
    mae,
    mrr,
    roc_auc,
    weighted_accuracy,
)


def random_case(rows, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-3, 4, (rows, classes), generator=generator).float()  # few values: many ties
    return scores, torch.randint(0, classes, (rows,), generator=generator)


def macro_recall(labels, predicted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sklearn warns where a class has no label, the very case to compare
        return 100 * recall_score(labels, predicted, average="macro", zero_division=0)


@pytest.mark.parametrize(
    ("ours", "theirs", "most"),
    [
        (lambda scores, labels: weighted_accuracy(scores, labels, scores.size(1)), macro_recall, 7),
        (accuracy, accuracy_score, 7),
        (f1_positive, partial(f1_score, average="binary", zero_division=0), 2),
    ],
    ids=["weighted accuracy is macro recall over classes that occur", "accuracy", "F1 of class 1"],
)
@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 40), classes=st.integers(2, 7), seed=st.integers(0, 10_000))
def test_metrics_of_classes_are_scikit_learn_s(ours, theirs, most, rows, classes, seed):
    scores, labels = random_case(rows, min(classes, most), seed)
    assert float(ours(scores, labels)) == pytest.approx(theirs(labels.numpy(), scores.numpy().argmax(1)), abs=1e-9)


def test_weighted_accuracy_is_the_benchmark_s_where_classes_have_no_gap():
    scores, labels = random_case(50, 4, seed=3)
    matrix = confusion_matrix(labels, scores.argmax(1)).astype(float)  # rows: classes among labels and predictions
    recalls = [matrix[c, c] / max(float((labels == c).sum()), 1) for c in range(len(matrix))]
    assert float(weighted_accuracy(scores, labels, 4)) == pytest.approx(100 * sum(recalls) / len(matrix))


def test_a_class_counts_where_it_is_there_or_predicted():
    scores = torch.tensor([[9.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    assert float(weighted_accuracy(scores, torch.tensor([0, 0, 0]), 3)) == pytest.approx(100 * (2 / 3 + 0) / 2)
    scores = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    assert float(weighted_accuracy(scores, torch.tensor([0, 1]), 3)) == 100.0
    assert float(f1_positive(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))) == 0.0


def test_on_a_tie_the_first_class_is_predicted():
    scores, labels = torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])
    assert float(weighted_accuracy(scores, labels, 2)) == 50.0
    assert float(accuracy(scores, labels)) == 0.5
    assert float(f1_positive(scores, labels)) == 0.0


@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 3)])
def test_mae_is_sklearn_s(shape):
    scores, targets = torch.randn(shape), torch.randn(shape)
    assert float(mae(scores, targets)) == pytest.approx(mean_absolute_error(targets, scores), abs=1e-7)


def test_metrics_take_columns_lists_and_arrays_without_broadcasting():
    scores, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 2.0])
    assert float(mae(scores, targets)) == 0.0
    with pytest.raises(ShapeError):
        mae(torch.zeros(2, 2), torch.zeros(2))
    assert float(mae([1.0, 2.0], np.array([1.0, 4.0]))) == 1.0
    assert float(accuracy(np.array([[0.0, 1.0]]), [1])) == 1.0


def test_hits_counts_positives_strictly_above_the_kth_best_negative():
    negative = torch.tensor([0.9, 0.5, 0.5, 0.1])
    positive = torch.tensor([0.95, 0.9, 0.5, 0.2])
    assert float(hits_at_k(positive, negative, 1)) == 0.25
    assert float(hits_at_k(positive, negative, 2)) == 0.5
    assert float(hits_at_k(positive, negative, 4)) == 1.0
    assert float(hits_at_k(positive, negative, 5)) == 1.0  # fewer negatives than k


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: weighted_accuracy(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long), 2), ShapeError),
        (lambda: accuracy(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)), ShapeError),
        (lambda: f1_positive(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)), ShapeError),
        (lambda: mae(torch.zeros(0), torch.zeros(0)), ShapeError),
        (lambda: hits_at_k(torch.zeros(0), torch.zeros(3), 1), ShapeError),
        (lambda: weighted_accuracy(torch.zeros(3, 2), torch.tensor([0, 1, 2]), 2), DataError),
        (lambda: weighted_accuracy(torch.zeros(3, 2), torch.tensor([0, 1, 1]), 3), ShapeError),
        (lambda: accuracy(torch.zeros(3, 2), torch.tensor([0, -1, 1])), DataError),
        (lambda: accuracy(torch.zeros(3), torch.tensor([0, 1, 1])), ShapeError),
        (lambda: accuracy(torch.zeros(3, 2), torch.tensor([0, 1])), ShapeError),
        (lambda: accuracy(torch.zeros(2, 2), torch.tensor([0.0, 1.0])), DTypeError),
        (lambda: f1_positive(torch.zeros(2, 3), torch.tensor([0, 1])), ShapeError),
        (lambda: mae(torch.zeros(2, dtype=torch.complex64), torch.zeros(2)), DTypeError),
        (lambda: hits_at_k(torch.zeros(2), torch.zeros(3), 0), OptionError),
        (lambda: hits_at_k(torch.tensor([0.0, float("nan")]), torch.zeros(3), 1), NonFiniteError),
        (lambda: hits_at_k(torch.zeros(2), torch.tensor([float("nan")]), 5), NonFiniteError),
        (lambda: accuracy(torch.zeros(2, 2), torch.zeros(2, dtype=torch.long, device="meta")), DeviceError),
    ],
)
def test_what_cannot_be_scored_is_refused(call, error):
    with pytest.raises(error):
        call()


def draw(kind, seed):
    """Scores, random or adversarial."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 60, 2)
    if kind == "ties":
        return rng.integers(0, 4, sizes[0]).astype(float), rng.integers(0, 4, sizes[1]).astype(float)
    if kind == "constant":
        return np.ones(sizes[0]), np.ones(sizes[1])
    if kind == "infinite":
        values = np.array([-np.inf, 0.0, 1.0, np.inf])
        return rng.choice(values, sizes[0]), rng.choice(values, sizes[1])
    return rng.standard_normal(sizes[0]), rng.standard_normal(sizes[1])


def ogb_hits(positive, negative, k):
    """The definition of OGB's evaluator, in numpy."""
    if len(negative) < k:
        return 1.0
    return float((positive > np.sort(negative)[-k]).sum()) / len(positive)


def ogb_mrr(positive, negative):
    """The same of its mean reciprocal rank; ``negative`` [P, M]."""
    optimistic = (negative > positive[:, None]).sum(1)
    pessimistic = (negative >= positive[:, None]).sum(1)
    return float((1.0 / (0.5 * (optimistic + pessimistic) + 1)).mean())


KINDS = ["random", "ties", "constant", "infinite"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_metrics_equal_ogbs_evaluator_and_scikit_learn(kind, seed):
    positive, negative = draw(kind, seed)
    p, n = torch.from_numpy(positive), torch.from_numpy(negative)
    for k in (1, 3, len(negative), len(negative) + 1, 100):
        assert float(hits_at_k(p, n, k)) == ogb_hits(positive, negative, k)
    shared = np.broadcast_to(negative, (len(positive), len(negative)))
    assert float(mrr(p, n)) == pytest.approx(ogb_mrr(positive, shared), rel=1e-14)
    own = np.random.default_rng(seed).permuted(np.array(shared), axis=1)[:, : max(1, len(negative) // 2)]
    assert float(mrr(p, torch.from_numpy(own))) == pytest.approx(ogb_mrr(positive, own), rel=1e-14)
    labels = np.r_[np.ones(len(positive)), np.zeros(len(negative))]
    finite = np.nan_to_num(np.r_[positive, negative], posinf=9e9, neginf=-9e9)  # which scikit-learn asks for
    assert float(auc(p, n)) == pytest.approx(roc_auc_score(labels, finite), rel=1e-13)


@pytest.mark.parametrize("metric", [mrr, auc, lambda p, n: hits_at_k(p, n, 1)])
def test_nan_and_empty_scores_are_refused(metric):
    good = torch.tensor([1.0, 2.0])
    for bad in ((torch.tensor([1.0, math.nan]), good), (good, torch.tensor([math.nan]))):
        with pytest.raises(NonFiniteError, match="NaN"):
            metric(*bad)
    with pytest.raises(ShapeError, match="positive"):
        metric(torch.empty(0), good)
    with pytest.raises(DTypeError):
        metric(torch.tensor([True]), good)


def test_negatives_of_another_number_of_rows_are_refused():
    with pytest.raises(ShapeError, match="2 rows for 3 positives"):
        mrr(torch.zeros(3), torch.zeros(2, 5))


def test_half_precision_is_compared_exactly():
    positive, negative = torch.tensor([0.5], dtype=torch.bfloat16), torch.tensor([0.5001])
    assert float(hits_at_k(positive, negative, 1)) == 0.0


@pytest.mark.parametrize("shape", [(), (2, 3, 4)])
def test_negatives_of_another_shape_are_refused(shape):
    with pytest.raises(ShapeError, match=r"\[P, M\] or \[M\]"):
        mrr(torch.rand(2), torch.rand(shape))


def draw_labels(kind, seed, width=6):
    """Scores and labels of several tasks: some missing, some of one class only."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (40, width)).astype(float) if kind == "ties" else rng.standard_normal((40, width))
    labels = rng.integers(0, 2, (40, width)).astype(float)
    labels[rng.random((40, width)) < 0.3] = np.nan
    labels[:, 0], labels[:, 1] = 1.0, np.nan
    return scores, labels


@pytest.mark.parametrize("kind", ["random", "ties"])
@pytest.mark.parametrize(("ours", "theirs"), [(roc_auc, roc_auc_score), (average_precision, average_precision_score)])
@pytest.mark.parametrize("seed", range(2))
def test_the_mean_over_labels_with_both_classes_is_scikit_learn_s(kind, ours, theirs, seed):
    scores, labels = draw_labels(kind, seed)
    expected = []
    for score, label in zip(scores.T[2:], labels.T[2:], strict=True):
        there = ~np.isnan(label)
        expected.append(theirs(label[there], score[there]))
    found = ours(torch.from_numpy(scores), torch.from_numpy(labels))
    assert float(found) == pytest.approx(np.mean(expected), rel=1e-13)


@pytest.mark.parametrize(("ours", "theirs"), [(roc_auc, roc_auc_score), (average_precision, average_precision_score)])
def test_scores_of_two_classes_rank_by_their_difference(ours, theirs):
    scores, labels = torch.randn(50, 2), torch.randint(0, 2, (50,))
    expected = theirs(labels, (scores[:, 1].double() - scores[:, 0].double()))
    assert float(ours(scores, labels)) == pytest.approx(expected, rel=1e-13)
    assert float(ours(scores[:, 1], labels)) == pytest.approx(theirs(labels, scores[:, 1]), rel=1e-13)


@pytest.mark.parametrize("metric", [roc_auc, average_precision])
def test_labels_that_cannot_be_ranked_are_refused(metric):
    with pytest.raises(DataError, match="both classes"):
        metric(torch.zeros(3, 2), torch.tensor([[1.0, math.nan]] * 3))
    with pytest.raises(DataError, match="labels 0 and 1"):
        metric(torch.zeros(3), torch.tensor([0, 1, 2]))
    with pytest.raises(ShapeError):
        metric(torch.zeros(3, 3), torch.zeros(3, 2))
    with pytest.raises(NonFiniteError):
        metric(torch.tensor([0.0, math.nan]), torch.tensor([0, 1]))
