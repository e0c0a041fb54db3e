"""What is predicted and how it is scored."""

from lrga.tasks import metrics
from lrga.tasks.named import task_of, task_of_custom
from lrga.tasks.ranking import average_precision, roc_auc
from lrga.tasks.task import METRICS, Metric, Task

__all__ = ["METRICS", "Metric", "Task", "average_precision", "metrics", "roc_auc", "task_of", "task_of_custom"]
