"""The benchmark's tasks, to the letter."""

import pytest

from lrga.data.datasets.catalog import CATALOG
from lrga.errors import OptionError
from lrga.models.zoo import INPUTS
from lrga.tasks.named import NAMED_TASKS, task_of, with_choices

PROTOCOL = {
    "PATTERN": ("weighted_cross_entropy", "weighted_accuracy_by_batch"),
    "CLUSTER": ("weighted_cross_entropy", "weighted_accuracy_by_batch"),
    "ZINC": ("l1", "mae_by_batch"),
    "MNIST": ("cross_entropy", "accuracy"),
    "CIFAR10": ("cross_entropy", "accuracy"),
    "TSP": ("cross_entropy", "f1_positive_by_batch"),
}


@pytest.mark.parametrize("name", list(CATALOG))
def test_every_data_set_has_the_benchmark_s_loss_and_metric(name):
    task = task_of(name.lower())
    assert (task.loss, task.metric) == PROTOCOL[name]


@pytest.mark.parametrize("name", list(CATALOG))
def test_a_task_fits_the_catalogue_and_the_zoo(name):
    facts, inputs, task = CATALOG[name], INPUTS[name], NAMED_TASKS[name]
    assert f"{task.level} {task.kind}" == facts.task
    assert task.out_channels == (facts.classes or 1) == inputs.out_channels
    assert task.level == inputs.task


def test_loss_and_metric_can_be_chosen():
    task = with_choices(task_of("PATTERN"), loss="cross_entropy", metric="accuracy")
    assert (task.loss, task.metric) == ("cross_entropy", "accuracy")
    assert with_choices(task) == task
    with pytest.raises(OptionError):
        with_choices(task, metric="mae")


def test_an_unknown_data_set_is_refused():
    with pytest.raises(OptionError, match="PATTERN"):
        task_of("CORA")
