"""The paper's number beside a run."""

from lrga.bench.link_protocols import published_for_links
from lrga.bench.paper import Published
from lrga.bench.protocols import published_cell
from lrga.data.datasets.spec import dataset_name
from lrga.models.zoo import RANK
from lrga.training.config import TrainingConfig


def published_for(config: TrainingConfig) -> Published | None:
    """The cell of Table 1 (with random features: Table 3) that a run repeats; ``None`` where the paper has none.

    Another width, depth or rank than the cell's makes it another experiment; the size of the data, the schedule and
    the reading of the layer do not, but are to be told beside the numbers.

    Example:
        >>> from lrga.training.options import make_config
        >>> published_for(make_config("ZINC", model="gatedgcn", budget="500k")).mean
        0.249
    """
    if config.problem == "links":
        return published_for_links(config)
    model, dataset = config.model, dataset_name(config.data.name)
    changed = (model.hidden, model.layers, model.heads) != (None, None, None) or (model.lrga and model.rank != RANK)
    if dataset is None or changed:
        return None
    table = 3 if model.random_features else 1
    return published_cell(table, dataset, model.model, budget=model.budget, lrga=model.lrga)
