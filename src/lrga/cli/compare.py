"""``lrga compare``: the same network with and without LRGA."""

from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import campaigns as c


def compare(
    context: typer.Context,
    name: c.Name,
    model: Annotated[str, typer.Option(help="gcn, gat, gatedgcn, graphsage or gin.", rich_help_panel=c.MODEL)] = "gcn",
    budget: Annotated[
        str, typer.Option(help="Parameters: 100k, 500k or any number.", rich_help_panel=c.MODEL)
    ] = "100k",
    rank: Annotated[int | None, typer.Option(help="The paper's κ, 30 by default.", rich_help_panel=c.MODEL)] = None,
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
    """Train the same network with and without LRGA at equal budget, and print both in one table.

    On a data set of the paper this is its protocol, and its numbers stand beside ours. Interrupted, the same command
    continues.

    Exit codes: 0 all runs finished, 1 a run failed, 2 wrong usage, 3 runs remain (--time-limit reached, or in
    progress in another process), 128 + N stopped by signal N.

    Examples:

    [bold]lrga compare CLUSTER --sizes 1500,250,250 --epochs 12 --batch-size 32 --recalibrate-norm 20[/]

    [bold]lrga compare ZINC --model gatedgcn --budget 500k --seeds 41 95 12 35[/]

    [bold]lrga compare my_graphs/ --model gin --budget 50k[/]
    """
    from lrga.bench.comparison import comparison
    from lrga.bench.options import parse_seeds

    options = c.training_options(
        settings=settings, elsewhere=("model", "budget", "lrga"), data_root=data_root, source=source,
        rank=rank, max_epochs=epochs, batch_size=batch_size, preset=preset, recalibrate_norm=recalibrate_norm,
        device=device, recompute_layers=recompute_layers,
    )  # fmt: skip
    study = comparison(
        name,
        model,
        budget=budget,
        seeds=parse_seeds(seeds, context.args),
        data_options=c.data_options(
            sizes=sizes, seed=data_seed, level=level, task=task, split=split, split_by=split_by, directed=directed
        ),
        **options,
    )
    c.carry_out(
        study, output, time_limit=time_limit, retry=retry, dry_run=dry_run, quiet=quiet, as_json=as_json
    )  # fmt: skip
