"""Tasks: level and kind of the predictions, loss and metric."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.checks import check_choice, check_count
from lrga.data.datasets.spec import spec_of
from lrga.data.links.negatives import KINDS as NEGATIVES
from lrga.data.own.reading import TASKS, OwnData
from lrga.data.packed.arrays import LEVELS
from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.padded import PaddedBatch
from lrga.errors import DataError, OptionError, ShapeError
from lrga.io.documents import read_fields
from lrga.tasks import metrics
from lrga.tasks.losses import LOSSES, class_weights

DEFAULTS = {  # default loss and metric of each kind
    "classification": ("cross_entropy", "accuracy"),
    "multilabel": ("binary_cross_entropy", "average_precision"),
    "regression": ("l1", "mae"),
}
BY_BATCH = "_by_batch"  # suffix of the benchmark's metrics, which are means over batches


@dataclass(frozen=True)
class Metric:
    """A metric: how it is computed and displayed.

    Attributes:
        name: Name in tables: ``"accuracy (%)"``.
        function: Computes the metric from the total of :attr:`sums` over all batches. Without ``sums`` (rankings) it
            takes scores and targets of all rows at once, or scores of positive and negative pairs of links.
        kinds: Kinds of tasks that the metric supports.
        higher_is_better: Whether higher values are better.
        sums: ``(scores, targets, valid) → sums`` of a batch.
        by_batch: Whether ``sums`` is the metric of a batch, so that the mean over batches is reported.
        decimals: Number of decimals to print.
    """

    name: str
    function: Callable[..., Tensor]
    kinds: tuple[str, ...]
    higher_is_better: bool
    sums: Callable[[Tensor, Tensor, Tensor | None], Tensor] | None = None
    by_batch: bool = False
    decimals: int = 2


def number_format(value: float, decimals: int) -> str:
    """The format for numbers such as ``value``: ``decimals`` decimals, or four digits if that shows too little.

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
        return _hits(int(match[1]))

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or HITS.fullmatch(str(name)) is not None


def _by_batch(metric: Metric) -> Metric:
    """The mean of a metric over batches; it has the same name in tables."""
    assert metric.sums is not None
    own, sums = metric.function, metric.sums
    return replace(metric, sums=lambda *rows: own(sums(*rows)), function=lambda mean: mean, by_batch=True)


def _hits(k: int) -> Metric:
    return Metric(f"Hits@{k}", partial(metrics.hits_at_k, k=k), ("link",), True, decimals=3)


HITS = re.compile(r"hits@([1-9][0-9]{0,8})")
_CLASSES, _LABELS, _NUMBERS = ("classification",), ("classification", "multilabel"), ("regression",)
_OF_SETS = {
    "weighted_accuracy": Metric("weighted accuracy (%)", metrics.mean_recall, _CLASSES, True, metrics.recall_sums),
    "accuracy": Metric("accuracy (%)", partial(metrics.share, scale=100.0), _CLASSES, True, metrics.accuracy_sums),
    "f1_positive": Metric("F1 of class 1", metrics.share, _CLASSES, True, metrics.f1_sums, decimals=3),
    "mae": Metric("MAE", metrics.share, _NUMBERS, False, metrics.error_sums, decimals=3),
}
_SQUARED = partial(metrics.error_sums, size=torch.square)
METRICS: dict[str, Metric] = _Metrics(
    {
        **_OF_SETS,
        "mse": Metric("MSE", metrics.share, _NUMBERS, False, _SQUARED, decimals=3),
        "rmse": Metric("RMSE", lambda sums: metrics.share(sums).sqrt(), _NUMBERS, False, _SQUARED, decimals=3),
        "roc_auc": Metric("ROC-AUC", metrics.roc_auc, _LABELS, True, decimals=3),
        "average_precision": Metric("average precision", metrics.average_precision, _LABELS, True, decimals=3),
        # metrics of the benchmark (PATTERN, CLUSTER, ZINC, TSP): they depend on the batch size of the evaluation
        **{name + BY_BATCH: _by_batch(metric) for name, metric in _OF_SETS.items()},
        # metrics of scores of positive and negative pairs (lrga.tasks.task)
        **{f"hits@{k}": _hits(k) for k in (1, 3, 5, 10, 20, 30, 50, 100)},
        "mrr": Metric("MRR", metrics.mrr, ("link",), True, decimals=3),
        "auc": Metric("AUC", metrics.auc, ("link",), True, decimals=3),
    }
)


