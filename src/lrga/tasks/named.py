"""The tasks of the data sets known by name, as their benchmark defines them, and those of a user's own data."""

from dataclasses import replace

from lrga.data.datasets.catalog import dataset_facts
from lrga.data.own.reading import OwnData
from lrga.tasks.edge import edge_classification, edge_regression
from lrga.tasks.graph import graph_classification, graph_regression
from lrga.tasks.node import node_classification, node_regression
from lrga.tasks.task import Task


def _block_model(num_classes: int) -> Task:
    return node_classification(
        num_classes, loss="weighted_cross_entropy", metric="weighted_accuracy", average="batches"
    )


NAMED_TASKS: dict[str, Task] = {
    "PATTERN": _block_model(2),
    "CLUSTER": _block_model(6),
    "ZINC": graph_regression(average="batches"),
    "MNIST": graph_classification(10),
    "CIFAR10": graph_classification(10),
    "TSP": edge_classification(2, metric="f1_positive", average="batches"),
}
_CLASSIFICATION = {"node": node_classification, "graph": graph_classification, "edge": edge_classification}
_REGRESSION = {"node": node_regression, "graph": graph_regression, "edge": edge_regression}


def task_of(name: str) -> Task:
    """The task of a data set of the catalogue, with the benchmark's loss and metric.

    Example:
        >>> task_of("zinc").loss, task_of("zinc").metric
        ('l1', 'mae')
    """
    return NAMED_TASKS[dataset_facts(name).name]


def task_of_custom(data: OwnData) -> Task:
    """The task of a user's own data: cross entropy and accuracy, or absolute error, over samples."""
    if data.num_classes is not None:
        return _CLASSIFICATION[data.level](data.num_classes, classes=data.classes)
    return _REGRESSION[data.level](data.num_targets)


def with_choices(task: Task, *, loss: str | None = None, metric: str | None = None) -> Task:
    """The task with another loss or metric, where one is named."""
    return replace(task, loss=loss or task.loss, metric=metric or task.metric)
