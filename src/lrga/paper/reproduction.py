"""The paper's experiments, run and compared with its numbers."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrga.errors import OptionError
from lrga.experiments.published import Reference
from lrga.experiments.study import OUTPUT, Study
from lrga.experiments.table import BESIDE, Table
from lrga.paper.protocols import TITLES, cells_of, experiment_name, plain_counterpart
from lrga.training.presets import runs_of_a_table

FILTERS = ("dataset", "model", "budget", "lrga", "rank")


@runs_of_a_table()
def reproduction(
    experiment: str,
    *,
    seeds: Iterable[int] | None = None,
    plain: bool = False,
    reference: Reference | None = None,
    **options: Any,
) -> Study:
    """The study that :func:`reproduce` runs; same arguments."""
    chosen = None if seeds is None else tuple(seeds)
    name = experiment_name(experiment)
    if plain and name != "table3":
        raise OptionError("the option plain with table3", f"the option plain with {name}", "leave it out")
    cells = cells_of(name, seeds=chosen, **options)
    if plain:
        changes = {key: value for key, value in options.items() if key not in FILTERS}
        cells = [
            plain_counterpart(c.config.model.model, lrga=c.config.model.lrga, seeds=chosen, **changes) for c in cells
        ]
    if reference is not None:
        cells = [replace(cell, published=reference.number(cell.config)) for cell in cells]
    title = TITLES[name] if not plain else "In addition to Table 3: PATTERN with its own node features, 500K"
    return Study(title=title, cells=tuple(cells), columns=BESIDE)


def reproduce(
    experiment: str,
    *,
    output: str | Path = OUTPUT,
    time_limit: float | None = None,
    retry: bool = False,
    progress: bool = True,
    **options: Any,
) -> Table:
    """Runs an experiment of the paper, or matching cells of it, and compares the results with the paper's.

    Args:
        experiment: ``"table1"``, ``"table2"``, ``"table3"`` or ``"rank"``.
        dataset: Only this data set.
        model: Only this network.
        budget: Only ``"100K"`` or ``"500K"``.
        lrga: Only rows with LRGA, or only those without.
        rank: Only this rank of the rank ablation.
        seeds: Seeds instead of the protocol's four.
        plain: With Table 3: the same networks on the data set's own features.
        reference: Published numbers to use instead of the paper's.
        output: Folder of run folders and records; finished runs in it are skipped.
        time_limit: Minutes for all runs together; repeat the call to resume.
        retry: Whether to repeat runs that diverged.
        progress: Whether to show progress on stderr.
        **options: Changes of the protocol, by name of the option (``max_epochs=2``, ``preset="2020"``,
            ``data_options={"sizes": (1500, 250, 250)}``); the table lists the changes.

    Example:
        >>> import tempfile, lrga
        >>> root = tempfile.mkdtemp()
        >>> table = lrga.paper.reproduce(
        ...     "rank", rank=10, seeds=[41], hidden=8, layers=1, max_epochs=1, batch_size=4, device="cpu", root=root,
        ...     data_options={"sizes": (8, 4, 4)}, output=root + "/runs", progress=False,
        ... )
        >>> table.rows[0].spread().n
        1
    """
    return reproduction(experiment, **options).run(output, time_limit=time_limit, retry=retry, progress=progress)
