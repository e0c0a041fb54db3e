"""From records to a table: one row per cell with our and the published number, and notes that explain them."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from scipy import stats

from lrga.data.datasets.spec import dataset_name, dataset_specs, spec_of
from lrga.experiments.campaign import BUSY, PENDING, Outcome, run_title
from lrga.experiments.cell import Cell, key_of, model_word
from lrga.experiments.published import Published
from lrga.experiments.records import DIVERGED, FAILED, FINISHED, TIME_LIMITED, RunRecord
from lrga.experiments.sheet import Sheet, Tabular, value_text
from lrga.tasks.task import METRICS, Metric, number_format
from lrga.training.problems.protocols import benchmark_schedule

CONFIDENCE = 0.95
DRAWN = "†"
LRGA_OPTIONS = ("lrga", "rank", "attention_heads", "wiring", "skip", "backend")  # a plain network has none of these
MOST_GAINS = 12  # with more pairs, their differences are summarised
# Graphs that were read like published files but have another origin, by their checksum.
REBUILT = {
    "529fb45c08f729d4921f1bbe9a5f416ea4222f073d61d59147fdc224227cf500": (
        "validation and test are the published graphs; training graphs were rebuilt from the official SMILES strings"
    )
}


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
        known = spec.task.metric if spec is not None else "accuracy" if config.link is None else "auc"
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
        """Whether the averaged runs used graphs other than the published files."""
        return any(record.data.get("note") for record in self.finished)

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
            "runs": [_run_json(outcome) for outcome in self.outcomes],
        }


def cell_json(cell: Cell) -> dict[str, Any]:
    """A cell as JSON values."""
    config = cell.config
    facts = {"dataset": config.data.name, "model": model_word(config), "budget": config.budget}
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


def by_options(row: Row) -> str:
    """A key that is equal for rows whose options differ only in LRGA."""
    return key_of(row.cell.config, *LRGA_OPTIONS)


def by_labels(row: Row) -> str:
    """A key that is equal for rows whose labels differ only in LRGA."""
    labels = {key: str(value).removeprefix("LRGA + ") for key, value in row.cell.labels.items()}
    return json.dumps(labels, sort_keys=True)


def lrga_pairs(rows: Sequence[Row], key: Callable[[Row], str] = by_options) -> list[Pair]:
    """Pairs of rows with results and equal keys, in order; several ranks share one plain network."""
    done = [row for row in rows if row.spread() is not None]
    plain = {key(row): row for row in done if not row.cell.config.model.lrga}
    found = []
    for row in done:
        other = plain.get(key(row)) if row.cell.config.model.lrga else None
        if other is not None and other.metric == row.metric:
            better = row.metric.higher_is_better
            difference = paired_difference(other.by_seed(), row.by_seed(), higher_is_better=better)
            found.append(Pair(other, row, difference))
    return found


def gains(rows: Sequence[Row]) -> list[str]:
    """One line per pair: the change by LRGA, with a confidence interval over common seeds."""
    pairs = lrga_pairs(rows, by_labels) or lrga_pairs(rows)
    lines = []
    for pair in pairs[:MOST_GAINS]:
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


def _run_json(outcome: Outcome) -> dict[str, Any]:
    found = {"run": outcome.name, "seed": outcome.config.run.seed, "status": outcome.status}
    return found | {key: getattr(outcome.record, key, None) for key in ("reason", "test", "epochs", "seconds")}


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
        lines = [*self.remarks, *general, *_ended(outcomes)]
        if not recorded:
            return [*lines, *_to_continue(outcomes)]
        done, all_cells = self.done
        runs = sum(len(row.finished) for row in self.rows)
        counted = f"{done} of {all_cells} cells have finished runs, {runs} runs in all."
        lines = [counted, *gains_note(lrga_pairs(self.rows, by_labels)), *lines]
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
        return {
            "title": self.title,
            "complete": self.complete,
            "failed": self.failed,
            "cells": cells,
            "cells_done": done,
            "rows": [row.to_json() for row in self.rows],
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


def general_notes(cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on how the numbers were computed and why some are not comparable."""
    return [_how(cells), *_changes(cells), *_fresh_draws(cells), *_other_files(outcomes), *_mixed_data(outcomes)]


def _wiring(cell: Cell) -> str:
    model = cell.config.model
    return model.wiring if model.block == "benchmark" else "in residual blocks"


def _how(cells: Sequence[Cell]) -> str:
    """Note on layers and wiring of the runs."""
    if all(cell.config.budget is None for cell in cells):
        return _how_links(cells)
    presets = _by_model((cell.config.model.preset, cell) for cell in cells)
    wirings = _by_model((_wiring(cell), cell) for cell in cells if cell.config.model.lrga)
    recalibrated = _distinct(cell.config.optimizer.recalibrate_norm for cell in cells)
    parts = [f"layers{' and patience' if any(map(_impatient, cells)) else ''} of preset {presets}"]
    parts += [f"LRGA wiring {wirings}"] if wirings else []
    if recalibrated != "0":
        parts.append(f"BatchNorm statistics re-estimated over {recalibrated} batches before each evaluation")
    reported = {cell.config.reported for cell in cells}
    mixed = "Last (best validation on one graph)"
    epoch = {"last": "Last", "best": "Best validation"}[reported.pop()] if len(reported) == 1 else mixed
    return f"{epoch} epoch's model, mean ± std (n − 1) over n seeds; {', '.join(parts)}."


