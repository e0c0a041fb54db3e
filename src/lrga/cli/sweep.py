"""``lrga sweep``: a grid over any options of training."""

from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import campaigns as c


def sweep(
    context: typer.Context,
    name: c.Name,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="An option of training and its values, separated by commas: --grid rank=0,10,30; repeatable.",
            metavar="NAME=VALUE,…",
        ),
    ] = None,
    paper_grid: Annotated[
        bool,
        typer.Option("--paper-grid", help="What the authors searched on the OGB sets: rank 25,50,100, hidden 150,256."),
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="gcn, gat, gatedgcn, graphsage or gin.", rich_help_panel=c.MODEL)
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Parameters: 100k, 500k or any number.", rich_help_panel=c.MODEL)
    ] = None,
    lrga: Annotated[
        bool | None,
        typer.Option("--lrga/--no-lrga", help="With or without low-rank global attention.", rich_help_panel=c.MODEL),
    ] = None,
    seeds: c.Seeds = None,
    epochs: c.Epochs = None,
    batch_size: c.BatchSize = None,
    preset: c.Preset = None,
    recalibrate_norm: c.RecalibrateNorm = None,
    settings: c.Settings = None,
    data_root: c.DataRoot = None,
    source: c.Source = None,
    sizes: c.Sizes = None,
    data_seed: c.DataSeed = None,
    level: c.Level = None,
    task: c.Task = None,
    split: c.Split = None,
    split_by: c.SplitBy = None,
    directed: c.Directed = None,
    device: c.Device = None,
    output: c.Output = Path("runs"),
    time_limit: c.TimeLimit = None,
    recompute_layers: c.RecomputeLayers = None,
    retry: c.Retry = False,
    dry_run: c.DryRun = False,
    quiet: c.Quiet = False,
    as_json: c.AsJson = False,
) -> None:
    """Train every combination of some options' values, and print them in one table; the best in validation is named.

    Any option of training may be swept. Interrupted, the same command continues.

    Exit codes: 0 all runs finished, 1 a run failed, 2 wrong usage, 3 runs remain (--time-limit reached, or in
    progress in another process), 128 + N stopped by signal N.

    Examples:

    [bold]lrga sweep ZINC --model gatedgcn --grid rank=0,10,30 --grid lr=1e-3,1e-4[/]

    [bold]lrga sweep ogbl-ddi --paper-grid --seeds 0 1 2[/]

    [bold]lrga sweep CLUSTER --grid reading=A,B,C,D --sizes 1500,250,250 --epochs 12 --recalibrate-norm 20[/]
    """
    from lrga.bench.link_protocols import GRID
    from lrga.bench.options import parse_grid, parse_seeds
    from lrga.bench.sweeps import sweep_of

    options = c.training_options(
        settings=settings, data_root=data_root, source=source, model=model, budget=budget, lrga=lrga, max_epochs=epochs,
        batch_size=batch_size, preset=preset, recalibrate_norm=recalibrate_norm, device=device,
        recompute_layers=recompute_layers,
    )  # fmt: skip
    study = sweep_of(
        name,
        (GRID if paper_grid else {}) | parse_grid(grid or []),
        seeds=parse_seeds(seeds, context.args),
        data_options=c.data_options(
            sizes=sizes, seed=data_seed, level=level, task=task, split=split, split_by=split_by, directed=directed
        ),
        **options,
    )
    c.carry_out(
        study, output, time_limit=time_limit, retry=retry, dry_run=dry_run, quiet=quiet, as_json=as_json
    )  # fmt: skip
