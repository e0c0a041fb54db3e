"""``lrga predict``: a trained model on new graphs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from lrga.cli import options as o


def predict(
    run: o.RunFolder,
    source: Annotated[
        str | None,
        typer.Argument(
            help="Graphs: a folder of CSV files, a .pt file, module:factory, or a split of a data set: ZINC/test. "
            "For link prediction: a file with a pair of nodes on each line.",
            metavar="INPUT",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write; default: stdout.", metavar="FILE")
    ] = None,
    best: o.Best = False,
    node: Annotated[
        str | None,
        typer.Option("--node", help="Link prediction: list the most likely new links of this node.", metavar="NODE"),
    ] = None,
    top_k: Annotated[int, typer.Option(help="Number of links to list.", metavar="K")] = 10,
    device: o.Device = "auto",
    batch_size: Annotated[int, typer.Option(help="Graphs per batch.")] = 128,
    data_root: o.DataRoot = None,
    trust: o.Trust = False,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="Put an apostrophe before names that a spreadsheet would evaluate as a formula (=, +, -, @).",
        ),
    ] = False,
) -> None:
    """Predict with a saved model; writes CSV with the id of each graph, node or edge, the prediction and scores.

    Links are always scored with the weights of the best validation result.
    Ids and class names are written unchanged. If the data come from others and
    you will open the file in a spreadsheet, add [bold]--escape-formulas[/].

    Examples:

    [bold]lrga predict runs/my-run new_graphs/ -o predictions.csv[/]

    [bold]lrga predict runs/zinc-lrga-gatedgcn-100k-seed41 ZINC/test[/]

    [bold]lrga predict runs/edges-lrga-gcn-seed41 pairs.csv[/]

    [bold]lrga predict runs/ogbl-ddi-lrga-gcn-seed41 --node 17 --top-k 10[/]
    """
    import sys

    from lrga.errors import OptionError, visible
    from lrga.training.predict import LinkScorer, Predictor, write_table
    from lrga.training.runs.folder import RunFolder

    if (source is None) == (node is None):
        got = "neither" if source is None else "both"
        raise OptionError("INPUT, or --node of a link-prediction run", got, "write for example: lrga predict RUN INPUT")
    rows: Iterable[list[Any]]
    if node is not None or RunFolder(run).model_facts()[1].level == "link":
        scorer = LinkScorer.of(run, device=device, root=data_root, trust=trust)
        header, done = scorer.header(), "scores for {count:,} pairs written to {output}"
        if node is not None:
            best_pairs = scorer.top(scorer.number(node), top_k)
            rows = [[node, scorer.name(other), f"{score:.6g}"] for other, score in best_pairs]
        else:
            rows = scorer.rows(scorer.read(str(source)))
    else:
        assert source is not None
        predictor = Predictor.of(run, which="best" if best else "last", device=device)
        graphs = predictor.read(source, root=data_root, trust=trust)
        for note in graphs.meta.get("notes", []):
            print(visible(f"data: {note}"), file=sys.stderr)
        header, rows = predictor.header(), predictor.rows(graphs, batch_size=batch_size)
        what = {"graph": "graphs", "node": "nodes", "edge": "edges"}[predictor.task.level]
        where = f" of {len(graphs):,} graph{'s' * (len(graphs) != 1)}" if what != "graphs" else ""
        done = f"predictions for {{count:,}} {what}{where} written to {{output}}"
    count = write_table(header, rows, sys.stdout if output is None else output, escape_formulas=escape_formulas)
    if output is not None:
        print(visible(done.format(count=count, output=output)), file=sys.stderr)
