"""The same network with and without LRGA, at equal budget."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.errors import OptionError
from lrga.experiments.cell import budget_label, cell_beside, model_label, refuse_taken
from lrga.experiments.published import Reference
from lrga.experiments.study import OUTPUT, Study
from lrga.experiments.table import Table
from lrga.training.presets import make_config, runs_of_a_table
from lrga.training.problems.data import Given

SEEDS = (41,)


@runs_of_a_table()
def comparison(
    name: str,
    model: str | None = None,
    *,
    budget: str | int | None = None,
    recipe: str | None = None,
    seeds: Iterable[int] | None = None,
    data: Given = None,
    data_options: Mapping[str, Any] | None = None,
    reference: Reference | None = None,
    **options: Any,
) -> Study:
    """The study that :func:`compare` runs; same arguments."""
    refuse_taken(options, lrga="both, as a comparison does,", seed="seeds")
    dataset = dataset_name(name)
    own_links = dataset is None and (data_options or {}).get("task") == "link"
    if own_links or (dataset is not None and spec_of(dataset).links):
        if budget is not None:
            raise OptionError("no budget for link prediction", "one", "give hidden and layers instead")
    else:
        options["budget"] = "100K" if budget is None and recipe is None else budget
    cells = []
    for lrga in (False, True):
        given = {"model": model, "lrga": lrga, "data_options": data_options, "recipe": recipe, **options}
        config = make_config(name, **given)
        labels = {"dataset": config.data.name, "model": model_label(config), "budget": budget_label(config)}
        labels = {key: value for key, value in labels.items() if value}
        cells.append(cell_beside(reference, labels=labels, config=config, seeds=SEEDS if seeds is None else seeds))
    title = f"{model_label(cells[0].config)} on {cells[0].config.data.name}, with and without LRGA"
    if options.get("hidden") is not None:
        title += f", both of width {options['hidden']}"
    return Study(title=title, cells=tuple(cells), data=data)


def compare(
    name: str,
    model: str | None = None,
    *,
    output: str | Path = OUTPUT,
    time_limit: float | None = None,
    retry: bool = False,
    progress: bool = True,
    **options: Any,
) -> Table:
    """Trains the same network with and without LRGA, at equal budgets or, with ``hidden``, at equal widths.

    Args:
        name: A data set known by name, or the user's own data (a folder of CSV files, a ``.pt`` file,
            ``module:factory``).
        model: ``"gcn"`` (the default without a recipe), ``"gat"``, ``"gatedgcn"``, ``"graphsage"`` or ``"gin"``.
        budget: ``"100K"`` (the default), ``"500K"`` or a number of parameters.
        recipe: ``"modern"``: both networks use this recipe with its own budget.
        seeds: By default 41.
        output: Folder of run folders and records; finished runs in it are skipped.
        data: Graphs to use instead of those of ``name``.
        data_options: Options of the data set, such as ``{"sizes": (1500, 250, 250)}``.
        reference: Published numbers for the table; the paper's are ``lrga.paper.THE_PAPER``.
        time_limit: Minutes for both together; repeat the call to resume.
        retry: Whether to repeat runs that diverged.
        progress: Whether to show progress on stderr.
        **options: Any options of :class:`~lrga.training.config.TrainingConfig` by name, for both networks.

    Example:
        >>> import tempfile, lrga
        >>> root = tempfile.mkdtemp()
        >>> table = lrga.experiments.compare(
        ...     "CLUSTER", hidden=8, layers=1, max_epochs=1, batch_size=4, device="cpu", root=root,
        ...     data_options={"sizes": (8, 4, 4)}, output=root + "/runs", progress=False,
        ... )
        >>> [row.cell.labels["model"] for row in table.rows], table.complete
        (['GCN', 'LRGA + GCN'], True)
    """
    study = comparison(name, model, **options)
    return study.run(output, time_limit=time_limit, retry=retry, progress=progress)
