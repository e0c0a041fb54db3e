"""The same network with and without LRGA, at equal budget."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrga.bench.beside import published_for
from lrga.bench.cell import Cell, model_label, refuse_taken
from lrga.bench.preset import LATER
from lrga.bench.protocols import table1
from lrga.bench.study import OUTPUT, Study
from lrga.bench.tables import CampaignTable, Row
from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.errors import OptionError
from lrga.models.zoo import PAPER_SETS
from lrga.tasks.task import number_format
from lrga.training.options import make_config
from lrga.training.problems.graph_data import Given
from lrga.training.unused import runs_of_a_table

SEEDS = (41,)


@runs_of_a_table()
def comparison(
    name: str,
    model: str = "gcn",
    *,
    budget: str | int = "100K",
    seeds: Iterable[int] | None = None,
    data: Given = None,
    data_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Study:
    """What :func:`compare` runs; the arguments are the same."""
    refuse_taken(options, lrga="both, as a comparison does,", seed="seeds")
    chosen = SEEDS if seeds is None else tuple(seeds)
    given = {"budget": budget, "seeds": chosen, "data_options": data_options, **options}
    cells = tuple(_cell(name, model, lrga=lrga, **given) for lrga in (False, True))
    return Study(
        title=f"{model_label(cells[0].config)} on {cells[0].config.data.name}, with and without LRGA",
        cells=cells,
        paper=any(cell.published is not None for cell in cells),
        data=data,
        remark=gain,
    )


def _cell(name: str, model: str, *, lrga: bool, seeds: Iterable[int], **options: Any) -> Cell:
    dataset = dataset_name(name)
    if dataset in PAPER_SETS:
        cell = table1(name, model, lrga=lrga, seeds=seeds, **({"preset": LATER} | options))
        return replace(cell, published=published_for(cell.config))
    own_links = dataset is None and (options.get("data_options") or {}).get("task") == "link"
    if own_links or (dataset is not None and spec_of(dataset).links):
        if options.pop("budget", "100K") not in ("100K", "100k"):
            raise OptionError("no budget where links are predicted", "one", "give hidden and layers instead")
        config = make_config(name, model=model, lrga=lrga, **options)
        label = {"dataset": config.data.name, "model": model_label(config)}
        return Cell(labels=label, config=config, seeds=tuple(seeds), published=published_for(config))
    config = make_config(name, model=model, lrga=lrga, **options)
    labels = {"dataset": dataset or name, "model": model_label(config), "budget": str(config.model.budget)}
    return Cell(labels=labels, config=config, seeds=tuple(seeds))


def gain(rows: Sequence[Row]) -> list[str]:
    """In a line: what LRGA adds."""
    plain, augmented = rows[0].spread(), rows[1].spread()
    if plain is None or augmented is None:
        return []
    metric, change = rows[0].metric, augmented.mean - plain.mean
    better = (change > 0) == metric.higher_is_better and change != 0
    kind = number_format(plain.mean, metric.decimals)
    return [f"With LRGA {metric.name} changes by {change:+{kind}}: {'better' if better else 'no better'}."]


def compare(
    name: str,
    model: str = "gcn",
    *,
    budget: str | int = "100K",
    seeds: Iterable[int] | None = None,
    output: str | Path = OUTPUT,
    data: Given = None,
    data_options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    retry: bool = False,
    progress: bool = True,
    **options: Any,
) -> CampaignTable:
    """Trains the same network with and without LRGA, each at the width that the budget gives it.

    On a data set of the paper this is its protocol, and its numbers stand beside ours.

    Args:
        name: A data set known by name, or the user's own data (a folder of CSV files, a ``.pt`` file,
            ``module:factory``).
        model: ``"gcn"``, ``"gat"``, ``"gatedgcn"``, ``"graphsage"`` or ``"gin"``.
        budget: ``"100K"``, ``"500K"`` or a number of parameters.
        seeds: 41 alone by default.
        output: Folder of run folders and records; called again, what is done is not done again.
        data: The graphs themselves, in place of those that ``name`` names.
        data_options: Options of the data set, such as ``{"sizes": (1500, 250, 250)}``.
        time_limit: Minutes for both together; the same call continues.
        retry: Whether runs that diverged are made again.
        progress: Whether to show progress on stderr.
        **options: Any options of :class:`~lrga.training.config.TrainingConfig` by name, for both networks.

    Example:
        >>> import tempfile, lrga
        >>> root = tempfile.mkdtemp()
        >>> table = lrga.bench.compare(
        ...     "CLUSTER", hidden=8, layers=1, max_epochs=1, batch_size=4, device="cpu", root=root,
        ...     data_options={"sizes": (8, 4, 4)}, output=root + "/runs", progress=False,
        ... )
        >>> [row.cell.labels["model"] for row in table.rows], table.complete
        (['GCN', 'LRGA + GCN'], True)
    """
    study = comparison(name, model, budget=budget, seeds=seeds, data=data, data_options=data_options, **options)
    return study.run(output, time_limit=time_limit, retry=retry, progress=progress)
