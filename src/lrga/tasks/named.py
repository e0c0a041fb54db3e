"""The tasks of the data sets known by name, as their benchmark defines them, and those of a user's own data."""

from dataclasses import asdict, replace

from lrga.data.datasets.spec import spec_of
from lrga.data.own.reading import OwnData
from lrga.tasks.task import Task


def task_of(name: str) -> Task:
    """The task of a data set known by name, with its usual loss and metric.

    Example:
        >>> task_of("zinc").loss, task_of("zinc").metric
        ('l1', 'mae_by_batch')
    """
    spec = spec_of(name)
    return Task(level=spec.inputs.task, out_channels=spec.inputs.out_channels, **asdict(spec.task))


def task_of_custom(data: OwnData) -> Task:
    """The task of a user's own data, with the loss and metric of its kind."""
    return Task(level=data.level, kind=data.task, out_channels=data.num_outputs, classes=data.classes)


def with_choices(
    task: Task, *, loss: str | None = None, metric: str | None = None, label_smoothing: float = 0.0
) -> Task:
    """The task with another loss or metric, where one is named, and label smoothing."""
    return replace(task, loss=loss or task.loss, metric=metric or task.metric, label_smoothing=label_smoothing)
