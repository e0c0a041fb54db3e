"""The ``lrga`` command: parses, calls, prints; holds no logic.

One module per command under :mod:`lrga.cli`; heavy imports happen inside the commands, so that ``--help`` is instant.
"""

import os
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from io import StringIO, TextIOWrapper
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from lrga.cli import data, plot, reproduce
from lrga.cli.bench import bench
from lrga.cli.compare import compare
from lrga.cli.demo import demo
from lrga.cli.explain import explain
from lrga.cli.options import EXTRA_ARGUMENTS
from lrga.cli.params import params
from lrga.cli.predict import predict
from lrga.cli.report import report
from lrga.cli.sweep import sweep
from lrga.cli.theory import theory
from lrga.cli.train import train
from lrga.cli.wl import wl
from lrga.errors import LRGAError
from lrga.version import __version__

app = typer.Typer(
    name="lrga",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Low-Rank Global Attention for graph networks: train, compare, reproduce the paper, test isomorphism.",
)


def _show_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version  # handled by its callback


app.add_typer(data.app, name="data")
app.add_typer(plot.app, name="plot")
app.add_typer(reproduce.app, name="reproduce")
app.command("params")(params)
app.command("demo")(demo)
app.command("bench")(bench)
app.command("train", context_settings=EXTRA_ARGUMENTS)(train)
app.command("compare", context_settings=EXTRA_ARGUMENTS)(compare)
app.command("sweep", context_settings=EXTRA_ARGUMENTS)(sweep)
app.command("predict")(predict)
app.command("wl")(wl)
app.command("theory")(theory)
app.command("explain")(explain)
app.command("report")(report)


def run() -> None:
    """Entry point: prints one line for errors that a user can fix; exit code 0 only on success."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # prints paths that are not UTF-8
    output: AbstractContextManager[Any] = nullcontext()
    if "RANK" in os.environ:  # under torchrun, only rank 0 prints results; errors of all ranks are shown
        from lrga.distributed.launch.process_group import is_leader

        output = nullcontext() if is_leader() else redirect_stdout(StringIO())
    try:
        with output:
            app()
    except LRGAError as error:
        # no line wrapping: paths and commands in the message can be copied
        Console(stderr=True).print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except MemoryError:
        print("Error: out of memory. To fix: free memory, or use smaller graphs or batches.", file=sys.stderr)
        sys.exit(1)
