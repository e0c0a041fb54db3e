"""``lrga demo``: a first comparison in a few minutes."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import options as o


def demo(
    output: Annotated[Path, typer.Option(help="Folder for data, runs, records and figure.")] = Path("demo"),
    epochs: Annotated[int | None, typer.Option(help="Epochs per run; default 12.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Graphs in train,val,test; default 1500,250,250.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: all free cores.")] = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Train GCN with and without LRGA on a small generated CLUSTER data set, in a few minutes on a CPU.

    Prints both results next to the paper's and plots the learning curves (needs
    matplotlib). If interrupted, run the same command to resume.

    Example: [bold]lrga demo[/]
    """
    from lrga.cli.printing import print_json, show
    from lrga.experiments.study import CampaignInterrupted
    from lrga.report.demo import run_demo

    graphs = None if sizes is None else o.parse_sizes(sizes)
    try:
        table, picture = run_demo(output, sizes=graphs, epochs=epochs, threads=threads, progress=not quiet)
    except CampaignInterrupted as stop:
        show(stop.table, as_json=as_json)
        print(stop, file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    if as_json:
        print_json(table.to_json() | {"picture": None if picture is None else str(picture)})
    else:
        show(table)
        print(f"Curves: {picture or 'not plotted, needs matplotlib: pip install lrga[plot]'}")
    if table.failed:
        raise typer.Exit(1)
