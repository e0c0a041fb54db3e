"""The paper's experiments, run and printed beside its numbers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lrga.bench.claims import PARTS, claim_cells, part_name, plain_counterpart
from lrga.bench.protocols import CLAIMS, TITLES, cells_of, experiment_name
from lrga.bench.study import OUTPUT, Study
from lrga.bench.tables import CampaignTable
from lrga.errors import OptionError
from lrga.training.unused import runs_of_a_table


@runs_of_a_table()
def reproduction(
    experiment: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    budget: str | None = None,
    lrga: bool | None = None,
    rank: int | None = None,
    seeds: Iterable[int] | None = None,
    only: str | None = None,
    plain: bool = False,
    **options: Any,
) -> Study:
    """What :func:`reproduce` runs; the arguments are the same."""
    chosen = None if seeds is None else tuple(seeds)
    if experiment_name(experiment, more=(CLAIMS,)) == CLAIMS:
        if rank is not None or plain:
            raise OptionError("claims with dataset, model, budget or lrga", "a rank or plain", "leave it out")
        cells = claim_cells(only, dataset=dataset, model=model, budget=budget, lrga=lrga, seeds=chosen, **options)
        title = "What the tables leave to be explained" if only is None else PARTS[part_name(only)].question
        return Study(title=title, cells=tuple(cells))
    name = experiment_name(experiment)
    if only is not None or (plain and name != "table3"):
        got = "only" if only is not None else "plain"
        expected = "the option only with claims, the option plain with table3"
        raise OptionError(expected, f"the option {got} with {name}", "leave it out")
    cells = cells_of(name, dataset=dataset, model=model, budget=budget, lrga=lrga, rank=rank, seeds=chosen, **options)
    if plain:
        cells = [
            plain_counterpart(c.config.model.model, lrga=c.config.model.lrga, seeds=chosen, **options) for c in cells
        ]
    title = TITLES[name] if not plain else "Beside Table 3: PATTERN with its own node features, 500K"
    return Study(title=title, cells=tuple(cells))


def reproduce(
    experiment: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    budget: str | None = None,
    lrga: bool | None = None,
    rank: int | None = None,
    seeds: Iterable[int] | None = None,
    only: str | None = None,
    plain: bool = False,
    output: str | Path = OUTPUT,
    time_limit: float | None = None,
    retry: bool = False,
    progress: bool = True,
    **options: Any,
) -> CampaignTable:
    """Runs an experiment of the paper, or the cells of it that match, and puts the results beside the paper's.

    Args:
        experiment: ``"table1"``, ``"table2"``, ``"table3"``, ``"rank"`` or ``"claims"``.
        dataset: Only this data set.
        model: Only this network.
        budget: Only ``"100K"`` or ``"500K"``.
        lrga: Only rows with LRGA, or only those without.
        rank: Only this rank of the rank ablation.
        seeds: Other seeds than the protocol's four.
        only: One part of ``"claims"`` (:data:`lrga.bench.claims.PARTS`).
        plain: Of Table 3: the same networks on the data set's own features.
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
        experiment, dataset=dataset, model=model, budget=budget, lrga=lrga, rank=rank, seeds=seeds, only=only,
        plain=plain, **options,
    )  # fmt: skip
    return study.run(output, time_limit=time_limit, retry=retry, progress=progress)
