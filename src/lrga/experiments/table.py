"""From records to a table: one row per cell with our and the published number, and notes that explain them."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from scipy import stats

from lrga.data.datasets.spec import dataset_specs
from lrga.experiments.campaign import BUSY, PENDING, Outcome
from lrga.experiments.cell import Cell, key_of, model_word
from lrga.experiments.notes import ended, general_notes, to_continue
from lrga.experiments.published import Published
from lrga.experiments.records import DIVERGED, FAILED, FINISHED, TIME_LIMITED, RunRecord
from lrga.experiments.sheet import Sheet, Tabular, value_text
from lrga.tasks.task import METRICS, Metric, number_format

CONFIDENCE = 0.95
DRAWN = "†"
LRGA_OPTIONS = (  # a plain network has none of these
    "lrga", "rank", "attention_heads", "normalize", "qk_norm", "gate", "attention_dropout", "wiring", "skip", "backend",
)  # fmt: skip
MAX_GAINS = 12  # with more pairs, their differences are summarised


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (of the sample, n − 1) over ``n`` seeds."""

    n: int
    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """The spread of ``values``; ``None`` for no values.

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


@dataclass(frozen=True)
class Difference:
    """A paired difference over the seeds that two rows share.

    Attributes:
        n: Number of pairs.
        mean: Mean of second minus first.
        low, high: Ends of the confidence interval of the mean (paired t); ``None`` for a single pair.
        better: Whether a greater value is better.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    better: bool

    @property
    def verdict(self) -> str:
        """``"better"``, ``"worse"``, ``"no clear difference"`` or, for a single pair, ``"one pair"``."""
        if self.low is None or self.high is None:
            return "one pair"
        if self.low <= 0 <= self.high:
            return "no clear difference"
        return "better" if (self.mean > 0) == self.better else "worse"

    def text(self, decimals: int) -> str:
        """``+7.19 (95 % CI +6.50 to +7.88, 4 pairs of seeds)``."""
        if self.low is None or self.high is None:
            return f"{self.mean:+.{decimals}f} (one pair of seeds)"
        ends = f"{self.low:+.{decimals}f} to {self.high:+.{decimals}f}"
        return f"{self.mean:+.{decimals}f} ({CONFIDENCE:.0%} CI {ends}, {self.n} pairs of seeds)".replace("%", " %")


