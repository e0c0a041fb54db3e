"""What a campaign would run, without running it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lrga.bench.cell import Cell, model_word
from lrga.bench.display import label_columns, plain_text, slim_table
from lrga.bench.notes import notes_of
from lrga.bench.runner import Outcome
from lrga.data.datasets.spec import Inputs, dataset_name, spec_of
from lrga.models.budget import count_of
from lrga.models.embeddings import EMBEDDINGS
from lrga.training.architecture import Architecture, resolve
from lrga.training.config import TrainingConfig
from lrga.training.problems.graph_data import Given, load_training_data
from lrga.training.problems.kinds import load_link_source
from lrga.training.problems.link_architecture import resolve_link

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell, its network to the last number, and how its runs stand."""

    cell: Cell
    network: Architecture
    parameters: int
    outcomes: tuple[Outcome, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        config, published = self.cell.config, self.cell.published
        return {
            "dataset": config.data.name,
            "model": model_word(config),
            "budget": config.model.budget if config.problem == "graphs" else None,
            "lrga": config.model.lrga,
            "labels": dict(self.cell.labels),
            "hidden": self.network.hidden_channels,
            "layers": self.network.num_layers,
            "rank": self.network.rank,
            "parameters": self.parameters,
            "optimizer": config.to_json()["optimizer"],
            "published": None if published is None else {"mean": published.mean, "std": published.std},
            "changed": {key: pair[0] for key, pair in self.cell.deviations().items()},
            "runs": [
                {"run": outcome.name, "seed": outcome.config.run.seed, "status": outcome.status}
                for outcome in self.outcomes
            ],
        }


@dataclass(frozen=True, kw_only=True)
class CampaignPlan:
    """What :meth:`~lrga.bench.study.Study.plan` returns."""

    title: str
    cells: tuple[PlannedCell, ...]

    @property
    def notes(self) -> list[str]:
        """How much there is to do, and how."""
        outcomes = [outcome for cell in self.cells for outcome in cell.outcomes]
        counts = Counter(outcome.status for outcome in outcomes)
        stand = ", ".join(f"{count} {status}" for status, count in counts.items())
        return [
            f"{len(outcomes)} {'run' if len(outcomes) == 1 else 'runs'}: {stand}.",
            *notes_of([cell.cell for cell in self.cells], []),
        ]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"title": self.title, "cells": [cell.to_json() for cell in self.cells], "notes": self.notes}

    def to_text(self) -> str:
        """At most 100 columns wide, without colours."""
        return plain_text(self.to_rich(), self.notes)

    def to_rich(self) -> "RichTable":
        """For a terminal."""
        table = slim_table(f"{self.title}: what would run")
        rows = label_columns(table, [cell.cell.labels for cell in self.cells])
        ranked = any("rank" in cell.cell.labels for cell in self.cells)  # then κ has a column already
        patient = any(cell.cell.config.option("schedule") == "plateau" for cell in self.cells)
        schedule = ("batch", *(("patience",) if patient else ()), "epochs ≤")
        for heading in ("d", "L", *(() if ranked else ("κ",)), "params", *schedule):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("seeds")
        for first, cell in zip(rows, self.cells, strict=True):
            options, network = cell.cell.config.optimizer, cell.network
            rank = [] if ranked else ["" if network.rank is None else str(network.rank)]
            numbers = (options.batch_size, *((options.patience,) if patient else ()), options.max_epochs)
            layers = "" if cell.cell.config.model.model in EMBEDDINGS else str(network.num_layers)
            table.add_row(
                *first,
                str(network.hidden_channels),
                layers,
                *rank,
                f"{cell.parameters:,}",
                *(f"{number:,}" for number in numbers),
                " ".join(_seed(outcome) for outcome in cell.outcomes),
            )
        return table


def _seed(outcome: Outcome) -> str:
    """The seed, marked where there is nothing to do."""
    return f"({outcome.config.run.seed})" if outcome.status == "finished" else str(outcome.config.run.seed)


def plan_cells(title: str, cells: Sequence[Cell], outcomes: Sequence[Outcome], *, data: Given = None) -> CampaignPlan:
    """The plan of a campaign whose runs stand as ``outcomes``. A named data set is not built; own data are read."""
    planned, place = [], 0
    known: dict[str, Inputs] = {}
    for cell in cells:
        network: Any
        if cell.config.problem == "links":
            network = _link_network(cell.config, data)
        else:
            asked = str(cell.config.data)
            known[asked] = inputs = known.get(asked) or inputs_of(cell.config, data=data)
            network = resolve(cell.config.model, inputs, dataset=dataset_name(cell.config.data.name))
        own = tuple(outcomes[place : place + len(cell.seeds)])
        planned.append(PlannedCell(cell=cell, network=network, parameters=count_of(network.build), outcomes=own))
        place += len(cell.seeds)
    return CampaignPlan(title=title, cells=tuple(planned))


def _link_network(config: TrainingConfig, data: Any) -> Any:
    """Of a named set at its published size; the user's own edges are read."""
    if data is None and dataset_name(config.data.name) is None:
        data = load_link_source(config.data)
    return resolve_link(config, data)


def inputs_of(config: TrainingConfig, *, data: Given = None) -> Inputs:
    """What the graphs of a run ask of its network.

    Example:
        >>> from lrga.bench.protocols import paper_config
        >>> inputs_of(paper_config("PATTERN")).in_channels
        3
    """
    dataset = dataset_name(config.data.name)
    return spec_of(dataset).inputs if dataset is not None else load_training_data(config.data, config.run, data).inputs
