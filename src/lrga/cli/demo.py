"""``lrga demo``: the first minutes."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import options as o


def demo(
    output: Annotated[Path, typer.Option(help="Folder of data, runs, records and picture.")] = Path("demo"),
    epochs: Annotated[int | None, typer.Option(help="Of each training, 12 by default.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Graphs of train,val,test, 1500,250,250 by default.")] = None,
    threads: Annotated[int | None, typer.Option(help="Of the CPU; as many as are free by default.")] = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """See in a few minutes what LRGA adds: a small CLUSTER is made, GCN trained with and without LRGA on the CPU.

    Prints both results beside the paper's and draws the learning curves (with matplotlib). Interrupted, the same
    command continues.

    Example: [bold]lrga demo[/]
    """
    from lrga.cli.printing import print_json, show
    from lrga.data.datasets.source import parse_sizes
    from lrga.experiments.study import CampaignInterrupted
    from lrga.report.demo import run_demo

    graphs = None if sizes is None else parse_sizes(sizes)
    try:
        result = run_demo(output, sizes=graphs, epochs=epochs, threads=threads, progress=not quiet)
    except CampaignInterrupted as stop:
        show(stop.table, as_json=as_json)
        print(stop, file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    if as_json:
        print_json(result.table.to_json() | {"picture": None if result.picture is None else str(result.picture)})
    else:
        show(result.table)
        print(f"Curves: {result.picture or 'not drawn without matplotlib, pip install lrga[plot]'}")
    if result.table.failed:
        raise typer.Exit(1)
