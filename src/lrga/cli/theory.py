"""``lrga theory``: the paper's statements, checked numerically."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lrga.cli import options as o


def theory(
    statements: Annotated[
        list[str] | None, typer.Argument(help="Keys of the statements to check; all by default.", metavar="[KEYS]")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the plots and tour.json.", metavar="DIR")] = Path(
        "lrga-theory"
    ),
    train: Annotated[
        bool,
        typer.Option("--train", help="Train the experiments again (minutes) instead of reading their records."),
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Check the paper's statements numerically, in under a minute.

    Results that need training are read from records in the package; with
    [bold]--train[/] these experiments run again and write records to DIR/records. The
    exit code is 1 if a statement does not hold within its tolerance.

    Examples:
    [bold]lrga theory[/]
    [bold]lrga theory alignment multi-head --output figures[/]
    [bold]lrga theory learned-head --train[/]
    """
    from lrga.cli.clone import from_clone
    from lrga.cli.printing import announced, print_json
    from lrga.theory.statements import STATEMENTS, choose
    from lrga.theory.tour import Statement, run_tour, write_tour
    from lrga.theory.trained import trained_statements

    with announced() as say:
        if train:
            experiments = from_clone("theory.experiments", "lrga theory --train")
            trained = experiments.fresh_statements(output / "records", say=say)
        else:
            trained = trained_statements()
        chosen = choose(statements or [], (*STATEMENTS, *trained))

        def announce(statement: Statement) -> None:
            say(f"{chosen.index(statement) + 1}/{len(chosen)} {statement.place}: {statement.key}")

        report = write_tour(run_tour(chosen, on_start=announce), output)
    if as_json:
        print_json(report)
    else:
        _print(report, output)
    if not report["holds"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any], output: Path) -> None:
    from rich.markup import escape

    from lrga.cli.printing import facts_table, stdout

    console = stdout()
    for row in report["statements"]:
        mark = "[green]holds[/]" if row["holds"] else "[bold red]FAILS[/]"
        console.print(f"[bold]{row['place']}[/] ({row['key']}) {mark}, {row['seconds']:.1f} s")
        console.print(facts_table({"  claim": row["claim"], "  measured": row["figure"]}))
    plots = [row["plot"] for row in report["statements"] if row["plot"]]
    if report["plots_skipped"]:
        console.print(f"No plots: {escape(report['plots_skipped'])}")
    console.print(f"{len(plots)} plots and tour.json in {escape(str(output))}")
