"""A grid over any options of a training run."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lrga.data.datasets.spec import dataset_name
from lrga.errors import OptionError
from lrga.experiments.cell import cell_beside, refuse_taken
from lrga.experiments.published import Reference
from lrga.experiments.sheet import value_text
from lrga.experiments.study import OUTPUT, Study
from lrga.experiments.table import Row, Table, best_by_validation
from lrga.models.zoo import budget_of
from lrga.training.config import check_option
from lrga.training.presets import make_config, runs_of_a_table
from lrga.training.problems.data import Given, plan_network

SEEDS = (41,)
SIZES = ("rank", "layers", "attention_heads")  # options for which a sweep with a budget adapts the width


@runs_of_a_table()
def sweep_of(
    name: str,
    grid: Mapping[str, Sequence[Any]],
    *,
    seeds: Iterable[int] | None = None,
    data: Given = None,
    data_options: Mapping[str, Any] | None = None,
    reference: Reference | None = None,
    **options: Any,
) -> Study:
    """The study that :func:`sweep` runs; same arguments."""
    refuse_taken(options, seed="seeds")
    if not grid:
        remedy = "pass for example {'rank': [0, 30]}, on the command line --grid rank=0,30"
        raise OptionError("at least one option with its values", "an empty grid", remedy)
    for key, values in grid.items():
        check_option(key)
        if isinstance(values, str) or not isinstance(values, Iterable) or not list(values):
            raise OptionError(f"a list of values for {key}", repr(values), f"pass for example {{{key!r}: [1, 2]}}")
        if key in options:
            raise OptionError(f"{key} either in the grid or fixed", "both", f"leave {key} out of one of them")
    if "seed" in grid and seeds is not None:
        raise OptionError("seeds either in the grid or as seeds", "both", "omit one of them")
    chosen, resized = SEEDS if seeds is None else tuple(seeds), any(key in grid for key in SIZES)
    cells = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        rest = {key: value for key, value in (options | point).items() if key != "name"}
        config = make_config(point.get("name", name), data_options=data_options, **rest)
        target, label = budget_of(config.model.budget)
        named = dataset_name(config.data.name) is not None and config.model.hidden is None
        if resized and "budget" in options and label is not None and named:
            # The paper's width gives the budget only at its own rank and depth.
            config = config.changed(budget=target, layers=plan_network(config).num_layers)
        own = (config.run.seed,) if "seed" in grid else chosen
        cells.append(cell_beside(reference, labels=point, config=config, seeds=own))
    title = f"Sweep over {', '.join(grid)} on {name}"
    return Study(title=title, cells=tuple(cells), data=data, remark=_best)


def _best(rows: Sequence[Row]) -> list[str]:
    """One line with the best point in validation."""
    if (number := best_by_validation(rows)) is None:
        return []
    row, metric = rows[number], rows[number].metric
    val, test = row.spread(key="val_metric"), row.spread()
    assert val is not None
    point = ", ".join(f"{key}={value_text(value)}" for key, value in row.cell.labels.items())
    shown = "" if test is None else f" (test {test.text(metric.decimals)})"
    return [f"Best in validation: {point}, {metric.name} {val.text(metric.decimals)}{shown}."]


def sweep(
    name: str,
    grid: Mapping[str, Sequence[Any]],
    *,
    output: str | Path = OUTPUT,
    time_limit: float | None = None,
    retry: bool = False,
    progress: bool = True,
    **options: Any,
) -> Table:
    """Trains every combination of the values of some options.

    Args:
        name: A data set known by name, or the user's own data.
        grid: Options of :class:`~lrga.training.config.TrainingConfig` by name, each with its values.
        seeds: Seeds of every combination; by default 41.
        output: Folder of run folders and records; finished runs in it are skipped.
        data: Graphs to use instead of those of ``name``.
        data_options: Options of the data set, such as ``{"sizes": (1500, 250, 250)}``.
        reference: Published numbers for the table.
        time_limit: Minutes for all runs together; repeat the call to resume.
        retry: Whether to repeat runs that diverged.
        progress: Whether to show progress on stderr.
        **options: Options shared by all combinations. With ``budget``, every rank and depth has the
            width that gives this budget; without it, all have the width of the paper.

    Example:
        >>> import tempfile, lrga
        >>> root = tempfile.mkdtemp()
        >>> table = lrga.experiments.sweep(
        ...     "CLUSTER", {"rank": [0, 4]}, hidden=8, layers=1, max_epochs=1, batch_size=4, device="cpu", root=root,
        ...     data_options={"sizes": (8, 4, 4)}, output=root + "/runs", progress=False,
        ... )
        >>> [row.cell.labels for row in table.rows]
        [{'rank': 0}, {'rank': 4}]
    """
    return sweep_of(name, grid, **options).run(output, time_limit=time_limit, retry=retry, progress=progress)
