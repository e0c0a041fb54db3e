"""``lrga bench``: speed on this machine, and which implementation is taken."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from lrga.cli import options as o

if TYPE_CHECKING:
    from lrga.speed.backends import Choice
    from lrga.speed.measure import SpeedResult


def bench(
    device: o.Device = "auto",
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which implementation each operation takes here, and measure nothing.")
    ] = False,
    dtype: Annotated[
        str, typer.Option(help="Of --explain: float32, bfloat16, float16 or float64. Times are those of float32.")
    ] = "float32",
    width: Annotated[int, typer.Option(help="Channels of the nodes.")] = 64,
    rank: Annotated[int, typer.Option(help="Rank of the attention.")] = 30,
    threads: Annotated[int | None, typer.Option(help="Of the CPU; as many as are free by default.")] = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Measure low-rank attention beside other attentions on this machine, in under a minute.

    Values are checked first; times are medians of forward + backward, memory is
    what stays between the two passes. With --explain it says for every operation
    what computes it here, and why nothing faster does.

    Examples:

    [bold]lrga bench[/]

    [bold]lrga bench --explain --device cuda --dtype bfloat16 --width 256 --rank 50[/]
    """
    from lrga.cli.printing import print_json

    if explain:
        from lrga.speed.backends import explain_choices

        choices = explain_choices(device, dtype=dtype, width=width, rank=rank)
        if as_json:
            print_json([choice.to_json() for choice in choices])
        else:
            _show_choices(choices)
        return

    from lrga.io.progress import show_progress, silent
    from lrga.speed.measure import measure_speed

    with nullcontext(silent) if quiet else show_progress() as progress:
        result = measure_speed(device, width=width, rank=rank, threads=threads, progress=progress)
    if as_json:
        print_json(result.to_json())
    else:
        _show_speed(result)


def _show_choices(choices: "list[Choice]") -> None:
    from rich import box
    from rich.table import Table

    from lrga.cli.printing import stdout

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("operation", "taken", "why nothing faster"):
        table.add_column(heading, no_wrap=heading[0] != "w", overflow="fold")
    for choice in choices:
        table.add_row(choice.operation, choice.taken, choice.why)
    stdout(most=100).print(table, markup=False)


def _show_speed(result: "SpeedResult") -> None:
    from lrga.cli.printing import stdout
    from lrga.experiments.sheet import SlimTable

    console = stdout()
    console.print(
        f"{result.device}, {result.threads} threads; width {result.width}, rank {result.rank}, float32", markup=False
    )
    console.print(f"Our values are within {result.error:.0e} of the O(n²) definition in float64.\n", markup=False)
    for case in dict.fromkeys(row.case for row in result.rows):
        table = SlimTable(title=case)
        table.add_column("method", no_wrap=True)
        for heading in ("forward ms", "both ms", "kept MB", "× ours", "alone"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in (r for r in result.rows if r.case == case):
            numbers = [(row.forward_ms, 1), (row.both_ms, 1), (row.kept_mb, 1), (row.times_ours, 2)]
            shown = ["" if value is None else f"{value:,.{digits}f}" for value, digits in numbers]
            alone = "" if row.alone is None else f"{row.alone:.0e}"
            table.add_row(row.method, *(shown if row.skipped is None else ["–", row.skipped, "", ""]), alone)
        console.print(table)
        console.print()
    console.print(
        "both: forward + backward. kept: memory between the passes. alone: how far the result of the smallest graph is "
        "from its result without the others; where that is more than rounding, it depends on the batch."
    )