class _Scored:
    """Common part of all tasks: metrics by name, and JSON."""

    kind: str
    out_channels: int
    metric: str
    log_metrics: tuple[str, ...]

    @property
    def metric_facts(self) -> Metric:
        """Name, direction and digits of the metric."""
        return METRICS[self.metric]

    def numbers(self) -> dict[str, Metric]:
        """The metrics to log beside :attr:`metric`, by name; a subclass may add its own.

        The value of each split is recorded as ``NAME/SPLIT``, for example ``"accuracy/val"``.
        """
        return {name: METRICS[name] for name in self.log_metrics}

    def logged(self) -> dict[str, Metric]:
        """:meth:`numbers`, if they are metrics by name; else an error."""
        found = self.numbers()
        if not isinstance(found, dict) or not all(isinstance(metric, Metric) for metric in found.values()):
            raise OptionError("numbers() to return a dict of Metric by name", repr(found), "use lrga.tasks.Metric")
        return found

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether a value of the metric is strictly better than another."""
        if than is None or than != than:
            return value == value
        return value > than if self.metric_facts.higher_is_better else value < than

    def to_json(self) -> dict[str, Any]:
        """JSON values for :meth:`from_json`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        plain = {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}
        return {key: v for key, v in plain.items() if v or not key.startswith(("target_", "log_"))}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads the values of :meth:`to_json`."""
        if "average" in values:  # format of version 0.1
            check_choice("average", values["average"], ("batches", "samples"))
            suffix = BY_BATCH if values["average"] == "batches" else ""
            values = {key: v for key, v in values.items() if key != "average"}
            values["metric"] = f"{values.get('metric')}{suffix}"
        return read_fields(cls, {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}, "a task")

    def _check_metrics(self) -> None:
        """Raises an error unless all metrics apply to the kind of the task and differ from each other."""
        for option, name in (("metric", self.metric), *(("log_metrics", name) for name in self.log_metrics)):
            if name not in METRICS or self.kind not in METRICS[name].kinds:
                check_choice(option, name, tuple(key for key, m in METRICS.items() if self.kind in m.kinds))
            of_two = name.removesuffix(BY_BATCH) in ("f1_positive", "roc_auc", "average_precision")
            if self.kind == "classification" and of_two and self.out_channels != 2:
                raise OptionError(f"two classes for the metric {name}", str(self.out_channels), "use accuracy")
        if len({self.metric, *self.log_metrics}) <= len(self.log_metrics):
            got, remedy = f"{', '.join(self.log_metrics)} beside {self.metric}", "name each metric once"
            raise OptionError("log_metrics that differ from each other and from the metric", got, remedy)


@dataclass(frozen=True, kw_only=True)
class Task(_Scored):
    """A supervised task on graphs; :func:`~lrga.tasks.task.task_of` returns the task of a data set.

    Attributes:
        level: Level of a prediction: ``"node"``, ``"graph"`` or ``"edge"``.
        kind: ``"classification"`` (one of several classes), ``"multilabel"`` (several labels, each 1 or 0, or NaN if
            missing) or ``"regression"``.
        out_channels: Number of classes, labels or values to predict: the width of a model's output.
        loss: Name of a loss, by default the one of the kind (:data:`DEFAULTS`).
        metric: Name of a metric in :data:`METRICS`, by default the one of the kind.
        log_metrics: Names of other metrics to log.
        classes: Names of the classes or labels, if any.
        target_mean: Mean of each target, if targets are standardised.
        target_std: Standard deviation of each target. Training uses standardised units; reported losses, metrics and
            predictions are in the units of the data.
        label_smoothing: Fraction of the weight of the true class to spread over all classes (cross entropy).

    Example:
        >>> task = Task(level="graph", kind="regression", out_channels=1)
        >>> task.loss, task.metric
        ('l1', 'mae')
    """

    level: str
    kind: str
    out_channels: int
    loss: str = ""
    metric: str = ""
    classes: tuple[str, ...] | None = None
    target_mean: tuple[float, ...] | None = None
    target_std: tuple[float, ...] | None = None
    label_smoothing: float = 0.0
    log_metrics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("level", self.level, LEVELS)
        check_choice("kind", self.kind, TASKS)
        for name, default in zip(("loss", "metric"), DEFAULTS[self.kind], strict=True):
            object.__setattr__(self, name, getattr(self, name) or default)
        check_count("out_channels", self.out_channels, minimum=2 if self.kind == "classification" else 1)
        check_choice("loss", self.loss, tuple(LOSSES[self.kind]))
        self._check_metrics()
        if self.classes is not None and len(self.classes) != self.out_channels:
            got = f"{len(self.classes)} names"
            raise OptionError(f"a name for each of {self.out_channels} classes", got, "pass one name per class")
        if self.target_mean is not None or self.target_std is not None:
            mean, std = self.target_mean or (), self.target_std or ()
            good = self.kind == "regression" and len(mean) == len(std) == self.out_channels
            if not good or not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
                expected = f"target_mean and target_std of a regression, {self.out_channels} finite numbers each"
                raise OptionError(expected, f"{mean} and {std}", "pass both, with positive deviations, or neither")
        smoothing = self.label_smoothing
        if not isinstance(smoothing, int | float) or not 0 <= smoothing < 1 or isinstance(smoothing, bool):
            raise OptionError("label_smoothing of at least 0 and below 1", repr(smoothing), "pass for example 0.1")
        if smoothing and self.kind != "classification":
            raise OptionError("a classification task for label_smoothing", f"a {self.kind} task", "omit it")

    def select(self, output: Tensor, batch: PackedBatch, *, masked: bool = False) -> tuple[Tensor, Tensor]:
        """Scores ``[M, out_channels]`` and targets ``[M]`` or ``[M, out_channels]`` of a batch.

        With ``masked``, only rows where the attribute ``mask`` of the batch is true; for a sample, only its seeds.
        """
        rows = {"node": batch.num_nodes, "graph": batch.num_graphs, "edge": batch.num_edges}[self.level]
        targets = self._targets(output, batch.y, rows)
        if batch.num_seeds is not None:
            return output[: batch.num_seeds], targets[: batch.num_seeds]
        if masked:
            mask = batch.attribute("mask")
            return output[mask], targets[mask]
        return output, targets

    def select_padded(self, output: Tensor, batch: PaddedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Scores and targets of a padded batch, and a bool mask ``[M]`` of the rows that count."""
        valid = batch.valid(self.level)
        if self.level == "graph" and output.size(0) == batch.num_graphs:
            output = output[:-1]  # without the dummy graph, which has no target
        return output, self._targets(output, batch.y, valid.size(0)), valid

    def _targets(self, output: Tensor, y: Tensor | None, rows: int) -> Tensor:
        if y is None:
            raise DataError("targets (y) to train or evaluate on", "graphs without targets", "set y in every graph")
        width = 1 if self.kind == "classification" else self.out_channels
        if output.shape != (rows, self.out_channels) or y.numel() != rows * width:
            got = f"an output of shape {list(output.shape)} and targets of shape {list(y.shape)}"
            raise ShapeError(f"{rows} rows, one for each {self.level}", got, f"use a model that predicts {self.level}s")
        return y.view(rows) if self.kind == "classification" else y.view(rows, width)

    def class_weights(self, batch: PaddedBatch, dtype: torch.dtype) -> tuple[Tensor, Tensor] | None:
        """The class weights of a padded batch for :meth:`loss_of`; ``None`` for a loss without, or without targets."""
        if self.loss != "weighted_cross_entropy" or batch.y is None:
            return None
        return class_weights(batch.y.view(-1), self.out_channels, batch.valid(self.level), dtype=dtype)

    def loss_of(
        self,
        scores: Tensor,
        targets: Tensor,
        valid: Tensor | None = None,
        weights: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """The training loss; 0 (with a gradient of 0) for a batch without targets.

        With ``valid`` ``[M]`` only rows where it is true count; shapes do not depend on their number. ``weights`` are
        the batch's :meth:`class_weights`, if known.
        """
        if valid is None and scores.size(0) == 0:
            return scores.sum() * 0.0
        options: dict[str, Any] = {"label_smoothing": self.label_smoothing} if self.label_smoothing else {}
        if weights is not None:
            options["weights"] = weights
        return LOSSES[self.kind][self.loss](scores, targets, valid, **options)

    def score(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The reported metric of these rows."""
        metric, scores = self.metric_facts, scores.detach()
        rows = (scores, targets) if metric.sums is None else (metric.sums(scores, targets, None),)
        return metric.function(*rows)


def task_of(name: str) -> Task:
    """The task of a named data set, with its usual loss and metric.

    Example:
        >>> task_of("zinc").loss, task_of("zinc").metric
        ('l1', 'mae_by_batch')
    """
    spec = spec_of(name)
    return Task(level=spec.inputs.task, out_channels=spec.inputs.out_channels, **asdict(spec.task))


def task_of_custom(data: OwnData) -> Task:
    """The task of a user's own data, with the default loss and metric of its kind."""
    return Task(level=data.level, kind=data.task, out_channels=data.num_outputs, classes=data.classes)


@dataclass(frozen=True, kw_only=True)
class LinkTask(_Scored):
    """Link prediction: which pairs of nodes are edges.

    Attributes:
        metric: ``"hits@20"`` (or any other number), ``"mrr"`` or ``"auc"``.
        negatives: Negative pairs for training: ``"uniform"`` random pairs, or ``"no_edge"`` for non-edges only.
        log_metrics: Names of other metrics to log.

    Example:
        >>> import torch
        >>> task = LinkTask(metric="hits@1")
        >>> float(task.score(torch.tensor([2.0, 0.0]), torch.tensor([1.0, -1.0])))
        0.5
    """

    metric: str = "hits@50"
    negatives: str = "uniform"
    level: str = "link"
    kind: str = "link"
    log_metrics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.level, self.kind) != ("link", "link"):
            raise OptionError("level and kind 'link'", f"{self.level!r} and {self.kind!r}", "omit them")
        self._check_metrics()
        check_choice("negatives", self.negatives, NEGATIVES)

    def score(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The metric from scores of positive and negative pairs."""
        return self.metric_facts.function(positive, negative)

    def loss_of(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Cross entropy: mean over the positive pairs plus mean over the negative pairs."""
        return F.softplus(-positive).mean() + F.softplus(negative).mean()
