"""What is predicted, what is minimised, and how it is scored."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

from torch import Tensor

from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.padded import FixedBatch
from lrga.errors import DataError, OptionError, ShapeError
from lrga.kernels.checks import check_choice, check_count
from lrga.tasks.losses import CLASSIFICATION_LOSSES, REGRESSION_LOSSES
from lrga.tasks.masked import MASKED_LOSSES, MASKED_METRICS
from lrga.tasks.metrics import accuracy, f1_positive, mae, weighted_accuracy
from lrga.tasks.ranking import auc, hits, mrr

LEVELS = ("node", "graph", "edge")
KINDS = ("classification", "regression")
AVERAGES = ("batches", "samples")


@dataclass(frozen=True)
class Metric:
    """A metric by name: what computes it from scores and targets, and how it reads.

    Attributes:
        name: As in tables: ``"accuracy (%)"``.
        function: ``(scores, targets) → number``.
        kind: Of the tasks it scores.
        higher_is_better: Direction.
        scale: What the function's result is multiplied by to be reported (accuracies are reported in percent).
        decimals: Digits worth printing.
    """

    name: str
    function: Callable[[Tensor, Tensor], Tensor]
    kind: str
    higher_is_better: bool
    scale: float = 1.0
    decimals: int = 2


def number_format(value: float, decimals: int) -> str:
    """How to print numbers such as ``value``: with ``decimals``, or with four digits where those show too little.

    Example:
        >>> [f"{value:{number_format(value, 3)}}" for value in (0.2563, 8400.0, 1.2345e-6, 8.4e36)]
        ['0.256', '8400.000', '1.234e-06', '8.4e+36']
    """
    return f".{decimals}f" if value == 0 or 10.0 ** (1 - decimals) <= abs(value) < 1e9 else ".4g"


class _Metrics(dict[str, Metric]):
    """Metrics by name, ``hits@K`` for any K above 0."""

    def __missing__(self, name: str) -> Metric:
        if (match := HITS.fullmatch(str(name))) is None:
            raise KeyError(name)
        return Metric(f"Hits@{match[1]}", partial(hits, k=int(match[1])), "link", True, decimals=3)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or HITS.fullmatch(str(name)) is not None


HITS = re.compile(r"hits@([1-9][0-9]{0,8})")
METRICS: dict[str, Metric] = _Metrics(
    {
        "weighted_accuracy": Metric(
            "weighted accuracy (%)", lambda s, y: weighted_accuracy(s, y, s.size(1)), "classification", True
        ),
        "accuracy": Metric("accuracy (%)", accuracy, "classification", True, scale=100.0),
        "f1_positive": Metric("F1 of class 1", f1_positive, "classification", True, decimals=3),
        "mae": Metric("MAE", mae, "regression", False, decimals=3),
        # of scores of true and of false pairs (lrga.tasks.link)
        **{
            f"hits@{k}": Metric(f"Hits@{k}", partial(hits, k=k), "link", True, decimals=3)
            for k in (1, 3, 5, 10, 20, 30, 50, 100)
        },
        "mrr": Metric("MRR", mrr, "link", True, decimals=3),
        "auc": Metric("AUC", auc, "link", True, decimals=3),
    }
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A supervised task on graphs.

    Make one with :func:`~lrga.tasks.node.node_classification`, :func:`~lrga.tasks.graph.graph_regression` and the like,
    or take a data set's own with :func:`~lrga.tasks.named.task_of`.

    Attributes:
        level: ``"node"``, ``"graph"`` or ``"edge"``: what one prediction belongs to.
        kind: ``"classification"`` or ``"regression"``.
        out_channels: Classes, or numbers to predict: the width of a model's output.
        loss: Name of a loss.
        metric: Name of a metric of :data:`METRICS`.
        average: Whether the metric is averaged over ``"batches"`` (each counts alike) or ``"samples"``.
        classes: Names of the classes, where they have any.
        target_mean: Of each number to predict, where the targets are standardised: subtracted before the division.
        target_std: What the targets are divided by. Losses are minimised in standardised units, and reported, as
            metrics and predictions are, in those of the data.
    """

    level: str
    kind: str
    out_channels: int
    loss: str
    metric: str
    average: str = "samples"
    classes: tuple[str, ...] | None = None
    target_mean: tuple[float, ...] | None = None
    target_std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_choice("level", self.level, LEVELS)
        check_choice("kind", self.kind, KINDS)
        check_choice("average", self.average, AVERAGES)
        check_count("out_channels", self.out_channels, minimum=2 if self.kind == "classification" else 1)
        check_choice("loss", self.loss, tuple(self._losses))
        check_choice("metric", self.metric, tuple(name for name, m in METRICS.items() if m.kind == self.kind))
        if self.metric == "f1_positive" and self.out_channels != 2:
            raise OptionError("two classes for the metric f1_positive", str(self.out_channels), "take accuracy")
        if self.classes is not None and len(self.classes) != self.out_channels:
            got = f"{len(self.classes)} names"
            raise OptionError(f"a name for each of {self.out_channels} classes", got, "name every class once")
        self._check_scale()

    def _check_scale(self) -> None:
        if self.target_mean is None and self.target_std is None:
            return
        mean, std = self.target_mean or (), self.target_std or ()
        good = self.kind == "regression" and len(mean) == len(std) == self.out_channels
        if not good or not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
            expected = f"target_mean and target_std, {self.out_channels} finite numbers each, of a regression"
            raise OptionError(expected, f"{mean} and {std}", "give both, with deviations above 0, or none")

    @property
    def _losses(self) -> Mapping[str, Callable[[Tensor, Tensor], Tensor]]:
        return CLASSIFICATION_LOSSES if self.kind == "classification" else REGRESSION_LOSSES

    @property
    def metric_facts(self) -> Metric:
        """Name, direction and digits of the metric."""
        return METRICS[self.metric]

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether a value of the metric is strictly better than another."""
        if than is None or than != than:
            return value == value
        return value > than if self.metric_facts.higher_is_better else value < than

    def select(self, output: Tensor, batch: PackedBatch, *, masked: bool = False) -> tuple[Tensor, Tensor]:
        """Scores and targets of a batch, ``[M, out_channels]`` and ``[M]`` (or as wide).

        With ``masked``, only those where the attribute ``mask`` of the batch is true.
        """
        if batch.y is None:
            raise DataError("targets (y) to train or evaluate on", "graphs without any", "give y to every graph")
        rows = {"node": batch.num_nodes, "graph": batch.num_graphs, "edge": batch.num_edges}[self.level]
        targets = self._targets(output, batch.y, rows)
        if masked:
            mask = batch.attribute("mask")
            return output[mask], targets[mask]
        return output, targets

    def select_fixed(self, output: Tensor, batch: FixedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Scores and targets of a batch with padding, and which of the rows count, bool ``[M]``."""
        if batch.y is None:
            raise DataError("targets (y) to train or evaluate on", "graphs without any", "give y to every graph")
        counted = batch.counted(self.level)
        if self.level == "graph" and output.size(0) == batch.num_graphs:
            output = output[:-1]  # without the dummy, which has no target
        return output, self._targets(output, batch.y, counted.size(0)), counted

    def _targets(self, output: Tensor, y: Tensor, rows: int) -> Tensor:
        width = self.out_channels if self.kind == "regression" else 1
        if output.shape != (rows, self.out_channels) or y.numel() != rows * width:
            got = f"an output of shape {list(output.shape)} and targets of shape {list(y.shape)}"
            raise ShapeError(
                f"{rows} rows, one for each {self.level}", got, f"train a model of {self.level}s on this set"
            )
        return y.view(rows, width) if self.kind == "regression" else y.view(rows)

    def loss_of(self, scores: Tensor, targets: Tensor, counted: Tensor | None = None) -> Tensor:
        """What training minimises; 0 (with a gradient of 0) where a batch has no target.

        With ``counted`` ``[M]`` only the rows where it is true, in shapes that do not depend on how many they are.
        """
        if counted is not None:
            return MASKED_LOSSES[self.loss](scores, targets, counted)
        return scores.sum() * 0.0 if scores.size(0) == 0 else self._losses[self.loss](scores, targets)

    def score(self, scores: Tensor, targets: Tensor, counted: Tensor | None = None) -> Tensor:
        """The metric as it is reported; with ``counted`` of those rows, 0 where there are none."""
        if counted is not None:
            return MASKED_METRICS[self.metric](scores.detach(), targets, counted) * self.metric_facts.scale
        return self.metric_facts.function(scores.detach(), targets) * self.metric_facts.scale

    def to_json(self) -> dict[str, Any]:
        """As JSON values; :meth:`from_json` reads them."""
        values = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        return {key: v for key, v in values.items() if v is not None or not key.startswith("target_")}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Task":
        """The task that :meth:`to_json` wrote."""
        known = {field.name for field in fields(cls)}
        if set(values) - known or not {"level", "kind", "out_channels", "loss", "metric"} <= set(values):
            raise OptionError(f"a task with {', '.join(sorted(known))}", ", ".join(sorted(values)), "keep these keys")
        made: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**made)
