"""``lrga plot``: figures for a paper."""

from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import options as o
from lrga.errors import visible

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Plot figures for a paper, as PNG, SVG or PDF (by file extension), in colour-blind safe colours.\n\n"
    "Example: [bold]lrga plot curves runs -o curves.pdf[/]",
)

Runs = Annotated[list[Path], typer.Argument(help="Run folders, records, or folders of them.", metavar="RUNS...")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=".png, .svg or .pdf")]
Width = Annotated[float, typer.Option(help="Width in inches.")]
Title = Annotated[str, typer.Option(help="Title above the figure; default: none.")]


@app.command()
def curves(
    runs: Runs,
    output: Output = Path("curves.png"),
    show: Annotated[str, typer.Option(help="metric or loss.")] = "metric",
    splits: Annotated[str, typer.Option(help="Splits to plot, of train,val,test.")] = "train,val",
    log_x: Annotated[bool, typer.Option("--log-x", help="Logarithmic x axis.")] = False,
    log_y: Annotated[bool, typer.Option("--log-y", help="Logarithmic y axis.")] = False,
    width: Width = 6.4,
    title: Title = "",
) -> None:
    """Plot learning curves, one panel per data set: [bold]lrga plot curves runs -o curves.pdf[/]"""
    from lrga.report.pictures import plot_curves
    from lrga.report.sources import gather

    chosen = [split.strip() for split in splits.split(",")]
    _say(plot_curves(gather(runs), output, quantity=show, splits=chosen, log_x=log_x, log_y=log_y, width=width,
                     title=title))  # fmt: skip


@app.command()
def rank(runs: Runs, output: Output = Path("rank.png"), width: Width = 6.4, title: Title = "") -> None:
    """Plot the test result over the rank κ: [bold]lrga plot rank campaigns/rank -o rank.pdf[/]"""
    from lrga.report.pictures import plot_rank
    from lrga.report.sources import gather

    _say(plot_rank(gather(runs), output, width=width, title=title))


@app.command()
def attention(
    run: o.RunFolder,
    output: Output = Path("attention.png"),
    graph: Annotated[int, typer.Option(help="Number of the test graph, from 0.", metavar="i")] = 0,
    layer: Annotated[int | None, typer.Option(help="Layer, from 1; default: the last.")] = None,
    head: Annotated[int, typer.Option(help="Head, from 1.")] = 1,
    order: Annotated[
        str, typer.Option(help="Order of nodes: community, degree, prediction, label, number.")
    ] = "community",
    log: Annotated[bool, typer.Option("--log", help="Logarithmic colour scale.")] = False,
    source: o.Input = None,
    split: o.Split = "test",
    best: o.Best = False,
    data_root: o.DataRoot = None,
    width: Width = 6.4,
    title: Title = "",
) -> None:
    """Plot attention matrix and singular values: [bold]lrga plot attention runs/my-run --graph 3 -o figure.pdf[/]"""
    from lrga.experiments.campaign import say_on_stderr
    from lrga.explain.attention import explain
    from lrga.explain.attention_picture import plot_attention

    found = explain(
        run,
        graph=graph,
        source=source,
        split=split,
        which="best" if best else "last",
        root=data_root,
        say=say_on_stderr,
    )
    _say(plot_attention(found, output, layer=layer, head=head, order=order, log=log, width=width, title=title))


def _say(path: Path) -> None:
    print(visible(str(path)))
