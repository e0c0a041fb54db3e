"""The tasks of the data sets known by name, as their benchmark defines them, and those of a user's own data."""

from dataclasses import asdict, replace

from lrga.data.datasets.spec import spec_of
from lrga.data.own.reading import CustomData
from lrga.tasks.edge import edge_classification, edge_regression
from lrga.tasks.graph import graph_classification, graph_regression
from lrga.tasks.node import node_classification, node_regression
from lrga.tasks.task import Task

_CLASSIFICATION = {"node": node_classification, "graph": graph_classification, "edge": edge_classification}
_REGRESSION = {"node": node_regression, "graph": graph_regression, "edge": edge_regression}


def task_of(name: str) -> Task:
    """The task of a data set known by name, with its usual loss and metric.

    Example:
        >>> task_of("zinc").loss, task_of("zinc").metric
        ('l1', 'mae')
    """
    spec = spec_of(name)
    return Task(level=spec.inputs.task, out_channels=spec.inputs.out_channels, **asdict(spec.task))


def task_of_custom(data: CustomData) -> Task:
    """The task of a user's own data: cross entropy and accuracy, or absolute error, over samples."""
    if data.num_classes is not None:
        return _CLASSIFICATION[data.level](data.num_classes, classes=data.classes)
    return _REGRESSION[data.level](data.num_targets)


def with_choices(task: Task, *, loss: str | None = None, metric: str | None = None) -> Task:
    """The task with another loss or metric, where one is named."""
    return replace(task, loss=loss or task.loss, metric=metric or task.metric)
