"""``lrga bench``: speed on this machine."""

from typing import Annotated

import typer

from lrga.cli import options as o


def bench(
    device: o.Device = "auto",
    width: Annotated[int, typer.Option(help="Channels of the nodes.")] = 64,
    rank: Annotated[int, typer.Option(help="Rank of the attention.")] = 30,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: all free cores.")] = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Compare low-rank attention with other attentions on this machine, in under a minute.

    Values are checked first. Times are medians of forward + backward; memory is
    what is stored between the two passes.

    Examples:
    [bold]lrga bench[/]
    [bold]lrga bench --device cuda --width 256 --rank 50[/]
    """
    from lrga.cli.printing import print_json, stdout
    from lrga.experiments.sheet import Sheet
    from lrga.io.progress import PrintedProgress, silent
    from lrga.speed.measure import measure_speed

    progress = silent if quiet else PrintedProgress()
    result = measure_speed(device, width=width, rank=rank, threads=threads, progress=progress)
    if as_json:
        print_json(result.to_json())
        return
    console = stdout()
    console.print(
        f"{result.device}, {result.threads} threads; width {result.width}, rank {result.rank}, float32", markup=False
    )
    console.print(f"lrga's values are within {result.error:.0e} of the O(n²) definition in float64.\n", markup=False)
    for case in dict.fromkeys(row.case for row in result.rows):
        labels, entries = [], []
        for row in (r for r in result.rows if r.case == case):
            numbers = [(row.forward_ms, 1), (row.both_ms, 1), (row.kept_mb, 1), (result.times_ours(row), 2)]
            shown = ["" if value is None else f"{value:,.{digits}f}" for value, digits in numbers]
            alone = "" if row.alone is None else f"{row.alone:.0e}"
            labels.append({"method": row.method})
            entries.append([*(shown if row.skipped is None else ["–", row.skipped, "", ""]), alone])
        columns = ("fwd ms", "fwd + bwd ms", "saved MB", "time / lrga", "batch effect")
        console.print(Sheet.of(case, labels, columns, entries))
        console.print()
    console.print(
        "saved MB: memory saved for the backward pass. batch effect: difference between the results of the smallest "
        "graph in the batch and by itself; if it exceeds rounding errors, the result depends on the batch."
    )
