"""``lrga explain``: what the attention of a trained network attends to."""

from pathlib import Path
from typing import Annotated

import typer

from lrga.cli import options as o


def explain(
    run: o.RunFolder,
    graph: Annotated[int, typer.Option(help="Number of the graph, from 0.", metavar="i")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page to write.", metavar="FILE")] = None,
    source: o.Input = None,
    split: o.Split = "test",
    layers: Annotated[str | None, typer.Option(help="Only these layers, for large graphs: 1,4.")] = None,
    best: o.Best = False,
    device: o.Device = "auto",
    data_root: o.DataRoot = None,
    trust: o.Trust = False,
    as_json: o.AsJson = False,
) -> None:
    """Write an HTML page that shows what each node attends to, in every layer and head.

    The page draws the graph with labels and predictions. Click a node to see its
    row of the attention matrix. The page also shows the whole matrix and its
    singular values.

    Examples:

    [bold]lrga explain runs/cluster-lrga-gcn-100k-seed41 --graph 3 -o attention.html[/]

    [bold]lrga explain runs/my-run --input new_graphs/ --graph 0[/]
    """
    from lrga.cli.printing import facts_table, print_json, stdout
    from lrga.experiments.campaign import say_on_stderr
    from lrga.explain.attention import parse_layers
    from lrga.explain.explorer import write_explorer

    page = output or Path(f"{run.resolve().name}-graph{graph}.html")
    found = write_explorer(
        run, page, graph=graph, source=source, split=split, layers=parse_layers(layers),
        which="best" if best else "last", device=device, root=data_root, say=say_on_stderr, trust=trust,
    )  # fmt: skip
    if as_json:
        facts = {
            "page": str(page), "nodes": found.num_nodes, "edges": len(found.edges),
            "layers": [
                {"name": layer.name, "heads": layer.heads, "rank": layer.rank,
                 "spectrum": [layer.spectrum(head).tolist() for head in range(layer.heads)]}
                for layer in found.layers
            ],
        }  # fmt: skip
        print_json(facts)
        return
    shape = ", ".join(
        f"{layer.name} (κ {layer.rank}, {layer.heads} head{'s' * (layer.heads != 1)})" for layer in found.layers
    )
    rows = {
        "page": f"{page} ({page.stat().st_size / 1e6:.1f} MB)",
        "graph": f"{found.graph} of {found.dataset}: {found.num_nodes:,} nodes, {len(found.edges):,} edges",
        "attention": shape,
    }
    stdout().print(facts_table(rows))
