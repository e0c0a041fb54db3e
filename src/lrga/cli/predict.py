"""``lrga predict``: a trained model on new graphs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run of lrga train.", metavar="RUN")],
    source: Annotated[
        str | None,
        typer.Argument(
            help="Graphs: a folder of CSV files, a .pt file, module:factory, or a split of a named set as ZINC/test. "
            "Of a link-prediction run: a file with a pair of nodes on each line.",
            metavar="INPUT",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write; stdout if left out.", metavar="FILE")
    ] = None,
    best: Annotated[
        bool,
        typer.Option(
            "--best", help="The weights that were best in validation, not the last ones; always so for links."
        ),
    ] = False,
    node: Annotated[
        str | None,
        typer.Option("--node", help="Link prediction: list the likeliest new links of this node.", metavar="NODE"),
    ] = None,
    top_k: Annotated[int, typer.Option(help="How many of them.", metavar="K")] = 10,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    batch_size: Annotated[int, typer.Option(help="Graphs at a time.")] = 128,
    data_root: Annotated[Path | None, typer.Option(help="Where data live.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Trust the run folder: a data set may be built in its data root.")
    ] = False,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="Put an apostrophe before names that a spreadsheet would run as a formula (=, +, -, @).",
        ),
    ] = False,
) -> None:
    """Predict with a saved model: CSV with the id of each graph, node or edge, the prediction and the scores.

    Ids and class names are written unchanged. If the data come from others and you will open the file in a spreadsheet,
    add [bold]--escape-formulas[/].

    Examples:

    [bold]lrga predict runs/my-run new_graphs/ -o predictions.csv[/]

    [bold]lrga predict runs/zinc-lrga-gatedgcn-100k-seed41 ZINC/test[/]

    [bold]lrga predict runs/edges-lrga-gcn-seed41 pairs.csv[/]

    [bold]lrga predict runs/ogbl-ddi-lrga-gcn-seed41 --node 17 --top-k 10[/]
    """
    import sys

    from lrga.errors import OptionError, visible
    from lrga.training.predict import Predictor, write_csv, write_csv_file, write_table, write_table_file
    from lrga.training.problems.link_predict import HEADER, LinkScorer
    from lrga.training.runs.folder import RunFolder

    if (source is None) == (node is None):
        got = "neither" if source is None else "both"
        raise OptionError("INPUT, or --node of a link-prediction run", got, "write for example: lrga predict RUN INPUT")
    if node is not None or RunFolder(run).config().link is not None:
        scorer = LinkScorer.of(run, device=device, root=data_root, trust=trust)
        if node is not None:
            number = scorer.number(node)
            rows: Iterable[list[str]] = [
                [node, scorer.name(other), f"{score:.6g}"] for other, score in scorer.top(number, top_k)
            ]
        else:
            rows = scorer.rows(scorer.read(str(source)))
        if output is None:
            write_table(HEADER, rows, sys.stdout, escape_formulas=escape_formulas)
            return
        count = write_table_file(HEADER, rows, output, escape_formulas=escape_formulas)
        print(visible(f"{count:,} pairs scored in {output}"), file=sys.stderr)
        return
    assert source is not None
    predictor = Predictor.of(run, which="best" if best else "last", device=device)
    graphs = predictor.read(source, root=data_root, trust=trust)
    for note in graphs.meta.get("notes", []):
        print(visible(f"data: {note}"), file=sys.stderr)
    if output is None:
        write_csv(predictor, graphs, sys.stdout, batch_size=batch_size, escape_formulas=escape_formulas)
        return
    count = write_csv_file(predictor, graphs, output, batch_size=batch_size, escape_formulas=escape_formulas)
    what = {"graph": "graphs", "node": "nodes", "edge": "edges"}[predictor.task.level]
    print(visible(f"{count:,} {what} of {len(graphs):,} graphs predicted in {output}"), file=sys.stderr)
