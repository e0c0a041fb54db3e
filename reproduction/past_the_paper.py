"""The modern recipe on every data set that has a row, with and without LRGA: can the paper's best cells be beaten?

    lrga reproduce run reproduction/past_the_paper.py --output runs/past

Rows are those of :mod:`lrga.training.recipes`. Epochs and batches are changed where a run would take more than about
ten minutes of one H200 (an estimate from the time of a captured step, not a measurement); the plan prints them.
"""

from typing import Any

from lrga.data.datasets.spec import spec_of
from lrga.experiments.cell import Cell, model_label
from lrga.experiments.published import Published
from lrga.experiments.study import Study
from lrga.paper.printed import published
from lrga.tasks import METRICS
from lrga.training.presets import make_config
from lrga.training.recipes import MODERN

SEEDS = (41, 95, 12)  # where a run is under five minutes
ORDER = (
    "ogbl-ddi", "CLUSTER", "PATTERN", "ZINC", "minesweeper", "tolokers", "Cora", "CiteSeer", "PubMed", "CIFAR10",
    "MNIST", "TSP", "Peptides-func", "ogbg-molhiv",
)  # fmt: skip
SHORTENED: dict[str, dict[str, Any]] = {
    "ZINC": {"max_epochs": 400, "warmup_epochs": 10.0},
    "CIFAR10": {"max_epochs": 80, "batch_size": 64},
    "MNIST": {"max_epochs": 60, "batch_size": 64},
    "Peptides-func": {"max_epochs": 200},
}
ONE_SEED = ("ogbl-ddi", "CLUSTER", "PATTERN", "ZINC", "CIFAR10", "MNIST", "TSP", "Peptides-func", "ogbg-molhiv")


def best_printed(dataset: str) -> Published | None:
    """The best number that the paper prints for a data set, of any model; ``None`` where it has none."""
    found = [cell for cell in published() if cell.dataset == dataset]
    if not found:
        return None
    best = max if METRICS[spec_of(dataset).task.metric].higher_is_better else min
    cell = best(found, key=lambda cell: cell.mean)
    return Published(mean=cell.mean, std=cell.std, source=f"the paper's best, Table {cell.table}")


def study() -> Study:
    """The campaign: for each data set a row without and a row with LRGA."""
    cells = []
    for dataset in ORDER:
        for lrga in (False, True):
            config = make_config(dataset, recipe="modern", lrga=lrga, **SHORTENED.get(dataset, {}))
            cells.append(
                Cell(
                    labels={"dataset": dataset, "model": model_label(config)},
                    config=config,
                    seeds=SEEDS[:1] if dataset in ONE_SEED else SEEDS,
                    published=best_printed(dataset),
                )
            )
    assert set(ORDER) == set(MODERN)
    return Study(title="Past the paper", cells=tuple(cells))
