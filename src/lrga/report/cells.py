"""Runs that differ in their seed alone, as one row: mean and deviation beside the paper's."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lrga.bench.beside import published_for
from lrga.bench.cell import Cell
from lrga.bench.display import value_text
from lrga.bench.paper import Published, published
from lrga.bench.preset import PAPER
from lrga.bench.protocols import paper_config
from lrga.bench.tables import Spread
from lrga.models.zoo import MODELS, PAPER_SETS
from lrga.report.runs import Run
from lrga.tasks.task import Metric
from lrga.training.config import TrainingConfig, essence


@dataclass(frozen=True, kw_only=True)
class ResultCell:
    """Runs of one configuration.

    Attributes:
        runs: All of them, finished or not.
        label: The network with its budget, and what tells it from others of the same name.
        published: The paper's number.
        changes: Options that differ from the paper's protocol, in words.
    """

    runs: tuple[Run, ...]
    label: str
    published: Published | None
    changes: tuple[str, ...]

    @property
    def first(self) -> Run:
        """One of its runs, for what they have in common."""
        return self.runs[0]

    @property
    def finished(self) -> list[Run]:
        """The runs that are averaged."""
        return [run for run in self.runs if run.finished]

    @property
    def metric(self) -> Metric | None:
        """What is measured."""
        return next((run.metric for run in (*self.finished, *self.runs) if run.metric is not None), None)

    def spread(self, key: str = "test_metric", of: str = "reported") -> Spread | None:
        """Of a number of the ``"reported"``, ``"last"`` or ``"best"`` epoch, over the finished runs."""
        epochs = [getattr(run, run.reported if of == "reported" else of) for run in self.finished]
        return Spread.of([epoch[key] for epoch in epochs if epoch is not None])

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        ours = self.spread()
        return None if ours is None or self.published is None else ours.mean - self.published.mean


@dataclass(frozen=True, kw_only=True)
class RankSeries:
    """One network at several ranks: ``cells`` by their rank."""

    label: str
    cells: tuple[tuple[int, ResultCell], ...]


def result_cells(runs: Iterable[Run]) -> list[ResultCell]:
    """Groups runs by everything but their seed, in order of data set, budget and network."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_key(run.config), []).append(run)
    ordered = sorted(groups.values(), key=lambda group: _order(group[0]))
    labels = _labels([group[0] for group in ordered])
    cells = []
    for group, label in zip(ordered, labels, strict=True):
        config = group[0].config
        printed = published_beside(config)
        members = tuple(sorted(group, key=lambda run: run.seed))
        changes = _changes(config, printed)
        if printed is not None and not changes:  # the paper's own protocol needs no word that tells it apart
            label = label.partition(" (")[0]
        cells.append(ResultCell(runs=members, label=label, published=printed, changes=changes))
    return cells


def published_beside(config: TrainingConfig) -> Published | None:
    """The paper's number for a configuration, of Table 1, 3 or, where links are predicted, 2."""
    if config.problem == "graphs":
        return published_for(config)
    wanted = (2, config.data.name, MODELS.get(config.model.model, config.model.model).lower(), config.model.lrga)
    cells = published()
    return next((c for c in cells if (c.table, c.dataset, c.model.lower(), c.lrga) == wanted), None)


def rank_series(cells: Sequence[ResultCell]) -> list[RankSeries]:
    """Networks with results at two or more ranks."""
    groups: dict[str, dict[int, ResultCell]] = {}
    for cell in cells:
        config = cell.first.config
        if config.model.lrga and cell.spread() is not None:
            groups.setdefault(_key(config, "rank"), {})[config.model.rank] = cell
    series = [tuple(sorted(group.items())) for group in groups.values() if len(group) > 1]
    labels = _labels([points[0][1].first for points in series], ignore="rank")
    return [
        RankSeries(label=f"{points[0][1].first.dataset}, {label}", cells=points)
        for points, label in zip(series, labels, strict=True)
    ]


def flat_options(config: TrainingConfig, *ignored: str) -> dict[str, Any]:
    """All options that decide what is computed, by name, without the seed of the run and those ``ignored``."""
    return {
        key: value
        for section, values in essence(config).items()
        for key, value in values.items()
        if (section, key) != ("run", "seed") and key not in ignored
    }


def _key(config: TrainingConfig, *ignored: str) -> str:
    return json.dumps(flat_options(config, *ignored), sort_keys=True)


def _order(run: Run) -> tuple[Any, ...]:
    model = run.config.model
    return (run.dataset, str(model.budget), model.model, model.lrga, model.rank, _key(run.config))


def _labels(runs: Sequence[Run], ignore: str | None = None) -> list[str]:
    """Network and budget; where two share them on one data set, the options in which they differ too."""
    alike: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    keys = [(run.dataset, run.model, budget_of(run)) for run in runs]
    options = [flat_options(run.config, *([ignore] if ignore else [])) for run in runs]
    for key, values in zip(keys, options, strict=True):
        alike.setdefault(key, []).append(values)
    labels = []
    for (dataset, model, budget), values in zip(keys, options, strict=True):
        group = alike[dataset, model, budget]
        differing = [name for name in values if any(other.get(name) != values[name] for other in group)]
        told = ", ".join(filter(None, (f"{_name(name)} {value_text(values[name])}".strip() for name in differing)))
        labels.append(f"{model} {budget}".strip() + (f" ({told})" if told else ""))
    return labels


def budget_of(run: Run) -> str:
    """The budget that a network was made for; empty where its width was given, as it is where links are predicted."""
    model = run.config.model
    return str(model.budget) if run.config.problem == "graphs" and model.hidden is None else ""


def _name(option: str) -> str:
    return {"rank": "κ", "options": "", "max_epochs": "epochs"}.get(option, option.replace("_", " "))


def _changes(config: TrainingConfig, printed: Published | None) -> tuple[str, ...]:
    dataset, model = config.data.name, config.model
    if printed is None or dataset not in PAPER_SETS:
        return ()
    given: dict[str, Any] = {"random_features": True} if model.random_features else {}
    given |= {"budget": model.budget, "lrga": model.lrga}
    protocols = (paper_config(dataset, model.model, preset=preset, **given) for preset in (model.preset, PAPER))
    cells = [Cell(labels={}, config=config, seeds=(config.run.seed,), paper=paper) for paper in protocols]
    return tuple(
        f"{_name(key)} {value_text(here)}".strip()
        + (f" (paper {value_text(there)})" if there not in (None, {}) else "")
        for key, (here, there) in min((cell.deviations() for cell in cells), key=len).items()
    )
