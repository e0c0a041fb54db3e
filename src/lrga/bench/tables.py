"""What a campaign gave as a table: ours beside the paper's, and below it what one must know to compare them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lrga.bench.cell import Cell, model_word
from lrga.bench.display import label_columns, plain_text, slim_table
from lrga.bench.notes import notes_of
from lrga.bench.records import DIVERGED, FAILED, FINISHED, TIME_LIMITED, RunRecord
from lrga.bench.runner import Outcome
from lrga.data.datasets.spec import dataset_specs
from lrga.tasks.task import METRICS, Metric, number_format

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (of the sample, n − 1) over ``n`` seeds."""

    n: int
    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """Of these values, ``None`` of none.

        Example:
            >>> Spread.of([1.0, 3.0])
            Spread(n=2, mean=2.0, std=1.4142135623730951)
        """
        if not values:
            return None
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(1, mean, None)
        return cls(len(values), mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)))

    def text(self, decimals: int) -> str:
        """``76.01 ± 0.67``."""
        kind = number_format(self.mean, decimals)
        return f"{self.mean:{kind}}" + ("" if self.std is None else f" ± {self.std:{kind}}")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A cell with its runs."""

    cell: Cell
    outcomes: tuple[Outcome, ...]

    @property
    def finished(self) -> list[RunRecord]:
        """Records of the runs that reached their end: only these are averaged."""
        return [o.record for o in self.outcomes if o.status == FINISHED and o.record is not None]

    @property
    def metric(self) -> Metric:
        """What is measured."""
        for outcome in self.outcomes:
            if outcome.record is not None and outcome.record.metric is not None:
                return METRICS[outcome.record.metric]
        config = self.cell.config
        spec = dataset_specs().get(config.data.name)
        known = spec.task.metric if spec is not None else "accuracy" if config.problem == "graphs" else "auc"
        return METRICS[config.run.metric or known]

    def spread(self, of: str | None = None, key: str = "test_metric") -> Spread | None:
        """Of a number of the ``"last"`` or the ``"best"`` epoch in validation, over the finished runs.

        By default of the epoch that the protocol reports: the best where links are predicted, else the last.
        """
        of = of or ("last" if self.cell.config.problem == "graphs" else "best")
        epochs = [getattr(record, of) for record in self.finished]
        return Spread.of([epoch[key] for epoch in epochs if epoch is not None])

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        ours = self.spread()
        return None if ours is None or self.cell.published is None else ours.mean - self.cell.published.mean

    @property
    def parameters(self) -> int | None:
        """Of the network."""
        counts = [o.record.parameters for o in self.outcomes if o.record is not None and o.record.parameters]
        return counts[0] if counts else None

    def mean_of(self, key: str) -> float | None:
        """Mean ``epochs`` or ``seconds`` of the finished runs."""
        spread = Spread.of([getattr(record, key) for record in self.finished])
        return None if spread is None else spread.mean

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        config, published = self.cell.config, self.cell.published
        ours, best, val = self.spread(), self.spread("best"), self.spread(key="val_metric")
        return {
            "dataset": config.data.name,
            "model": model_word(config),
            "budget": config.model.budget if config.problem == "graphs" else None,
            "lrga": config.model.lrga,
            "labels": dict(self.cell.labels),
            "metric": self.metric.name,
            "n": 0 if ours is None else ours.n,
            "mean": None if ours is None else ours.mean,
            "std": None if ours is None else ours.std,
            "validation": None if val is None else {"mean": val.mean, "std": val.std},
            "best_validation_epoch": None if best is None else {"mean": best.mean, "std": best.std},
            "published": None if published is None else {"mean": published.mean, "std": published.std},
            "difference": self.difference,
            "parameters": self.parameters,
            "epochs": self.mean_of("epochs"),
            "seconds": self.mean_of("seconds"),
            "changed": {key: pair[0] for key, pair in self.cell.deviations().items()},
            "runs": [_run_json(outcome) for outcome in self.outcomes],
        }


def _run_json(outcome: Outcome) -> dict[str, Any]:
    record = outcome.record
    return {
        "run": outcome.name,
        "seed": outcome.config.run.seed,
        "status": outcome.status,
        "reason": None if record is None else record.reason,
        "test": None if record is None else record.test,
        "epochs": None if record is None else record.epochs,
        "seconds": None if record is None else record.seconds,
    }


@dataclass(frozen=True, kw_only=True)
class CampaignTable:
    """The result of a campaign.

    Attributes:
        title: What it shows.
        rows: One for each cell.
        paper: Whether the paper's numbers have columns; else validation has one.
        remarks: Lines of the campaign's own, printed below the table.
    """

    title: str
    rows: tuple[Row, ...]
    paper: bool = True
    remarks: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a run failed or diverged."""
        return any(o.status in (FAILED, DIVERGED) for row in self.rows for o in row.outcomes)

    @property
    def complete(self) -> bool:
        """Whether every run reached its end."""
        return all(o.status == FINISHED for row in self.rows for o in row.outcomes)

    @property
    def notes(self) -> list[str]:
        """What one must know to read the numbers, and what became of runs that have none."""
        return [*self.remarks, *notes_of([row.cell for row in self.rows], [o for r in self.rows for o in r.outcomes])]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "title": self.title,
            "complete": self.complete,
            "failed": self.failed,
            "rows": [row.to_json() for row in self.rows],
            "notes": self.notes,
        }

    def to_text(self) -> str:
        """At most 100 columns wide, without colours."""
        return plain_text(self.to_rich(), self.notes)

    def to_rich(self) -> "RichTable":
        """For a terminal."""
        middle = ("ours", "n", "paper", "diff") if self.paper else ("test", "n", "val")
        table = slim_table(self.title, results=middle)
        labels = label_columns(table, [row.cell.labels for row in self.rows])
        for heading in (*middle, "params", "epochs", "seconds"):
            table.add_column(heading, justify="right", no_wrap=True)
        best = None if self.paper else self._best_by_validation()
        for number, (first, row) in enumerate(zip(labels, self.rows, strict=True)):
            table.add_row(*first, *_cells(row, paper=self.paper), style="bold" if number == best else "")
        return table

    def _best_by_validation(self) -> int | None:
        spreads = {number: row.spread(key="val_metric") for number, row in enumerate(self.rows)}
        means = {number: spread.mean for number, spread in spreads.items() if spread is not None}
        if not means:
            return None
        sign = 1.0 if self.rows[0].metric.higher_is_better else -1.0
        return max(means, key=lambda number: sign * means[number])


