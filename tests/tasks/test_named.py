"""The benchmark's tasks, to the letter."""

import pytest

from lrga.errors import OptionError
from lrga.tasks.named import task_of, with_choices

PROTOCOL = {
    "PATTERN": ("weighted_cross_entropy", "weighted_accuracy_by_batch"),
    "CLUSTER": ("weighted_cross_entropy", "weighted_accuracy_by_batch"),
    "ZINC": ("l1", "mae_by_batch"),
    "MNIST": ("cross_entropy", "accuracy"),
    "CIFAR10": ("cross_entropy", "accuracy"),
    "TSP": ("cross_entropy", "f1_positive_by_batch"),
}


@pytest.mark.parametrize("name", PROTOCOL)
def test_every_data_set_has_the_benchmark_s_loss_and_metric(name):
    task = task_of(name.lower())
    assert (task.loss, task.metric) == PROTOCOL[name]


def test_loss_and_metric_can_be_chosen():
    task = with_choices(task_of("PATTERN"), loss="cross_entropy", metric="accuracy")
    assert (task.loss, task.metric) == ("cross_entropy", "accuracy")
    assert with_choices(task) == task
    with pytest.raises(OptionError):
        with_choices(task, metric="mae")


def test_an_unknown_data_set_is_refused():
    with pytest.raises(OptionError, match="PATTERN"):
        task_of("ZINK")