def paired_difference(
    first: Mapping[int, float], second: Mapping[int, float], *, higher_is_better: bool = True
) -> Difference | None:
    """Second minus first over common seeds, with the confidence interval of the paired t-test.

    Args:
        first, second: Results by seed.
        higher_is_better: Whether a greater result is better.

    Example:
        >>> found = paired_difference({1: 60.0, 2: 61.0, 3: 62.0}, {1: 65.0, 2: 66.2, 3: 66.9})
        >>> found.text(2), found.verdict
        ('+5.03 (95 % CI +4.65 to +5.41, 3 pairs of seeds)', 'better')
        >>> paired_difference({1: 60.0, 2: 61.0}, {1: 65.0, 2: 58.0}).verdict
        'no clear difference'
    """
    spread = Spread.of([second[seed] - first[seed] for seed in first if seed in second])
    if spread is None:
        return None
    if spread.std is None:
        return Difference(1, spread.mean, None, None, higher_is_better)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, spread.n - 1)) * spread.std / math.sqrt(spread.n)
    return Difference(spread.n, spread.mean, spread.mean - half, spread.mean + half, higher_is_better)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A cell with its runs."""

    cell: Cell
    outcomes: tuple[Outcome, ...]

    @property
    def finished(self) -> list[RunRecord]:
        """Records of the finished runs; only these are averaged."""
        return [o.record for o in self.outcomes if o.status == FINISHED and o.record is not None]

    @property
    def metric(self) -> Metric:
        """The metric."""
        for outcome in self.outcomes:
            if outcome.record is not None and outcome.record.metric is not None:
                return METRICS[outcome.record.metric]
        config = self.cell.config
        spec = dataset_specs().get(config.data.name)
        known = {"graphs": "accuracy", "links": "auc"}[config.problem] if spec is None else spec.task.metric
        return METRICS[config.run.metric or known]

    def by_seed(self, of: str | None = None, key: str = "test_metric") -> dict[int, float]:
        """A number of the finished runs by seed (of the first run if a seed has several); see :meth:`spread`."""
        runs = reversed(self.finished)  # so the first run of a seed wins
        found = ((record.seed, getattr(record, of or self.cell.config.reported)) for record in runs)
        return {seed: epoch[key] for seed, epoch in found if epoch is not None}

    def spread(self, of: str | None = None, key: str = "test_metric") -> Spread | None:
        """The spread of a number over the finished runs, in the ``"last"`` or the ``"best"`` epoch in validation.

        The default is the epoch that the protocol reports.
        """
        return Spread.of(list(self.by_seed(of, key).values()))

    @property
    def difference(self) -> float | None:
        """Our mean minus the published number."""
        ours = self.spread()
        return None if ours is None or self.cell.published is None else ours.mean - self.cell.published.mean

    @property
    def standard_errors(self) -> float | None:
        """Our mean minus the published number in pooled standard errors; ``None`` if unknown.

        With n runs of ours and m published runs: s² = ((n − 1) s₁² + (m − 1) s₂²) / (n + m − 2), and the difference is
        divided by s √(1/n + 1/m). With one run of ours, s is the published standard deviation.
        """
        ours, published = self.spread(), self.cell.published
        if ours is None or published is None or published.std is None or not published.seeds:
            return None
        n, m = ours.n, published.seeds
        squares = (n - 1) * (ours.std or 0.0) ** 2 + (m - 1) * published.std**2
        error = math.sqrt(squares / max(n + m - 2, 1)) * math.sqrt(1 / n + 1 / m)  # avoids 0/0 with one run each
        return None if error == 0 else (ours.mean - published.mean) / error

    @property
    def parameters(self) -> int | None:
        """Number of parameters of the network."""
        counts = [o.record.parameters for o in self.outcomes if o.record is not None and o.record.parameters]
        return counts[0] if counts else None

    def mean_of(self, key: str) -> float | None:
        """Mean ``epochs`` or ``seconds`` of the finished runs."""
        spread = Spread.of([getattr(record, key) for record in self.finished])
        return None if spread is None else spread.mean

    @property
    def generated(self) -> bool:
        """Whether the averaged runs used generated graphs instead of the published files."""
        spec = dataset_specs().get(self.cell.config.data.name)
        of_graphs = spec is not None and not spec.one_graph  # the note on a set of one graph is about its split
        return of_graphs and any(record.data.get("note") for record in self.finished)

    @property
    def state(self) -> str:
        """The state of the runs."""
        found = [outcome.status for outcome in self.outcomes]
        words = {FINISHED: "done", TIME_LIMITED: "paused", PENDING: "not yet run"}
        first = next((s for s in (FINISHED, DIVERGED, FAILED, TIME_LIMITED, BUSY) if s in found), None)
        status = first or (found[0] if found else PENDING)
        return words.get(status, status)

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        published = self.cell.published
        ours, best, val = self.spread(), self.spread("best"), self.spread(key="val_metric")
        train = self.spread(key="train_metric")
        return {
            **cell_json(self.cell),
            "metric": self.metric.name,
            "n": 0 if ours is None else ours.n,
            "mean": None if ours is None else ours.mean,
            "std": None if ours is None else ours.std,
            "validation": None if val is None else {"mean": val.mean, "std": val.std},
            "best_validation_epoch": None if best is None else {"mean": best.mean, "std": best.std},
            "train": None if train is None else train.mean,
            "published": published and published.to_json(),
            "difference": self.difference,
            "standard_errors": self.standard_errors,
            "parameters": self.parameters,
            "epochs": self.mean_of("epochs"),
            "seconds": self.mean_of("seconds"),
            "generated_data": self.generated,
            "state": self.state,
            "changed": {key: pair[0] for key, pair in self.cell.deviations().items()},
            "runs": [
                {"run": one.name, "seed": one.config.run.seed, "status": one.status}
                | {key: getattr(one.record, key, None) for key in ("reason", "test", "epochs", "seconds")}
                for one in self.outcomes
            ],
        }


def cell_json(cell: Cell) -> dict[str, Any]:
    """A cell as JSON values."""
    config = cell.config
    budget = None if config.model.hidden is not None else config.budget
    facts = {"dataset": config.data.name, "model": model_word(config), "budget": budget}
    return {**facts, "lrga": config.model.lrga, "labels": dict(cell.labels)}


@dataclass(frozen=True)
class Pair:
    """A pair of rows: the same network with and without LRGA.

    Attributes:
        plain, augmented: The rows; both have results.
        difference: Augmented minus plain over common seeds; ``None`` if there are none.
    """

    plain: Row
    augmented: Row
    difference: Difference | None

    def to_json(self) -> dict[str, Any] | None:
        """The difference and the labels of the row without LRGA as JSON values."""
        found = self.difference
        if found is None:
            return None
        numbers = {"n": found.n, "mean": found.mean, "low": found.low, "high": found.high, "verdict": found.verdict}
        return {"without": dict(self.plain.cell.labels), **numbers}


def lrga_pairs(rows: Sequence[Row], *, labelled: bool = False) -> list[Pair]:
    """Every row with LRGA and results, with the row of the same network without LRGA; several ranks share one.

    It is the row whose options differ only in LRGA or else, if the author of the cells ``labelled`` them, the only one
    whose labels differ only in LRGA.
    """
    done = [row for row in rows if row.spread() is not None]
    found = []
    for row in done:
        plain = [other for other in done if not other.cell.config.model.lrga and other.metric == row.metric]
        same = [other for other in plain if _plain_options(other) == _plain_options(row)]
        if labelled and not same:
            same = [other for other in plain if _plain_labels(other) == _plain_labels(row)]
        if row.cell.config.model.lrga and len({key_of(other.cell.config) for other in same}) == 1:
            better = row.metric.higher_is_better
            difference = paired_difference(same[0].by_seed(), row.by_seed(), higher_is_better=better)
            found.append(Pair(same[0], row, difference))
    return found


def _plain_options(row: Row) -> str:
    return key_of(row.cell.config, *LRGA_OPTIONS)


def _plain_labels(row: Row) -> dict[str, str]:
    return {key: str(value).removeprefix("LRGA + ") for key, value in row.cell.labels.items()}


def gains(rows: Sequence[Row]) -> list[str]:
    """One line per pair: the change by LRGA, with a confidence interval over common seeds."""
    pairs = lrga_pairs(rows, labelled=True)
    lines = []
    for pair in pairs[:MAX_GAINS]:
        found, metric = pair.difference, pair.augmented.metric
        if found is not None:
            who = "" if len(pairs) == 1 else f"{', '.join(map(value_text, pair.augmented.cell.labels.values()))}: "
            verdict = "no confidence interval with one seed" if found.n == 1 else found.verdict
            lines.append(f"{who}With LRGA, {metric.name} changes by {found.text(metric.decimals)}: {verdict}.")
    return [*lines, *gains_note(pairs)]


def gains_note(pairs: Sequence[Pair]) -> list[str]:
    """One line: the number of pairs in which LRGA is clearly better, clearly worse or neither."""
    found = [pair.difference for pair in pairs if pair.difference is not None]
    counts = Counter(difference.verdict for difference in found if difference.n > 1)
    if (several := counts.total()) < 2:
        return []
    return [
        f"LRGA is clearly better in {counts['better']} of {several} pairs with two or more seeds, clearly worse in "
        f"{counts['worse']}, no clear difference in {counts['no clear difference']} ({CONFIDENCE * 100:.0f} % "
        "confidence interval of the paired difference)."
    ]


def _shown(value: Any, kind: str) -> str:
    return "" if value is None else f"{value:{kind}}"


def _spread(spread: Spread | Published | None, row: Row) -> str:
    return "" if spread is None else spread.text(row.metric.decimals)


def _count(value: float | None) -> str:
    return _shown(value, ",.1f" if value is not None and 0 < value < 1 else ",.0f")


def _mean(spread: Spread | None, row: Row) -> str:
    return "" if spread is None else f"{spread.mean:.{row.metric.decimals}f}"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "ours": lambda row: (_spread(row.spread(), row) or row.state) + (f" {DRAWN}" if row.generated else ""),
    "test": lambda row: _spread(row.spread(), row) or row.state,
    "n": lambda row: str(len(row.by_seed()) or ""),
    "val": lambda row: _spread(row.spread(key="val_metric"), row),
    "best epoch": lambda row: _mean(row.spread("best"), row),
    "train": lambda row: _mean(row.spread(key="train_metric"), row),
    "published": lambda row: _spread(row.cell.published, row),
    "diff": lambda row: _shown(row.difference, f"+.{row.metric.decimals}f"),
    "SE": lambda row: _shown(row.standard_errors, "+.1f"),
    "params": lambda row: _count(row.parameters),
    "epochs": lambda row: _count(row.mean_of("epochs")),
    "seconds": lambda row: _count(row.mean_of("seconds")),
}
BESIDE = ("test", "n", "published", "diff", "params", "epochs", "seconds")
ALONE = ("test", "n", "val", "params", "epochs", "seconds")
RECORDED = ("ours", "n", "published", "diff", "SE", "seconds")
DETAILED = ("ours", "n", "best epoch", "train", "published", "diff", "SE", "seconds")
SEEDS = ("test", "n", "best epoch", "published", "diff", "epochs", "seconds")
_RESULTS = frozenset(COLUMNS) - {"params", "epochs", "seconds"}


@dataclass(frozen=True, kw_only=True)
class Table(Tabular):
    """A table of results.

    Attributes:
        title: Title of the table.
        rows: One row per cell.
        columns: Names of :data:`COLUMNS`, in order.
        remarks: Additional lines of the campaign, printed below the table.
        hidden: Number of cells without finished runs that are not shown.
        brief: Whether to print only the most important notes.
    """

    title: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...] = BESIDE
    remarks: tuple[str, ...] = ()
    hidden: int = 0
    brief: bool = False

    @property
    def failed(self) -> bool:
        """Whether a run failed or diverged."""
        return any(o.status in (FAILED, DIVERGED) for row in self.rows for o in row.outcomes)

    @property
    def complete(self) -> bool:
        """Whether every run finished."""
        return all(o.status == FINISHED for row in self.rows for o in row.outcomes)

    @property
    def done(self) -> tuple[int, int]:
        """Number of cells with at least one finished run, and of all cells."""
        return sum(bool(row.finished) for row in self.rows), len(self.rows) + self.hidden

    @property
    def notes(self) -> list[str]:
        """Notes on how the numbers were computed, and on runs without a result."""
        cells = [row.cell for row in self.rows]
        outcomes = list({o.name: o for row in self.rows for o in row.outcomes}.values())  # rows may share runs
        recorded = "SE" in self.columns  # read from records: nothing is running
        general = [] if self.brief or not cells else general_notes(cells, outcomes)
        lines = [*self.remarks, *general, *ended(outcomes)]
        if not recorded:
            return [*lines, *to_continue(outcomes)]
        done, all_cells = self.done
        runs = sum(len(row.finished) for row in self.rows)
        counted = f"{done} of {all_cells} cells have finished runs, {runs} runs in all."
        pairs = lrga_pairs(self.rows, labelled=True)
        lines = [counted, *(gains(self.rows) if len(pairs) == 1 else gains_note(pairs)), *lines]
        if any(row.generated for row in self.rows):
            lines.append(f"{DRAWN} trained on generated data: a new sample from the published recipe.")
        if self.brief:
            return [*lines, "SE: difference in pooled standard errors."]
        return [
            *lines,
            "SE: difference in pooled standard errors; with one seed of ours, the published standard deviation is used."
            " Seconds: time of one run; other runs may have shared the GPU.",
        ]

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values."""
        done, cells = self.done
        pairs = {id(pair.augmented): pair.to_json() for pair in lrga_pairs(self.rows, labelled=True)}
        return {
            "title": self.title,
            "complete": self.complete,
            "failed": self.failed,
            "cells": cells,
            "cells_done": done,
            "rows": [row.to_json() | {"lrga_difference": pairs.get(id(row))} for row in self.rows],
            "notes": self.notes,
        }

    def flat(self) -> list[dict[str, Any]]:
        """One flat dictionary of plain values for each row."""
        keys = ("metric", "n", "mean", "std", "difference", "standard_errors", "parameters", "epochs", "seconds")
        rows = []
        for row in self.rows:
            values, published = row.to_json(), row.cell.published
            printed = (None, None) if published is None else (published.mean, published.std)
            labels = {key: value_text(value) for key, value in row.cell.labels.items()}
            numbers = {key: values[key] for key in keys}
            rows.append(labels | numbers | dict(zip(("published_mean", "published_std"), printed, strict=True)))
        return rows

    def sheet(self) -> Sheet:
        """The table as strings, with its notes."""
        if not self.rows:
            said = f"No cell of {self.hidden} has finished runs yet." if self.hidden else f"{self.title}: no runs"
            return Sheet(title=said, columns=(), rows=())
        entries = [[COLUMNS[column](row) for column in self.columns] for row in self.rows]
        labels = [row.cell.labels for row in self.rows]
        options: dict[str, Any] = {"results": _RESULTS, "notes": tuple(self.notes)}
        bold = best_by_validation(self.rows) if "val" in self.columns else None
        return Sheet.of(self.title, labels, self.columns, entries, bold=bold, **options)


def table_of(title: str, cells: Sequence[Cell], outcomes: Sequence[Outcome], **options: Any) -> Table:
    """Assigns the outcomes of a campaign to its cells."""
    left = iter(outcomes)
    rows = (Row(cell=cell, outcomes=tuple(islice(left, len(cell.seeds)))) for cell in cells)
    return Table(title=title, rows=tuple(rows), **options)


def best_by_validation(rows: Sequence[Row]) -> int | None:
    """Index of the best row in validation, if all have the same metric."""
    means = {number: spread.mean for number, row in enumerate(rows) if (spread := row.spread(key="val_metric"))}
    if not means or len({rows[number].metric.name for number in means}) != 1:
        return None
    sign = 1.0 if rows[0].metric.higher_is_better else -1.0
    return max(means, key=lambda number: sign * means[number])
