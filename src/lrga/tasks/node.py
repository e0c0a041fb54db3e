"""Predictions of nodes."""

from lrga.tasks.task import Task


def node_classification(
    num_classes: int,
    *,
    loss: str = "cross_entropy",
    metric: str = "accuracy",
    average: str = "samples",
    classes: tuple[str, ...] | None = None,
) -> Task:
    """One of ``num_classes`` classes for each node.

    PATTERN and CLUSTER take ``loss="weighted_cross_entropy"``, ``metric="weighted_accuracy"`` and
    ``average="batches"``.

    Example:
        >>> node_classification(6).out_channels
        6
    """
    return Task(
        level="node", kind="classification", out_channels=num_classes, loss=loss, metric=metric, average=average,
        classes=classes,
    )  # fmt: skip


def node_regression(num_targets: int = 1, *, loss: str = "l1", metric: str = "mae", average: str = "samples") -> Task:
    """``num_targets`` numbers for each node.

    Example:
        >>> node_regression().kind
        'regression'
    """
    return Task(level="node", kind="regression", out_channels=num_targets, loss=loss, metric=metric, average=average)
