"""``lrga plot``: figures for a paper."""

from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import options as o
from lrga.errors import visible

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Figures for a paper, as PNG, SVG or PDF by the ending of the file. Colours are safe for the colour-blind.",
)

Runs = Annotated[list[Path], typer.Argument(help="Run folders, records, or folders of them.", metavar="RUNS...")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=".png, .svg or .pdf")]
Width = Annotated[float, typer.Option(help="Inches; 6.4 is a text column.")]
Title = Annotated[str, typer.Option(help="Above the figure; none by default, as papers have captions.")]


@app.command()
def curves(
    runs: Runs,
    output: Output = Path("curves.png"),
    show: Annotated[str, typer.Option(help="metric or loss.")] = "metric",
    splits: Annotated[str, typer.Option(help="Among train,val,test.")] = "train,val",
    log_x: Annotated[bool, typer.Option("--log-x", help="Logarithmic epochs.")] = False,
    log_y: Annotated[bool, typer.Option("--log-y", help="Logarithmic values.")] = False,
    width: Width = 6.4,
    title: Title = "",
) -> None:
    """Learning curves, a panel for each data set: [bold]lrga plot curves runs -o curves.pdf[/]"""
    from lrga.report.pictures import plot_curves
    from lrga.report.sources import gather

    chosen = [split.strip() for split in splits.split(",")]
    _say(plot_curves(gather(runs), output, quantity=show, splits=chosen, log_x=log_x, log_y=log_y, width=width,
                     title=title))  # fmt: skip


@app.command()
def rank(runs: Runs, output: Output = Path("rank.png"), width: Width = 6.4, title: Title = "") -> None:
    """The test result over the rank κ: [bold]lrga plot rank campaigns/rank -o rank.pdf[/]"""
    from lrga.report.pictures import plot_rank
    from lrga.report.sources import gather

    _say(plot_rank(gather(runs), output, width=width, title=title))


@app.command()
def attention(
    run: o.RunFolder,
    output: Output = Path("attention.png"),
    graph: Annotated[int, typer.Option(help="Number of the test graph, from 0.", metavar="i")] = 0,
    layer: Annotated[int | None, typer.Option(help="From 1; the last by default.")] = None,
    head: Annotated[int, typer.Option(help="From 1.")] = 1,
    order: Annotated[str, typer.Option(help="community, degree, prediction, label or number.")] = "community",
    log: Annotated[bool, typer.Option("--log", help="Colours by the logarithm.")] = False,
    source: o.Input = None,
    split: o.Split = "test",
    best: o.Best = False,
    data_root: o.DataRoot = None,
    width: Width = 6.4,
    title: Title = "",
) -> None:
    """The attention matrix and its rank spectrum: [bold]lrga plot attention runs/my-run --graph 3 -o figure.pdf[/]"""
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
