"""Tasks of nodes."""

import pytest

from lrga.errors import OptionError
from lrga.tasks.node import node_classification, node_regression


def test_classes_are_scored_by_cross_entropy_and_accuracy_over_samples():
    task = node_classification(3, classes=("a", "b", "c"))
    assert (task.level, task.kind, task.out_channels) == ("node", "classification", 3)
    assert (task.loss, task.metric, task.average) == ("cross_entropy", "accuracy", "samples")
    assert task.classes == ("a", "b", "c")


def test_numbers_are_scored_by_absolute_error():
    task = node_regression(2, loss="mse")
    assert (task.level, task.kind, task.out_channels) == ("node", "regression", 2)
    assert (task.loss, task.metric) == ("mse", "mae")


def test_a_single_class_is_refused():
    with pytest.raises(OptionError):
        node_classification(1)
