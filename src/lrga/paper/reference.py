"""The paper's numbers as a reference for runs."""

from dataclasses import replace
from typing import Any

from lrga.data.datasets.spec import dataset_name
from lrga.experiments.cell import Cell
from lrga.experiments.published import Reference
from lrga.models.zoo import MODELS, PAPER_SETS, RANK
from lrga.paper.link_protocols import published_for_links
from lrga.paper.preset import PAPER
from lrga.paper.printed import PrintedCell
from lrga.paper.protocols import paper_config, published_cell
from lrga.training.config import TrainingConfig


def published_for(config: TrainingConfig) -> PrintedCell | None:
    """The cell of Table 1, 2 (links) or 3 (random features) that a run repeats, or ``None``.

    Width, depth and rank must match the cell. Data size, schedule and wiring may differ,
    but must be stated next to the numbers.

    Example:
        >>> from lrga.training.presets import make_config
        >>> published_for(make_config("ZINC", model="gatedgcn", budget="500k")).mean
        0.249
    """
    if config.budget is None:  # Table 2: its networks have a given size
        return published_for_links(config)
    model, dataset = config.model, dataset_name(config.data.name)
    changed = (model.hidden, model.layers, model.heads) != (None, None, None) or (model.lrga and model.rank != RANK)
    if dataset is None or changed or model.block != "benchmark" or model.model not in MODELS:
        return None
    table = 3 if model.random_features else 1
    return published_cell(table, dataset, model.model, budget=model.budget, lrga=model.lrga)


class PaperReference(Reference):
    """Tables 1, 2 and 3, and their protocols."""

    def number(self, config: TrainingConfig) -> PrintedCell | None:
        """Same as :func:`published_for`."""
        return published_for(config)

    def protocol(self, config: TrainingConfig) -> TrainingConfig | None:
        """The paper's protocol for a network on one of its six data sets of graphs.

        Uses the paper's preset or that of the run, whichever gives fewer differences.
        """
        model, dataset = config.model, dataset_name(config.data.name)
        if dataset not in PAPER_SETS or model.block != "benchmark" or model.model not in MODELS:
            return None
        given: dict[str, Any] = {"random_features": True} if model.random_features else {}
        given |= {"budget": model.budget, "lrga": model.lrga}
        protocols = [paper_config(dataset, model.model, preset=preset, **given) for preset in (model.preset, PAPER)]
        cell = Cell(labels={}, config=config, seeds=(config.run.seed,))
        return min(protocols, key=lambda protocol: len(replace(cell, protocol=protocol).deviations()))


THE_PAPER = PaperReference()
