"""``lrga wl``: which Weisfeiler–Lehman tests distinguish graphs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lrga.cli import options as o


def wl(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="graph6 or sparse6 (one graph per line), GraphML, GML, GEXF, Pajek, LEDA, edge or adjacency lists.",
            metavar="FILES",
        ),
    ],
    test: Annotated[str, typer.Option("--test", help="1-wl, 2-wl, 2-fwl, or all.", metavar="TEST")] = "all",
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="graph6, edgelist, graphml, sparse6, gml, gexf, pajek, leda, adjlist or multiline_adjlist; default: "
            "by file extension.",
            metavar="FORMAT",
        ),
    ] = "auto",
    directed: Annotated[bool, typer.Option("--directed", help="Edge and adjacency lists are directed.")] = False,
    node_label: Annotated[str, typer.Option(help="Attribute with node labels, or none.", metavar="NAME")] = "auto",
    edge_label: Annotated[str, typer.Option(help="Attribute with edge labels, or none.", metavar="NAME")] = "auto",
    device: Annotated[str, typer.Option("--device", help="Device for 2-FWL: cpu or cuda.", metavar="DEVICE")] = "cpu",
    as_json: o.AsJson = False,
) -> None:
    """Test which Weisfeiler–Lehman tests distinguish graphs: a verdict for two graphs, a matrix for more.

    A line of an edge list is an edge, "a b" or "a b label", or an isolated node.
    A first line with column names ("source target") is a header.

    Examples:
    [bold]lrga wl hexagon.g6 triangles.g6[/]
    [bold]lrga wl a.txt b.txt --test 2-fwl[/]
    [bold]lrga wl family.g6 --json[/]
    """
    from lrga.cli.printing import announced, print_json
    from lrga.theory.wl.verdicts import chosen_tests, read_named_graphs, verdict_report

    tests = chosen_tests(test)
    graphs = read_named_graphs(
        files,
        format=format,
        directed=directed,
        node_attribute=None if node_label == "none" else node_label,
        edge_attribute=None if edge_label == "none" else edge_label,
    )
    with announced(lines=max(graph.num_nodes for _, graph in graphs) >= 500) as say:  # these may take seconds
        report = verdict_report(
            graphs, tests, device=device, on_start=lambda name: say(f"{name} on {len(graphs)} graphs")
        )
    if as_json:
        print_json(report)
        return
    _print(report)


def _print(report: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from lrga.cli.printing import safe_console

    console = safe_console()
    for number, graph in enumerate(report["graphs"]):
        kind = "arcs" if graph["directed"] else "edges"
        console.print(
            f"{number}  {escape(graph['name'])}: {graph['nodes']} nodes, {graph['edges']} {kind}", highlight=False
        )
    if len(report["graphs"]) == 2:
        table = Table("test", "distinguished", "rounds")
        for test, verdict in report["tests"].items():
            table.add_row(test, "yes" if verdict["distinguished"] else "no", str(verdict["rounds"]))
        console.print(table)
        return
    for test, verdict in report["tests"].items():
        count = len(verdict["classes"])
        console.print(f"\n{test}: {count} class{'es' * (count != 1)} (≠ distinguished, = not)")
        width = len(str(len(report["graphs"]) - 1))
        console.print(" " * width, *(f"{i:>{width}}" for i in range(len(verdict["matrix"]))), soft_wrap=True)
        for i, row in enumerate(verdict["matrix"]):
            cells = (f"{'≠' if apart else '=':>{width}}" for apart in row)
            console.print(f"{i:>{width}}", *cells, soft_wrap=True)
