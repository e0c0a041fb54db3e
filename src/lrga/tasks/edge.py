"""Predictions of edges."""

from lrga.tasks.task import Task


def edge_classification(
    num_classes: int,
    *,
    loss: str = "cross_entropy",
    metric: str = "accuracy",
    average: str = "samples",
    classes: tuple[str, ...] | None = None,
) -> Task:
    """One of ``num_classes`` classes for each edge.

    TSP takes ``metric="f1_positive"`` and ``average="batches"``. Edges are directed: each has a prediction of its own.

    Example:
        >>> edge_classification(6).out_channels
        6
    """
    return Task(
        level="edge", kind="classification", out_channels=num_classes, loss=loss, metric=metric, average=average,
        classes=classes,
    )  # fmt: skip


def edge_regression(num_targets: int = 1, *, loss: str = "l1", metric: str = "mae", average: str = "samples") -> Task:
    """``num_targets`` numbers for each edge.

    Example:
        >>> edge_regression().kind
        'regression'
    """
    return Task(level="edge", kind="regression", out_channels=num_targets, loss=loss, metric=metric, average=average)
