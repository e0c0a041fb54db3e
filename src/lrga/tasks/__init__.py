"""What is predicted and how it is scored."""

from lrga.tasks import metrics
from lrga.tasks.edge import edge_classification, edge_regression
from lrga.tasks.graph import graph_classification, graph_regression
from lrga.tasks.named import task_of, task_of_custom
from lrga.tasks.node import node_classification, node_regression
from lrga.tasks.task import METRICS, Metric, Task

__all__ = [
    "METRICS",
    "Metric",
    "Task",
    "edge_classification",
    "edge_regression",
    "graph_classification",
    "graph_regression",
    "metrics",
    "node_classification",
    "node_regression",
    "task_of",
    "task_of_custom",
]
