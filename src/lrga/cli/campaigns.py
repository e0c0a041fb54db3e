"""What the commands that run campaigns share: their options, and how they print."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lrga.bench.planning import CampaignPlan
    from lrga.bench.study import Study
    from lrga.bench.tables import CampaignTable

MODEL, PROTOCOL, DATA, RUN = "Model", "Protocol", "Data", "Runs"
INCOMPLETE = 3  # exit code where runs are left to be made: the time limit was reached, or another process makes them

Name = Annotated[
    str,
    typer.Argument(
        help="A data set (lrga data ls lists them), such as ZINC, Cora or ogbl-ddi; or your own: a folder of CSV "
        "files, a .pt file, module:factory, or an edge list with --task link."
    ),
]
Seeds = Annotated[
    list[str] | None, typer.Option(help="Seeds, one run each: --seeds 41 95, or 41,95.", rich_help_panel=PROTOCOL)
]
Epochs = Annotated[int | None, typer.Option(help="At most so many epochs a run.", rich_help_panel=PROTOCOL)]
BatchSize = Annotated[int | None, typer.Option(help="Graphs in a batch.", rich_help_panel=PROTOCOL)]
Preset = Annotated[
    str | None, typer.Option(help="Generation of the benchmark's layers: 2022 or 2020.", rich_help_panel=PROTOCOL)
]
RecalibrateNorm = Annotated[
    int | None,
    typer.Option(
        help="Average BatchNorm statistics afresh over so many batches before each evaluation (20 on CLUSTER).",
        rich_help_panel=PROTOCOL,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Any option of training: --set dropout=0.1; repeatable.", metavar="NAME=VALUE",
        rich_help_panel=PROTOCOL,
    ),
]  # fmt: skip
DataRoot = Annotated[Path | None, typer.Option("--data-root", help="Where data live.", rich_help_panel=DATA)]
Source = Annotated[
    Path | None, typer.Option(help="Folder of raw or prepared files of a named set.", rich_help_panel=DATA)
]
Sizes = Annotated[str | None, typer.Option(help="Graphs of train,val,test: 1500,250,250.", rich_help_panel=DATA)]
DataSeed = Annotated[
    int | None, typer.Option(help="Of a generated set, or of the split of your own data.", rich_help_panel=DATA)
]
Level = Annotated[
    str | None, typer.Option(help="Own data: predict for each node, edge or graph.", rich_help_panel=DATA)
]
Task = Annotated[str | None, typer.Option(help="Own data: classification, regression or link.", rich_help_panel=DATA)]
Split = Annotated[
    str | None,
    typer.Option(
        help="Own data: fractions, 0.8,0.1,0.1. A named set: the published split's number.", rich_help_panel=DATA
    ),
]
SplitBy = Annotated[
    str | None, typer.Option(help="Edge list: random, time or given (column split).", rich_help_panel=DATA)
]
Directed = Annotated[
    bool | None, typer.Option("--directed", help="Edge list: a,b is another edge than b,a.", rich_help_panel=DATA)
]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:1.", rich_help_panel=RUN)]
Output = Annotated[
    Path, typer.Option(help="Run folders and records; what is done there is not done again.", rich_help_panel=RUN)
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        help="Stop cleanly after so many minutes; the same command continues.", metavar="MINUTES", rich_help_panel=RUN
    ),
]
RecomputeLayers = Annotated[
    bool | None,
    typer.Option("--recompute-layers", help="Activation checkpointing: less memory, more time.", rich_help_panel=RUN),
]
Retry = Annotated[bool, typer.Option("--retry", help="Make runs that diverged again.", rich_help_panel=RUN)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only list what would run, with parameters and batches.", rich_help_panel=RUN)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.", rich_help_panel=RUN)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=RUN)]

# `--seeds 41 95` leaves 95 over; parse_seeds takes it up, and whatever else is left over is refused.
EXTRA_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": False}


def training_options(
    *,
    settings: Sequence[str] | None,
    data_root: Path | None,
    source: Path | None,
    elsewhere: Sequence[str] = (),
    **named: Any,
) -> dict[str, Any]:
    """Options of training: those with names of their own and those given by ``--set``, but none of ``elsewhere``."""
    from lrga.bench.options import merge_settings

    places = {"root": data_root, "source": source}
    fixed = named | {key: None if path is None else str(path) for key, path in places.items()}
    return merge_settings(fixed, settings or (), elsewhere=("name", "seed", *elsewhere))


def data_options(
    *,
    sizes: str | None,
    seed: int | None,
    level: str | None = None,
    task: str | None = None,
    split: str | None = None,
    split_by: str | None = None,
    directed: bool | None = None,
) -> dict[str, Any]:
    """Options of the data set, as typed."""
    from lrga.data.datasets.place import parse_sizes
    from lrga.training.options import parse_split

    return {
        "sizes": None if sizes is None else parse_sizes(sizes),
        "seed": seed,
        "level": level,
        "task": task,
        "split": None if split is None else parse_split(split),
        "split_by": split_by,
        "directed": directed,
    }


def carry_out(
    study: "Study",
    output: Path,
    *,
    time_limit: float | None,
    retry: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    parallel: int = 1,
) -> None:
    """Lists or runs a campaign and prints it; exit code 1 where a run failed, else 3 where runs are left."""
    from lrga.bench.study import CampaignInterrupted

    if dry_run:
        show(study.plan(output), as_json=as_json)
        return
    try:
        table = study.run(output, time_limit=time_limit, retry=retry, progress=not quiet, parallel=parallel)
    except CampaignInterrupted as stop:
        show(stop.table, as_json=as_json)
        print(stop, file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    show(table, as_json=as_json)
    if table.failed:
        raise typer.Exit(1)
    if not table.complete:
        raise typer.Exit(INCOMPLETE)


def show(result: "CampaignTable | CampaignPlan", *, as_json: bool) -> None:
    """Prints a table with its notes, or JSON."""
    from lrga.cli.tables import stdout

    if as_json:
        print(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
        return
    console = stdout()
    console.width = min(console.width, 100)
    console.print(result.to_rich())
    for note in result.notes:
        console.print(note, markup=False)
