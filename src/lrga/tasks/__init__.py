"""Tasks: losses and metrics."""

from lrga.tasks import metrics
from lrga.tasks.metrics import average_precision, roc_auc
from lrga.tasks.task import METRICS, Metric, Task, task_of, task_of_custom

__all__ = ["METRICS", "Metric", "Task", "average_precision", "metrics", "roc_auc", "task_of", "task_of_custom"]
