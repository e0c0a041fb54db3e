"""Tasks of edges."""

import pytest

from lrga.errors import OptionError
from lrga.tasks.edge import edge_classification, edge_regression


def test_classes_are_scored_by_cross_entropy_and_accuracy_over_samples():
    task = edge_classification(3, classes=("a", "b", "c"))
    assert (task.level, task.kind, task.out_channels) == ("edge", "classification", 3)
    assert (task.loss, task.metric, task.average) == ("cross_entropy", "accuracy", "samples")
    assert task.classes == ("a", "b", "c")


def test_numbers_are_scored_by_absolute_error():
    task = edge_regression(2, loss="mse")
    assert (task.level, task.kind, task.out_channels) == ("edge", "regression", 2)
    assert (task.loss, task.metric) == ("mse", "mae")


def test_a_single_class_is_refused():
    with pytest.raises(OptionError):
        edge_classification(1)
