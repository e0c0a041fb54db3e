"""The paper's experiments as full configurations, each with the number printed in the paper.

Adam, learning rate 1e-3, halved on a plateau of the validation loss, training ends below 1e-5; residual connections and
batch normalisation, no dropout, no weight decay; the result is that of the last epoch, over four seeds. The rest
depends on the data set (:mod:`lrga.training.presets`); layers and wiring depend on the network
(:mod:`lrga.paper.preset`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lrga.checks import check_choice
from lrga.errors import OptionError
from lrga.experiments.cell import Cell, model_label, refuse_taken, select_cells
from lrga.models.zoo import RANK, model_name, paper_set
from lrga.nn.layers.base import PRESETS
from lrga.paper.link_protocols import cells_of_table2
from lrga.paper.preset import PAPER, paper_choice
from lrga.paper.printed import published, published_for
from lrga.training.config import TrainingConfig
from lrga.training.presets import make_config, runs_of_a_table

SEEDS: dict[str, tuple[int, ...]] = dict.fromkeys(("PATTERN", "CLUSTER", "ZINC", "MNIST", "CIFAR10"), (41, 95, 12, 35))
SEEDS["TSP"] = (41, 42, 9, 23)
RANKS = (0, 1, 2, 5, 10, 20, 30, 60, 117, 190)
MEAN_NODES = 117  # mean of CLUSTER; the paper plots accuracy over κ / 117


def paper_config(
    dataset: str,
    model: str = "gcn",
    *,
    budget: str | int = "100K",
    lrga: bool = True,
    seed: int | None = None,
    data_options: Mapping[str, Any] | None = None,
    preset: str | None = None,
    **options: Any,
) -> TrainingConfig:
    """The full configuration of a run under the paper's protocol.

    Args:
        dataset: ``"PATTERN"``, ``"CLUSTER"``, ``"ZINC"``, ``"MNIST"``, ``"CIFAR10"`` or ``"TSP"``, in any case.
        model: ``"gcn"``, ``"gat"``, ``"gatedgcn"``, ``"graphsage"`` or ``"gin"``.
        budget: ``"100K"``, ``"500K"`` or a number of parameters.
        lrga: Whether every layer has low-rank global attention.
        seed: By default the first seed of the protocol.
        data_options: Options of the data set, such as ``{"sizes": (1500, 250, 250)}``.
        preset: ``"paper"`` (the default): the layers chosen per network (:mod:`lrga.paper.preset`); or one
            version of the benchmark's layers for all networks, ``"2022"`` or ``"2020"``.
        **options: Any other options of :class:`~lrga.training.config.TrainingConfig`, by name.

    Example:
        >>> config = paper_config("CLUSTER", "gatedgcn", budget="500k")
        >>> config.optimizer.batch_size, config.optimizer.patience, config.optimizer.max_epochs
        (32, 5, 1000)
        >>> paper_config("ZINC", lr=1e-4).optimizer.lr
        0.0001
        >>> [paper_config("ZINC", "gcn", preset=preset).model.preset for preset in (None, "2022")]
        ['2020', '2022']
    """
    name = paper_set(dataset)
    seed = SEEDS[name][0] if seed is None else seed
    if preset is not None:
        check_choice("preset", preset, (PAPER, *PRESETS))
    layers = paper_choice(name, model, lrga=lrga) if preset in (None, PAPER) else {"preset": preset}
    given = layers | {key: value for key, value in options.items() if value is not None}
    return make_config(name, data_options=data_options, model=model, budget=budget, lrga=lrga, seed=seed, **given)


def table1(
    dataset: str,
    model: str = "gcn",
    *,
    budget: str | int = "100K",
    lrga: bool = True,
    seeds: Iterable[int] | None = None,
    **options: Any,
) -> Cell:
    """A cell of Table 1: a network on one of six data sets.

    Example:
        >>> cell = table1("CLUSTER", "gcn", budget="500K")
        >>> cell.published.mean, cell.seeds, cell.config.optimizer.batch_size
        (76.01, (41, 95, 12, 35), 64)
    """
    return _cell(dataset, model, budget=budget, lrga=lrga, seeds=seeds, given={}, options=options)


def table3(model: str = "gcn", *, lrga: bool = True, seeds: Iterable[int] | None = None, **options: Any) -> Cell:
    """A cell of Table 3: PATTERN with random features instead of the node features, at 500K.

    Example:
        >>> cell = table3("gin")
        >>> cell.published.mean, cell.config.model.random_features
        (86.765, True)
    """
    given = {"random_features": True}
    return _cell("PATTERN", model, budget="500K", lrga=lrga, seeds=seeds, given=given, options=options)


def plain_counterpart(model: str, *, lrga: bool, seeds: Iterable[int] | None = None, **options: Any) -> Cell:
    """A cell of Table 3 with the data set's own node features, which are random but fixed in the data set.

    Example:
        >>> plain_counterpart("gcn", lrga=True).published.mean, plain_counterpart("gin", lrga=True).published
        (84.55, None)
    """
    return table1("PATTERN", model, budget="500K", lrga=lrga, seeds=seeds, **options)


def rank_ablation(rank: int = RANK, *, seeds: Iterable[int] | None = None, **options: Any) -> Cell:
    """A point of the rank ablation: LRGA + GCN on CLUSTER, width 100, 8 layers, with another rank.

    The paper shows a figure without numbers; rank 30 is the cell of Table 1.

    Example:
        >>> rank_ablation(10).published is None, rank_ablation(30).published.mean
        (True, 76.01)
    """
    cell = _cell("CLUSTER", "gcn", budget="500K", lrga=True, seeds=seeds, given={"rank": rank}, options=options)
    labels = {"dataset": "CLUSTER", "model": "LRGA + GCN", "rank": rank, "rank/117": round(rank / MEAN_NODES, 2)}
    return replace(cell, labels=labels)


def _cell(
    dataset: str,
    model: str,
    *,
    budget: str | int,
    lrga: bool,
    seeds: Iterable[int] | None,
    given: dict[str, Any],
    options: dict[str, Any],
) -> Cell:
    name = paper_set(dataset)
    preset = options.get("preset")  # no preset counts as a change of the protocol
    paper = paper_config(name, model, budget=budget, lrga=lrga, preset=preset, **given)
    config = paper_config(name, model, budget=budget, lrga=lrga, **(given | options))
    return Cell(
        labels={"dataset": name, "model": model_label(config), "budget": str(config.model.budget)},
        config=config,
        seeds=SEEDS[name] if seeds is None else tuple(seeds),
        published=published_for(config),
        protocol=paper,
    )


TITLES: dict[str, str] = {
    "table1": "Table 1: six data sets, two budgets, with and without LRGA",
    "table2": "Table 2: link prediction on three OGB sets, best validation epoch",
    "table3": "Table 3: PATTERN with random features instead of the node features, 500K",
    "rank": "Rank ablation: LRGA + GCN on CLUSTER, width 100, 8 layers",
}


def experiment_name(name: str) -> str:
    """Normalises the name of an experiment: ``"Table 1"`` is ``"table1"``."""
    plain = "".join(c for c in str(name).lower() if c.isalnum())
    if plain not in TITLES:
        raise OptionError(f"an experiment, one of {', '.join(TITLES)}", repr(name), "choose one of these")
    return plain


@runs_of_a_table()
def cells_of(
    experiment: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    budget: str | None = None,
    lrga: bool | None = None,
    rank: int | None = None,
    seeds: Iterable[int] | None = None,
    **options: Any,
) -> list[Cell]:
    """The cells of an experiment of the paper that match.

    Args:
        experiment: ``"table1"``, ``"table2"``, ``"table3"`` or ``"rank"``.
        dataset: Only this data set.
        model: Only this network.
        budget: Only ``"100K"`` or ``"500K"``.
        lrga: Only rows with LRGA, or only those without.
        rank: Only this rank of the rank ablation (any integer).
        seeds: Seeds instead of the protocol's four.
        **options: Changes of the protocol, by name of the option; tables list the changes. ``preset`` chooses the
            layers, as in :func:`paper_config`.

    Example:
        >>> [cell.published.mean for cell in cells_of("table1", dataset="zinc", model="gatedgcn", lrga=True)]
        [0.355, 0.249]
    """
    refuse_taken(options, seed="seeds", name="dataset")
    name = experiment_name(experiment)
    seeds = None if seeds is None else tuple(seeds)
    if name == "table2":
        if budget is not None:
            raise OptionError("no budget in table2", repr(budget), "leave it out")
        more = options if rank is None else {**options, "rank": rank}
        return cells_of_table2(dataset=dataset, model=model, lrga=lrga, seeds=seeds, **more)
    if name == "rank":
        cells = [rank_ablation(one, seeds=seeds, **options) for one in (RANKS if rank is None else (rank,))]
    else:
        options |= {} if rank is None else {"rank": rank}
        printed = [cell for cell in published() if cell.table == int(name[-1])]
        printed.sort(key=lambda c: (list(SEEDS).index(c.dataset), c.budget))
        cells = [
            table1(c.dataset, c.model, budget=c.budget or "100K", lrga=c.lrga, seeds=seeds, **options)
            if name == "table1"
            else table3(c.model, lrga=c.lrga, seeds=seeds, **options)
            for c in printed
        ]
    data_set = None if dataset is None else paper_set(dataset)
    conv = None if model is None else model_name(model)
    return select_cells(cells, name, dataset=data_set, model=conv, budget=budget, lrga=lrga)
