"""The paper's experiments, run and printed beside its numbers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lrga.bench.protocols import TITLES, cells_of, experiment_name
from lrga.bench.study import OUTPUT, Study
from lrga.bench.tables import CampaignTable


def reproduction(
    experiment: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    budget: str | None = None,
    lrga: bool | None = None,
    rank: int | None = None,
    seeds: Iterable[int] | None = None,
    **options: Any,
) -> Study:
    """What :func:`reproduce` runs; the arguments are the same."""
    cells = cells_of(
        experiment, dataset=dataset, model=model, budget=budget, lrga=lrga, rank=rank, seeds=seeds, **options
    )
    return Study(title=TITLES[experiment_name(experiment)], cells=tuple(cells))


def reproduce(
    experiment: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    budget: str | None = None,
    lrga: bool | None = None,
    rank: int | None = None,
    seeds: Iterable[int] | None = None,
    output: str | Path = OUTPUT,
    time_limit: float | None = None,
    retry: bool = False,
    progress: bool = True,
    **options: Any,
) -> CampaignTable:
    """Runs an experiment of the paper, or the cells of it that match, and puts the results beside the paper's.

    Args:
        experiment: ``"table1"``, ``"table2"``, ``"table3"`` or ``"rank"``.
        dataset: Only this data set.
        model: Only this network.
        budget: Only ``"100K"`` or ``"500K"``.
        lrga: Only rows with LRGA, or only those without.
        rank: Only this rank of the rank ablation.
        seeds: Other seeds than the protocol's four.
        output: Folder of run folders and records; called again, what is done is not done again.
        time_limit: Minutes for all runs together; the same call continues.
        retry: Whether runs that diverged are made again.
        progress: Whether to show progress on stderr.
        **options: Changes of the protocol, by name of the option (``max_epochs=2``, ``preset="2020"``,
            ``data_options={"sizes": (1500, 250, 250)}``); the table says what was changed.

    Example:
        >>> import tempfile, lrga
        >>> root = tempfile.mkdtemp()
        >>> table = lrga.bench.reproduce(
        ...     "rank", rank=10, seeds=[41], hidden=8, layers=1, max_epochs=1, batch_size=4, device="cpu", root=root,
        ...     data_options={"sizes": (8, 4, 4)}, output=root + "/runs", progress=False,
        ... )
        >>> table.rows[0].spread().n
        1
    """
    study = reproduction(
        experiment, dataset=dataset, model=model, budget=budget, lrga=lrga, rank=rank, seeds=seeds, **options
    )
    return study.run(output, time_limit=time_limit, retry=retry, progress=progress)
