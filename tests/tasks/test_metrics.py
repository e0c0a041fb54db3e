"""Metrics against scikit-learn, at ties, absent classes and empty input."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, mean_absolute_error, recall_score

from lrga.errors import DataError, DeviceError, DTypeError, NonFiniteError, OptionError, ShapeError
from lrga.tasks.metrics import accuracy, f1_positive, hits_at_k, mae, weighted_accuracy


def random_case(rows, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-3, 4, (rows, classes), generator=generator).float()  # few values: many ties
    return scores, torch.randint(0, classes, (rows,), generator=generator)


def recall_by_sklearn(scores, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sklearn warns where a class has no label, the very case to compare
        return 100 * recall_score(labels, np.argmax(scores, axis=1), average="macro", zero_division=0)


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 40), classes=st.integers(2, 7), seed=st.integers(0, 10_000))
def test_weighted_accuracy_is_macro_recall_over_classes_that_occur(rows, classes, seed):
    scores, labels = random_case(rows, classes, seed)
    ours = float(weighted_accuracy(scores, labels, classes))
    assert ours == pytest.approx(recall_by_sklearn(scores.numpy(), labels.numpy()), abs=1e-9)


def test_weighted_accuracy_is_the_benchmark_s_where_classes_have_no_gap():
    scores, labels = random_case(50, 4, seed=3)
    matrix = confusion_matrix(labels, scores.argmax(1)).astype(float)  # rows: classes among labels and predictions
    recalls = [matrix[c, c] / max(float((labels == c).sum()), 1) for c in range(len(matrix))]
    assert float(weighted_accuracy(scores, labels, 4)) == pytest.approx(100 * sum(recalls) / len(matrix))


def test_a_class_that_is_predicted_but_absent_counts_as_recall_0():
    scores = torch.tensor([[9.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    assert float(weighted_accuracy(scores, torch.tensor([0, 0, 0]), 3)) == pytest.approx(100 * (2 / 3 + 0) / 2)


def test_a_class_that_neither_is_there_nor_predicted_does_not_count():
    scores = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    assert float(weighted_accuracy(scores, torch.tensor([0, 1]), 3)) == 100.0


def test_on_a_tie_the_first_class_is_predicted():
    scores, labels = torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])
    assert float(weighted_accuracy(scores, labels, 2)) == 50.0
    assert float(accuracy(scores, labels)) == 0.5
    assert float(f1_positive(scores, labels)) == 0.0


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 40), classes=st.integers(2, 7), seed=st.integers(0, 10_000))
def test_accuracy_is_sklearn_s(rows, classes, seed):
    scores, labels = random_case(rows, classes, seed)
    assert float(accuracy(scores, labels)) == pytest.approx(accuracy_score(labels, scores.numpy().argmax(1)))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 30), seed=st.integers(0, 10_000))
def test_f1_of_class_1_is_sklearn_s(rows, seed):
    scores, labels = random_case(rows, 2, seed)
    assert float(f1_positive(scores, labels)) == pytest.approx(
        f1_score(labels, scores.numpy().argmax(1), average="binary", zero_division=0)
    )


def test_f1_is_0_where_class_1_is_neither_there_nor_predicted():
    assert float(f1_positive(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))) == 0.0


@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 3)])
def test_mae_is_sklearn_s(shape):
    scores, targets = torch.randn(shape), torch.randn(shape)
    assert float(mae(scores, targets)) == pytest.approx(mean_absolute_error(targets, scores), abs=1e-7)


def test_mae_of_a_column_beside_a_vector_does_not_broadcast():
    scores, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 2.0])
    assert float(mae(scores, targets)) == 0.0
    with pytest.raises(ShapeError):
        mae(torch.zeros(2, 2), torch.zeros(2))


def test_hits_counts_positives_strictly_above_the_kth_best_negative():
    negative = torch.tensor([0.9, 0.5, 0.5, 0.1])
    positive = torch.tensor([0.95, 0.9, 0.5, 0.2])
    assert float(hits_at_k(positive, negative, 1)) == 0.25
    assert float(hits_at_k(positive, negative, 2)) == 0.5
    assert float(hits_at_k(positive, negative, 4)) == 1.0
    assert float(hits_at_k(positive, negative, 5)) == 1.0  # fewer negatives than k


def test_hits_is_that_of_a_plain_count():
    generator = torch.Generator().manual_seed(0)
    positive, negative = (torch.randn(n, generator=generator).round(decimals=1) for n in (50, 200))
    for k in (1, 10, 50, 200):
        threshold = sorted(negative.tolist(), reverse=True)[k - 1]
        expected = sum(value > threshold for value in positive.tolist()) / 50
        assert float(hits_at_k(positive, negative, k)) == pytest.approx(expected)


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


def test_a_metric_takes_lists_and_arrays_too():
    assert float(mae([1.0, 2.0], np.array([1.0, 4.0]))) == 1.0
    assert float(accuracy(np.array([[0.0, 1.0]]), [1])) == 1.0
