"""The plan of a campaign: what it would run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lrga.data.datasets.spec import dataset_name
from lrga.experiments.campaign import Outcome
from lrga.experiments.cell import Cell
from lrga.experiments.notes import general_notes
from lrga.experiments.sheet import Sheet, Tabular
from lrga.experiments.table import cell_json, table_of
from lrga.models.budget import count_of
from lrga.models.embeddings import EMBEDDINGS
from lrga.training.problems.architecture import Architecture
from lrga.training.problems.data import Given, load_source, plan_network


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell, the exact size of its network, and the state of its runs."""

    cell: Cell
    network: Architecture
    parameters: int
    outcomes: tuple[Outcome, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        config, published = self.cell.config, self.cell.published
        return {
            **cell_json(self.cell),
            "hidden": self.network.hidden_channels,
            "layers": self.network.num_layers,
            "rank": self.network.rank,
            "parameters": self.parameters,
            "optimizer": config.to_json()["optimizer"],
            "published": published and published.to_json(),
            "changed": {key: pair[0] for key, pair in self.cell.deviations().items()},
            "runs": [
                {"run": outcome.name, "seed": outcome.config.run.seed, "status": outcome.status}
                for outcome in self.outcomes
            ],
        }


@dataclass(frozen=True, kw_only=True)
class CampaignPlan(Tabular):
    """What :meth:`~lrga.experiments.study.Study.plan` returns."""

    title: str
    cells: tuple[PlannedCell, ...]

    @property
    def notes(self) -> list[str]:
        """Lines about the runs that remain and the settings."""
        outcomes = [outcome for cell in self.cells for outcome in cell.outcomes]
        counts = Counter(outcome.status for outcome in outcomes)
        stand = ", ".join(f"{count} {status}" for status, count in counts.items())
        return [
            f"{len(outcomes)} {'run' if len(outcomes) == 1 else 'runs'}: {stand or 'nothing to do'}.",
            *(general_notes([cell.cell for cell in self.cells], []) if self.cells else ()),
        ]

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {"title": self.title, "cells": [cell.to_json() for cell in self.cells], "notes": self.notes}

    def flat(self) -> list[dict[str, Any]]:
        """One flat dictionary of plain values for each cell."""
        keys = ("dataset", "model", "budget", "lrga", "hidden", "layers", "rank", "parameters")
        rows = [(cell, cell.to_json()) for cell in self.cells]
        return [{k: values[k] for k in keys} | {"seeds": " ".join(map(_seed, c.outcomes))} for c, values in rows]

    def sheet(self) -> Sheet:
        """The plan as a sheet of strings, with its notes."""
        ranked = any("rank" in cell.cell.labels for cell in self.cells)  # then κ has a column already
        patient = any(cell.cell.config.option("schedule") == "plateau" for cell in self.cells)
        schedule = ("batch", *(("patience",) if patient else ()), "epochs ≤")
        headings = ("d", "L", *(() if ranked else ("κ",)), "params", *schedule, "seeds")
        entries = []
        for cell in self.cells:
            options, network = cell.cell.config.optimizer, cell.network
            rank = [] if ranked else ["" if network.rank is None else str(network.rank)]
            numbers = (options.batch_size, *((options.patience,) if patient else ()), options.max_epochs)
            layers = "" if cell.cell.config.model.model in EMBEDDINGS else str(network.num_layers)
            entries.append([
                str(network.hidden_channels), layers, *rank, f"{cell.parameters:,}",
                *(f"{number:,}" for number in numbers), " ".join(_seed(outcome) for outcome in cell.outcomes),
            ])  # fmt: skip
        labels = [cell.cell.labels for cell in self.cells]
        return Sheet.of(f"{self.title}: what would run", labels, headings, entries, notes=tuple(self.notes))


def _seed(outcome: Outcome) -> str:
    """The seed, marked if its run is done."""
    return f"({outcome.config.run.seed})" if outcome.status == "finished" else str(outcome.config.run.seed)


def plan_cells(title: str, cells: Sequence[Cell], outcomes: Sequence[Outcome], *, data: Given = None) -> CampaignPlan:
    """The plan of a campaign in the state ``outcomes``. Named data sets are not built; own data are read."""
    planned, known = [], dict[str, Given]()
    for row in table_of(title, cells, outcomes).rows:
        cell = row.cell
        asked = str(cell.config.data)
        if data is None and dataset_name(cell.config.data.name) is None and asked not in known:
            known[asked] = load_source(cell.config)
        network: Any = plan_network(cell.config, known.get(asked, data))
        count = count_of(network.build)
        planned.append(PlannedCell(cell=cell, network=network, parameters=count, outcomes=row.outcomes))
    return CampaignPlan(title=title, cells=tuple(planned))
