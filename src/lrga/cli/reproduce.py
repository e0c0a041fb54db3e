"""``lrga reproduce``: the paper's experiments, beside its numbers."""

from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import campaigns as c

_CELLS, _RECORDS = "Which cells", "From records"


def reproduce(
    context: typer.Context,
    experiment: Annotated[
        str,
        typer.Argument(
            help="table1, table2 (links), table3 (random features), rank (ablation), claims (further ablations); "
            "differences (from existing records: cells that deviate from the paper); preset (the layers of each "
            "network)."
        ),
    ],
    dataset: Annotated[str | None, typer.Option(help="Only this data set.", rich_help_panel=_CELLS)] = None,
    model: Annotated[str | None, typer.Option(help="Only this network.", rich_help_panel=_CELLS)] = None,
    budget: Annotated[str | None, typer.Option(help="Only 100k or 500k.", rich_help_panel=_CELLS)] = None,
    lrga: Annotated[
        bool | None,
        typer.Option("--lrga/--no-lrga", help="Only rows with LRGA, or only plain ones.", rich_help_panel=_CELLS),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(help="Of rank: only this κ, also one of your own; of table2: another κ.", rich_help_panel=_CELLS),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Of claims: heads, features, presets, readings, shapes, edges, norm, draws, walks or epochs.",
            rich_help_panel=_CELLS,
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Of table3: with the set's own features.", rich_help_panel=_CELLS)
    ] = False,
    seeds: c.Seeds = None,
    epochs: c.Epochs = None,
    batch_size: c.BatchSize = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Layers: paper (default; see lrga reproduce preset), or the benchmark's 2022 or 2020 version for all.",
            rich_help_panel=c.PROTOCOL,
        ),
    ] = None,
    recalibrate_norm: c.RecalibrateNorm = None,
    settings: c.Settings = None,
    data_root: c.DataRoot = None,
    source: c.Source = None,
    sizes: c.Sizes = None,
    data_seed: c.DataSeed = None,
    device: c.Device = None,
    output: c.Output = Path("runs"),
    time_limit: c.TimeLimit = None,
    recompute_layers: c.RecomputeLayers = None,
    parallel: Annotated[
        int, typer.Option(help="Processes that train side by side on the device.", rich_help_panel=c.RUN)
    ] = 1,
    retry: c.Retry = False,
    dry_run: c.DryRun = False,
    from_records: Annotated[
        bool,
        typer.Option(
            "--from-records",
            help="Train nothing; the table from the records in these folders (results by default).",
            rich_help_panel=_RECORDS,
        ),
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="For a page.", rich_help_panel=_RECORDS)] = False,
    done: Annotated[
        bool, typer.Option("--done", help="Only cells that have finished runs.", rich_help_panel=_RECORDS)
    ] = False,
    verify: Annotated[
        Path | None,
        typer.Option(
            help="Make the run of this record again (with --epochs N its beginning) and compare.",
            metavar="RECORD",
            rich_help_panel=_RECORDS,
        ),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Trust the record of --verify: import its module:factory and write to its data root.",
            rich_help_panel=_RECORDS,
        ),
    ] = False,
    quiet: c.Quiet = False,
    as_json: c.AsJson = False,
) -> None:
    """Run an experiment of the paper, or some of its cells, and print the results beside the paper's.

    Without further options this is the paper's protocol with its seeds (four; ten in table2); whatever is changed is
    said below the table. Runs that have a record are skipped, interrupted ones continued.

    Exit codes: 0 all runs finished, 1 a run failed, 2 wrong usage, 3 runs remain (--time-limit reached, or in
    progress in another process), 128 + N stopped by signal N.

    Examples:

    [bold]lrga reproduce table1 --dataset ZINC --model gatedgcn --budget 100k[/]

    [bold]lrga reproduce table1 --dataset CLUSTER --seeds 41 --recalibrate-norm 20 --time-limit 60[/]

    [bold]lrga reproduce table2 --dataset ogbl-ddi --seeds 0 1 2 3 4 --source ~/ogbl_ddi[/]

    [bold]lrga reproduce rank --dry-run[/]

    [bold]lrga reproduce table3 --from-records results --markdown[/]

    [bold]lrga reproduce claims --only heads --seeds 41 95[/]

    [bold]lrga reproduce table1 --verify results/table1/RUN.json --epochs 2[/]
    """
    from lrga.bench.options import parse_seeds
    from lrga.bench.protocols import CLAIMS, experiment_name
    from lrga.bench.reproduction import reproduction
    from lrga.cli import records as r

    chosen = r.given(
        dataset=dataset, model=model, budget=budget, lrga=None if lrga is None else str(lrga), rank=rank, only=only,
        plain=plain, seeds=seeds, batch_size=batch_size, preset=preset, recalibrate_norm=recalibrate_norm,
        set=settings, sizes=sizes, data_seed=data_seed, retry=retry, done=done,
    )  # fmt: skip
    if experiment == r.DIFFERENCES:
        more, folders = r.sorted_out(context.args)
        chosen |= r.given(epochs=epochs, verify=verify, dry_run=dry_run)
        r.refuse(
            "differences without filters, from all records",
            [*chosen, *more],
            "leave it out, or ask for a table: lrga reproduce table1 --from-records",
        )
        r.show_differences(folders, markdown=markdown, as_json=as_json)
        return
    if experiment == r.PRESET:
        r.refuse("preset without options", [*chosen, *context.args], "leave it out, or ask for a table")
        r.show_choices(markdown=markdown, as_json=as_json)
        return
    experiment_name(experiment, more=(CLAIMS, r.DIFFERENCES, r.PRESET))
    if verify is not None:
        more = [*chosen, *r.given(from_records=from_records, markdown=markdown), *context.args]
        r.refuse("--verify with places, --epochs and --time-limit", more, "leave it out: the record says what is run")
    elif not from_records:
        more = [*r.given(markdown=markdown, done=done)]
        r.refuse("--from-records beside it", more, "leave it out, or add --from-records")
    if verify is None:
        r.refuse("--verify beside it", r.given(trust=trust), "leave it out, or add --verify RECORD")
    if verify is not None and dry_run:
        r.show_what_verifying_means(verify, epochs=epochs, as_json=as_json)
        return
    if verify is not None:
        code = r.show_rerun(
            verify, as_json=as_json, output=output, epochs=epochs, time_limit=time_limit, progress=not quiet,
            device=device, root=None if data_root is None else str(data_root),
            source=None if source is None else str(source), trust=trust,
        )  # fmt: skip
        raise typer.Exit(code)
    more, folders = r.sorted_out(context.args) if from_records else (context.args, [])
    options = c.training_options(
        settings=settings, elsewhere=("model", "budget", "lrga", "rank"), data_root=data_root, source=source,
        max_epochs=epochs, batch_size=batch_size, preset=preset, recalibrate_norm=recalibrate_norm,
        device=device, recompute_layers=recompute_layers,
    )  # fmt: skip
    parsed = parse_seeds(seeds, more)
    study = reproduction(
        experiment,
        dataset=dataset,
        model=model,
        budget=budget,
        lrga=lrga,
        rank=rank,
        seeds=parsed,
        only=only,
        plain=plain,
        data_options=c.data_options(sizes=sizes, seed=data_seed),
        **options,
    )
    if from_records:
        r.show_tables(r.tables_of(study, folders, done=done, seeds=parsed), markdown=markdown, as_json=as_json)
        return
    c.carry_out(
        study, output, time_limit=time_limit, retry=retry, dry_run=dry_run, quiet=quiet, as_json=as_json,
        parallel=parallel,
    )  # fmt: skip
