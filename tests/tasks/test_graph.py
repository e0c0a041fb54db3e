"""Tasks of graphs."""

import pytest

from lrga.errors import OptionError
from lrga.tasks.graph import graph_classification, graph_regression


def test_classes_are_scored_by_cross_entropy_and_accuracy_over_samples():
    task = graph_classification(3, classes=("a", "b", "c"))
    assert (task.level, task.kind, task.out_channels) == ("graph", "classification", 3)
    assert (task.loss, task.metric, task.average) == ("cross_entropy", "accuracy", "samples")
    assert task.classes == ("a", "b", "c")


def test_numbers_are_scored_by_absolute_error():
    task = graph_regression(2, loss="mse")
    assert (task.level, task.kind, task.out_channels) == ("graph", "regression", 2)
    assert (task.loss, task.metric) == ("mse", "mae")


def test_a_single_class_is_refused():
    with pytest.raises(OptionError):
        graph_classification(1)
