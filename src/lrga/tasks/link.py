"""Link prediction: what is minimised, and how a model is scored.

Letters: N nodes, P pairs.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.data.links.negatives import KINDS
from lrga.errors import OptionError
from lrga.kernels.checks import check_choice
from lrga.tasks.task import HITS, METRICS, Metric


@dataclass(frozen=True, kw_only=True)
class LinkTask:
    """Which pairs of nodes are edges?

    Attributes:
        metric: ``"hits@20"`` (or any other number), ``"mrr"`` or ``"auc"``.
        negatives: What training takes for no edge: ``"uniform"`` random pairs, or pairs that are ``"no_edge"``.

    Example:
        >>> task = LinkTask(metric="hits@1")
        >>> float(task.score(torch.tensor([2.0, 0.0]), torch.tensor([1.0, -1.0])))
        0.5
    """

    metric: str = "hits@50"
    negatives: str = "uniform"
    level: str = "link"
    kind: str = "link"

    def __post_init__(self) -> None:
        if HITS.fullmatch(str(self.metric)) is None:
            check_choice("metric", self.metric, tuple(name for name, m in METRICS.items() if "link" in m.kinds))
        check_choice("negatives", self.negatives, KINDS)
        if (self.level, self.kind) != ("link", "link"):
            raise OptionError("level and kind 'link'", f"{self.level!r} and {self.kind!r}", "leave them out")

    @property
    def metric_facts(self) -> Metric:
        """Name, direction and digits of the metric."""
        return METRICS[self.metric]

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether a value of the metric is strictly better than another."""
        return value == value and (than is None or than != than or value > than)

    def score(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The metric from scores of true and false pairs."""
        return self.metric_facts.function(positive, negative)

    def loss_of(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Cross entropy: mean over the true pairs plus mean over the false ones."""
        return F.softplus(-positive).mean() + F.softplus(negative).mean()

    def to_json(self) -> dict[str, Any]:
        """As JSON values; :meth:`from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "LinkTask":
        """The task that :meth:`to_json` wrote."""
        known = {field.name for field in fields(cls)}
        if set(values) - known:
            raise OptionError(f"a task with {', '.join(sorted(known))}", ", ".join(sorted(values)), "keep these keys")
        return cls(**values)


def score_pairs(score: Callable[[Tensor], Tensor], pairs: Tensor, *, batch_size: int = 65_536) -> Tensor:
    """Scores of ``pairs`` ``[P, 2]`` by ``score`` (of ``[2, B]``), so many at a time: ``[P]`` float32.

    Memory does not grow with P, but for the scores themselves.
    """
    result = torch.empty(pairs.size(0), device=pairs.device)
    for first in range(0, pairs.size(0), batch_size):
        part = pairs[first : first + batch_size]
        result[first : first + part.size(0)] = score(part.t())
    return result
