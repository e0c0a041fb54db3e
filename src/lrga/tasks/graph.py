"""Predictions of graphs."""

from lrga.tasks.task import Task


def graph_classification(
    num_classes: int,
    *,
    loss: str = "cross_entropy",
    metric: str = "accuracy",
    average: str = "samples",
    classes: tuple[str, ...] | None = None,
) -> Task:
    """One of ``num_classes`` classes for each graph.

    These defaults are those of MNIST and CIFAR10.

    Example:
        >>> graph_classification(6).out_channels
        6
    """
    return Task(
        level="graph", kind="classification", out_channels=num_classes, loss=loss, metric=metric, average=average,
        classes=classes,
    )  # fmt: skip


def graph_regression(num_targets: int = 1, *, loss: str = "l1", metric: str = "mae", average: str = "samples") -> Task:
    """``num_targets`` numbers for each graph. ZINC takes ``average="batches"``.

    Example:
        >>> graph_regression().kind
        'regression'
    """
    return Task(level="graph", kind="regression", out_channels=num_targets, loss=loss, metric=metric, average=average)
