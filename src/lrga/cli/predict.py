"""``lrga predict``: a trained model on new graphs."""

from pathlib import Path
from typing import Annotated

import typer


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run of lrga train.", metavar="RUN")],
    source: Annotated[
        str,
        typer.Argument(
            help="Graphs: a folder of CSV files, a .pt file, module:factory, or a split of a named set as ZINC/test.",
            metavar="INPUT",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write; stdout if left out.", metavar="FILE")
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="The weights that were best in validation, not the last ones.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    batch_size: Annotated[int, typer.Option(help="Graphs at a time.")] = 128,
    data_root: Annotated[Path | None, typer.Option(help="Where data live.")] = None,
) -> None:
    """Predict with a saved model: CSV with the id of each graph, node or edge, the prediction and the scores.

    Examples:

    [bold]lrga predict runs/my-run new_graphs/ -o predictions.csv[/]

    [bold]lrga predict runs/zinc-lrga-gatedgcn-100k-seed41 ZINC/test[/]
    """
    import sys

    from lrga.training.predict import Predictor, write_csv, write_csv_file

    predictor = Predictor.of(run, which="best" if best else "last", device=device)
    graphs = predictor.read(source, root=data_root)
    if output is None:
        write_csv(predictor, graphs, sys.stdout, batch_size=batch_size)
        return
    count = write_csv_file(predictor, graphs, output, batch_size=batch_size)
    what = {"graph": "graphs", "node": "nodes", "edge": "edges"}[predictor.task.level]
    print(f"{count:,} {what} of {len(graphs):,} graphs predicted in {output}", file=sys.stderr)