def _by_model(values: Iterable[tuple[str, Cell]]) -> str:
    """Lists different values; each with its networks if no network has two values."""
    found: dict[str, dict[str, None]] = {}
    for value, cell in values:
        found.setdefault(value, {})[model_word(cell.config)] = None
    names = [name for models in found.values() for name in models]
    if len(found) == 1 or len(set(names)) < len(names):
        return ", ".join(found)
    return " and ".join(f"{value} ({', '.join(models)})" for value, models in found.items())


def _impatient(cell: Cell) -> bool:
    """Whether it uses the patience of 2020 although the later one is longer."""
    dataset, patience = dataset_name(cell.config.data.name), cell.config.optimizer.patience
    if dataset is None or cell.config.model.preset != "2020" or cell.config.budget is None:
        return False
    return patience == benchmark_schedule(dataset, preset="2020").patience < benchmark_schedule(dataset).patience


def _how_links(cells: Sequence[Cell]) -> str:
    """Notes on the runs of link prediction."""
    links = [cell.config for cell in cells if cell.config.option("predictor")]
    known = _distinct("known" if config.option("validation_edges") else "not known" for config in links)
    predictors = _distinct(config.option("predictor") for config in links).replace(", ", " or ")
    negatives = _distinct(config.option("negatives") for config in links).replace(", ", " or ")
    parts = [f"validation edges {known} in the test", f"predictor {predictors}", f"negatives {negatives}"]
    if augmented := [cell.config for cell in cells if cell.config.model.lrga]:
        skip = _distinct("with" if c.option("skip") and not c.option("linear_layers") else "without" for c in augmented)
        parts.append(f"LRGA of rank {_distinct(c.model.rank for c in augmented)} {skip} skip connection")
    return "Best validation epoch's model, mean ± std (n − 1) over n seeds; " + ", ".join(parts) + "."


def _changes(cells: Sequence[Cell]) -> list[str]:
    """Note that lists every option that differs from the published protocol."""
    found = dict.fromkeys(change_text(key, *pair) for cell in cells for key, pair in cell.deviations().items())
    return [f"Not the published protocol: {'; '.join(found)}."] if found else []


def change_text(key: str, here: Any, there: Any) -> str:
    """Text for an option that differs from the protocol.

    Example:
        >>> change_text("max_epochs", 2, 1000), change_text("options", {"sizes": (8, 4, 4)}, {})
        ('max_epochs 2 (published 1000)', 'data sizes 8/4/4')
    """
    if key == "options":
        return f"data {_text(here)}"
    return f"{key} {_text(here)}" + ("" if there is None else f" (published {_text(there)})")


def _fresh_draws(cells: Sequence[Cell]) -> list[str]:
    names = dict.fromkeys(dataset_name(cell.config.data.name) for cell in cells)
    return [f"{name}: {spec_of(name).note}" for name in names if name is not None and spec_of(name).note]


def _other_files(outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on files other than the published ones, by the records of links or the checksum of the graphs."""
    found: dict[str, None] = {}
    for outcome in outcomes:
        data = {} if outcome.record is None else outcome.record.data
        note = REBUILT.get(data.get("sha256", "")) or (data.get("note") if outcome.config.budget is None else None)
        if note:
            found[f"{outcome.config.data.name}: {note}."] = None
    return list(found)


def _mixed_data(outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on runs with different graphs under one data set name, e.g. files of another origin."""
    seen: dict[tuple[str, str], set[str]] = {}
    for outcome in outcomes:
        if outcome.record is not None and outcome.record.data.get("sha256"):
            key = (outcome.config.data.name, str(outcome.config.data.options))
            seen.setdefault(key, set()).add(outcome.record.data["sha256"])
    return [f"Runs on {name} used {len(sums)} different sets of graphs; see the records."
            for (name, _), sums in seen.items() if len(sums) > 1]  # fmt: skip


def _ended(outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on runs that failed or diverged, with the reason."""
    return [
        f"{run_title(outcome.config)} {outcome.status}: {outcome.record.reason.splitlines()[0]}"
        for outcome in outcomes
        if outcome.status in (FAILED, DIVERGED) and outcome.record is not None
    ]


def _to_continue(outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on the runs that remain and how to resume them."""
    lines = []
    for outcome in outcomes:
        record, title = outcome.record, run_title(outcome.config)
        if outcome.status == TIME_LIMITED and record is not None:
            number = "" if record.test is None else f" (test {record.test:.4g})"
            lines.append(f"{title}: paused after {record.epochs} epochs{number}; run the same command to resume.")
        elif outcome.status == BUSY:
            lines.append(f"{title}: in training by another process.")
        elif outcome.status == PENDING and outcome.begun:
            lines.append(f"{title}: interrupted; run the same command to resume.")
    pending = sum(outcome.status == PENDING and not outcome.begun for outcome in outcomes)
    if 0 < pending < len(outcomes):
        done = sum(outcome.status == FINISHED for outcome in outcomes)
        lines.append(f"{done} of {len(outcomes)} runs are done, {pending} not started; run the same command to resume.")
    return lines


def _distinct(values: Any) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "/".join(f"{entry:,}" if isinstance(entry, int) else str(entry) for entry in value)
    return value_text(value)
