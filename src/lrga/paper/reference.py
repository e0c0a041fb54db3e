"""The paper's numbers as a reference for runs."""

from dataclasses import replace
from typing import Any

from lrga.data.datasets.spec import dataset_name
from lrga.experiments.cell import Cell
from lrga.experiments.published import Reference
from lrga.models.link import LINK_SETS
from lrga.models.zoo import MODELS, PAPER_SETS
from lrga.paper.preset import PAPER
from lrga.paper.printed import PrintedCell, published_for
from lrga.paper.protocols import paper_config
from lrga.training.config import TrainingConfig
from lrga.training.presets import make_config


class PaperReference(Reference):
    """Tables 1, 2 and 3, and their protocols."""

    def number(self, config: TrainingConfig) -> PrintedCell | None:
        """Same as :func:`~lrga.paper.printed.published_for`."""
        return published_for(config)

    def protocol(self, config: TrainingConfig) -> TrainingConfig | None:
        """The paper's protocol for a network on one of its data sets.

        Of graphs: uses the paper's preset or that of the run, whichever gives fewer differences.
        """
        model, dataset = config.model, dataset_name(config.data.name)
        if dataset in LINK_SETS:
            return make_config(dataset, model=model.model, lrga=model.lrga)
        if dataset not in PAPER_SETS or model.block != "benchmark" or model.model not in MODELS:
            return None
        given: dict[str, Any] = {"random_features": True} if model.random_features else {}
        given |= {"budget": model.budget, "lrga": model.lrga}
        protocols = [paper_config(dataset, model.model, preset=preset, **given) for preset in (model.preset, PAPER)]
        cell = Cell(labels={}, config=config, seeds=(config.run.seed,))
        return min(protocols, key=lambda protocol: len(replace(cell, protocol=protocol).deviations()))


THE_PAPER = PaperReference()
