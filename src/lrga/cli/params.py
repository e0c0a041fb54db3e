"""``lrga params``: the size of every network of the paper."""

from typing import Annotated

import typer


def params(
    dataset: Annotated[str | None, typer.Option(help="Only this data set, e.g. ZINC or ogbl-ddi.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model, e.g. gatedgcn.")] = None,
    budget: Annotated[str | None, typer.Option(help="Only this budget: 100k or 500k.")] = None,
    lrga: Annotated[
        bool | None, typer.Option("--lrga/--no-lrga", help="Only networks with LRGA, or only without.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
) -> None:
    """List every network of the paper's Tables 1, 2 and 3 with its exact number of parameters.

    The table also shows the number printed in the paper, if any (none in Table 3).

    Example: [bold]lrga params --dataset zinc --budget 500k --lrga[/]
    """
    from dataclasses import asdict

    from lrga.cli.printing import print_json, stdout
    from lrga.experiments.sheet import Sheet
    from lrga.paper.counts import sizes

    cells = sizes(dataset=dataset, model=model, budget=budget, lrga=lrga)
    if as_json:
        print_json([asdict(cell) for cell in cells])
        return

    labels, entries = [], []
    for cell in cells:
        model = f"LRGA + {cell.model}" if cell.lrga else cell.model
        dataset = cell.dataset.replace(" (random features)", ", random")
        labels.append({"dataset": dataset, "model": model, "budget": cell.budget or ""})
        shape = ["" if value is None else str(value) for value in (cell.hidden, cell.layers, cell.rank)]
        entries.append([*shape, f"{cell.parameters:,}", cell.printed or ""])
    notes = ("d: width, L: layers, κ: rank",)
    stdout().print(Sheet.of("", labels, ("d", "L", "κ", "parameters", "printed"), entries, notes=notes))
