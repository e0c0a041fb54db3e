"""``lrga reproduce``: the paper's experiments, beside its numbers."""

from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import campaigns as c

_CELLS = "Which cells"


def reproduce(
    context: typer.Context,
    experiment: Annotated[
        str, typer.Argument(help="table1, table2 (links), table3 (random features) or rank (ablation).")
    ],
    dataset: Annotated[str | None, typer.Option(help="Only this data set.", rich_help_panel=_CELLS)] = None,
    model: Annotated[str | None, typer.Option(help="Only this network.", rich_help_panel=_CELLS)] = None,
    budget: Annotated[str | None, typer.Option(help="Only 100k or 500k.", rich_help_panel=_CELLS)] = None,
    lrga: Annotated[
        bool | None,
        typer.Option("--lrga/--no-lrga", help="Only rows with LRGA, or only plain ones.", rich_help_panel=_CELLS),
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank of the ablation.", rich_help_panel=_CELLS)] = None,
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
    device: c.Device = None,
    output: c.Output = Path("runs"),
    time_limit: c.TimeLimit = None,
    retry: c.Retry = False,
    dry_run: c.DryRun = False,
    estimate: Annotated[
        Path | None,
        typer.Option(
            help="Only estimate the hours, cell by cell, from the records of runs in this folder.",
            metavar="RECORDS",
            rich_help_panel=c.RUN,
        ),
    ] = None,
    quiet: c.Quiet = False,
    as_json: c.AsJson = False,
) -> None:
    """Run an experiment of the paper, or some of its cells, and print the results beside the paper's.

    Without further options this is the paper's protocol with its seeds (four; ten in table2); whatever is changed is
    said below the table. Runs that have a record are skipped, interrupted ones continued.

    Examples:

    [bold]lrga reproduce table1 --dataset ZINC --model gatedgcn --budget 100k[/]

    [bold]lrga reproduce table1 --dataset CLUSTER --seeds 41 --recalibrate-norm 20 --time-limit 60[/]

    [bold]lrga reproduce table2 --dataset ogbl-ddi --seeds 0 1 2 3 4 --source ~/ogbl_ddi[/]

    [bold]lrga reproduce rank --dry-run[/]

    [bold]lrga reproduce table1 --estimate results/table1[/]
    """
    from lrga.bench.options import parse_seeds
    from lrga.bench.reproduction import reproduction

    options = c.training_options(
        settings=settings, elsewhere=("model", "budget", "lrga", "rank"), data_root=data_root, source=source,
        max_epochs=epochs, batch_size=batch_size, preset=preset, recalibrate_norm=recalibrate_norm,
        device=device,
    )  # fmt: skip
    study = reproduction(
        experiment,
        dataset=dataset,
        model=model,
        budget=budget,
        lrga=lrga,
        rank=rank,
        seeds=parse_seeds(seeds, context.args),
        data_options=c.data_options(sizes=sizes, seed=data_seed),
        **options,
    )
    if estimate is not None:
        from lrga.bench.estimate import estimate_hours, find_records

        c.show(estimate_hours(study.cells, find_records(estimate)), as_json=as_json)
        return
    c.carry_out(
        study, output, time_limit=time_limit, retry=retry, dry_run=dry_run, quiet=quiet, as_json=as_json
    )  # fmt: skip
