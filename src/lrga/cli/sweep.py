"""``lrga sweep``: a grid over any options of training."""

from typing import Annotated, Any

import typer

from lrga.cli import options as o


@o.with_options(o.MODEL, o.PROTOCOL, o.DATA, o.RUN, o.CAMPAIGN, o.RARE)
def sweep(
    context: typer.Context,
    name: o.Name,
    given: dict[str, Any],
    grid: Annotated[
        list[str] | None,
        typer.Option(help="Option and values: rank=0,10,30; repeatable.", metavar="NAME=VALUE,…"),
    ] = None,
    paper_grid: Annotated[
        bool, typer.Option("--paper-grid", help="The authors' grid of ranks and widths for OGB data.")
    ] = False,
) -> None:
    """Train every combination of option values and print one table.

    Any training option can be swept. The row with the best validation result is
    named below the table. If interrupted, run the same command to resume.

    Exit codes: 0 all runs finished, 1 a run failed, 2 wrong usage, 3 runs remain
    (--time-limit or SIGUSR1, or in progress in another process), 128 + N stopped
    by signal N.

    Examples:
    [bold]lrga sweep ZINC --model gatedgcn --grid rank=0,10,30 --grid lr=1e-3,1e-4[/]
    [bold]lrga sweep ogbl-ddi --paper-grid --seeds 0 1 2[/]
    [bold]lrga sweep CLUSTER --grid wiring=authors-code,norm-first --sizes 1500,250,250[/]
    """
    from lrga.experiments.options import parse_grid, parse_seeds
    from lrga.experiments.sweeps import sweep_of
    from lrga.paper.link_protocols import GRID

    study = sweep_of(
        name,
        (GRID if paper_grid else {}) | parse_grid(grid or []),
        seeds=parse_seeds(given["seeds"], context.args),
        data_options=o.data_options(given),
        reference=o.reference(given) if given["published"] is not None else None,
        **o.training_options(given),
    )
    o.carry_out(study, given)