def _cells(row: Row, *, paper: bool) -> list[str]:
    decimals, ours, published = row.metric.decimals, row.spread(), row.cell.published
    shown = [_unfinished(row) if ours is None else ours.text(decimals), "" if ours is None else str(ours.n)]
    if paper:
        printed = "" if published is None else published.text(decimals)
        shown += [printed, "" if row.difference is None else f"{row.difference:+.{decimals}f}"]
    else:
        val = row.spread(key="val_metric")
        shown.append("" if val is None else val.text(decimals))
    counts = (row.parameters, row.mean_of("epochs"), row.mean_of("seconds"))
    return shown + ["" if count is None else f"{count:,.1f}" if 0 < count < 1 else f"{count:,.0f}" for count in counts]


def _unfinished(row: Row) -> str:
    """In place of a number: how the runs stand."""
    order = (FAILED, DIVERGED, TIME_LIMITED)
    found = [outcome.status for outcome in row.outcomes]
    return next((status for status in order if status in found), found[0] if found else "")


def table_of(
    title: str, cells: Sequence[Cell], outcomes: Sequence[Outcome], *, paper: bool = True, remarks: Sequence[str] = ()
) -> CampaignTable:
    """Puts the outcomes of a campaign beside its cells."""
    rows, place = [], 0
    for cell in cells:
        rows.append(Row(cell=cell, outcomes=tuple(outcomes[place : place + len(cell.seeds)])))
        place += len(cell.seeds)
    return CampaignTable(title=title, rows=tuple(rows), paper=paper, remarks=tuple(remarks))
