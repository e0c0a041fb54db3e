"""``lrga report``: one HTML page about runs."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run folders, records (.json), benchmark records, or folders of them; by default runs or, in a clone "
            "without it, reproduction/results.",
            metavar="[RUNS]...",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.", metavar="FILE")] = Path(
        "report.html"
    ),
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Runs of lrga",
    published: Annotated[
        Path | None, typer.Option(help="Published numbers (TOML or JSON) instead of the paper's.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs that were found as JSON.")] = False,
) -> None:
    """Write one HTML page about runs: results and published numbers, curves, speed, configurations, failures.

    The page is a single file and needs no network connection. Runs that cannot be read are listed in it.

    Examples:

    [bold]lrga report runs -o page.html[/]

    [bold]lrga report runs/zinc-lrga-gatedgcn-100k-seed41 -o page.html[/]
    """
    from lrga.cli.clone import folders_of_runs
    from lrga.cli.options import reference
    from lrga.cli.printing import facts_table, print_json, stdout
    from lrga.experiments.campaign import say_on_stderr
    from lrga.report.page import write_report

    found = write_report(
        folders_of_runs(runs), output, title=title, reference=reference({"published": published}), say=say_on_stderr
    )
    size = output.stat().st_size
    if as_json:
        facts = {
            "page": str(output), "bytes": size, "runs": len(found.runs), "benchmarks": len(found.others),
            "failed": [run.name for run in found.failed], "unfinished": [run.name for run in found.unfinished],
            "unreadable": [{"place": p.place, "reason": p.reason} for p in found.problems],
        }  # fmt: skip
        print_json(facts)
        return
    counts = {
        "benchmarks": len(found.others), "failed": len(found.failed), "unfinished": len(found.unfinished),
        "unreadable": len(found.problems),
    }  # fmt: skip
    rows = {"page": f"{output} ({size / 1e6:.1f} MB)", "runs": str(len(found.runs))}
    stdout().print(facts_table(rows | {name: str(count) for name, count in counts.items() if count}))
