"""The tasks of the data sets known by name, as their benchmark defines them, and those of a user's own data."""

from dataclasses import replace

from lrga.data.datasets.catalog import dataset_facts
from lrga.data.own.reading import OwnData
from lrga.tasks.task import Task


def _block_model(num_classes: int) -> Task:
    return Task(
        level="node",
        kind="classification",
        out_channels=num_classes,
        loss="weighted_cross_entropy",
        metric="weighted_accuracy_by_batch",
    )


NAMED_TASKS: dict[str, Task] = {
    "PATTERN": _block_model(2),
    "CLUSTER": _block_model(6),
    "ZINC": Task(level="graph", kind="regression", out_channels=1, metric="mae_by_batch"),
    "MNIST": Task(level="graph", kind="classification", out_channels=10),
    "CIFAR10": Task(level="graph", kind="classification", out_channels=10),
    "TSP": Task(level="edge", kind="classification", out_channels=2, metric="f1_positive_by_batch"),
}


def task_of(name: str) -> Task:
    """The task of a data set of the catalogue, with the benchmark's loss and metric.

    Example:
        >>> task_of("zinc").loss, task_of("zinc").metric
        ('l1', 'mae_by_batch')
    """
    return NAMED_TASKS[dataset_facts(name).name]


def task_of_custom(data: OwnData) -> Task:
    """The task of a user's own data, with the loss and metric of its kind."""
    return Task(level=data.level, kind=data.task, out_channels=data.num_outputs, classes=data.classes)


def with_choices(
    task: Task, *, loss: str | None = None, metric: str | None = None, label_smoothing: float = 0.0
) -> Task:
    """The task with another loss or metric, where one is named, and label smoothing."""
    return replace(task, loss=loss or task.loss, metric=metric or task.metric, label_smoothing=label_smoothing)
