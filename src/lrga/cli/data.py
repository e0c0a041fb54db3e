"""``lrga data``: lists, builds and verifies data sets."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from lrga.cli import options as o
from lrga.io.limits import show_bytes

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="List, build and verify data sets.\n\nExample: [bold]lrga data ls[/]",
)

Name = Annotated[str, typer.Argument(help="Data set, such as ZINC, Cora or ogbl-ddi; lrga data ls lists them.")]
Root = Annotated[
    Path | None,
    typer.Option("--data-root", help="Folder of the data sets; default: LRGA_DATA, else ~/.cache/lrga.", metavar="DIR"),
]


@app.command("ls")
def list_datasets(
    data_root: Root = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """List all data sets: task, sizes, statistics, licence, origin, and whether they are built.

    Example: [bold]lrga data ls[/]
    """
    from lrga.cli.printing import print_json, stdout
    from lrga.data.datasets.building import overview
    from lrga.experiments.sheet import Sheet

    rows = overview(data_root)
    if as_json:
        print_json(rows)
        return
    if markdown:
        print("| name | task | splits | nodes | edges | node features | metric | licence |")
        print("|---|---|---:|---:|---:|---|---|---|")
        for row in rows:
            sizes = " / ".join(f"{count:,}" for count in row["splits"].values())
            what = row["task"] + (f", {row['classes']} classes" if row["classes"] else "")
            counts = f"{row['mean_nodes']:,.12g} | {row['mean_edges']:,.12g}"
            print(f"| {row['name']} | {what} | {sizes} | {counts} | {row['node_features']} | {row['metric']} |", end="")
            print(f" {row['licence']} |")
        return
    console = stdout(most=100)
    # Names and numbers are never cut: a value that does not fit is printed above the rows that share it.
    for one_graph, links in ((False, False), (True, False), (True, True)):
        headings = ("one graph" if one_graph else "name", "task", "train/val/test", "from", "licence")
        labels, entries = [], []
        for row in rows:
            if (row["one_graph"], row["task"].startswith("link")) == (one_graph, links):
                splits = "/".join(f"{count:,}" for count in row["splits"].values())
                texts = row["name"], row["task"].split()[0], splits, row["obtained"], row["licence"]
                labels.append(dict(zip(headings, texts, strict=True)))
                mean_nodes = f"{row['mean_nodes']:,.{0 if one_graph else 1}f}"
                entries.append([mean_nodes, f"{row['mean_edges']:,.0f}", _on_disk(row)])
        console.print(Sheet.of("", labels, ("nodes", "edges", "on disk"), entries))
        console.print()
    console.print(
        "nodes, edges: published means per graph; edges are directed. Splits of one graph are numbers of nodes or, "
        "for links, edges. *: only a variant is built."
    )
    for row in rows:
        for variant in row["variants"]:
            if variant["problem"] is not None:
                at = "" if data_root is None else f" --data-root {shlex.quote(str(data_root))}"
                text = f"Damaged: {variant['folder']}. To fix: lrga data verify {row['name']}{at}"
                console.print(text, soft_wrap=True, markup=False)
    console.print(f"Data root: {rows[0]['data_root']}", soft_wrap=True)
    console.print("Citations, terms, origin of every file: lrga data info NAME. Build one: lrga data build NAME")


@app.command("info")
def show_info(name: Name, data_root: Root = None, as_json: o.AsJson = False) -> None:
    """Show one data set: features, licence, citation, files, and what is built.

    Example: [bold]lrga data info ZINC[/]
    """
    from lrga.cli.printing import facts_table, print_json, stdout
    from lrga.data.datasets.building import describe

    facts = describe(name, data_root)
    if as_json:
        print_json(facts)
        return
    one, links = facts["one_graph"], facts["task"].startswith("link")
    sizes = ", ".join(f"{split} {count:,}" for split, count in facts["splits"].items())
    means = [f"{facts[key]:,.{0 if one else 1}f}" for key in ("mean_nodes", "mean_edges")]
    built = []
    for variant in facts["variants"]:
        unusable = "unfinished" if variant["problem"] is None else "damaged"
        state = show_bytes(variant["bytes"]) if variant["complete"] else unusable
        built.append(f"{variant['folder']} ({state})")
    rows = [
        ("name", facts["name"]),
        ("task", facts["task"] + ("" if facts["classes"] is None else f", {facts['classes']} classes")),
        ("metric", facts["metric"]),
        ("edges" if links else "nodes" if one else "graphs", sizes),
        ("graph" if one else "mean graph", f"{means[0]} nodes, {means[1]} directed edges (published)"),
        ("node features", facts["node_features"]),
        ("edge features", facts["edge_features"]),
        ("origin", facts["origin"]),
        *(("file", f"{file['name']}  {file['url']}") for file in facts["files"]),
        ("licence", f"{facts['licence']} ({facts['terms']})"),
        *(("cite", citation) for citation in facts["citation"]),
        *([("note", facts["note"])] if facts["note"] else []),
        *(("built", text) for text in built or [f"no; lrga data build {facts['name']}"]),
    ]
    stdout(most=100).print(facts_table(rows))


@app.command("build")
def build(
    name: Name,
    data_root: Root = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a generated set.", metavar="N")] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Graphs in train, val and test, for example 1500,250,250.", metavar="A,B,C")
    ] = None,
    split: Annotated[
        int | None, typer.Option(help="Number of the published split, if there are several.", metavar="N")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Folder of raw or prepared files to build from.", metavar="DIR")
    ] = None,
    download: Annotated[bool, typer.Option("--download/--no-download", help="Allow or forbid downloads.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Build again even if already built.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Download or generate a data set and store it in the data root.

    Examples:
    [bold]lrga data build CLUSTER --sizes 1500,250,250[/]
    [bold]lrga data build ZINC --source ~/zinc[/]
    """
    from lrga.cli.printing import print_json, stdout
    from lrga.data.datasets.building import build_dataset, plan_dataset
    from lrga.io.progress import PrintedProgress

    numbers = None if sizes is None else o.parse_sizes(sizes)
    given: dict[str, Any] = {"seed": seed, "sizes": numbers, "split": split}
    plan = plan_dataset(name, data_root, **{key: value for key, value in given.items() if value is not None})
    if not dry_run:
        build_dataset(plan, source=source, progress=PrintedProgress(), download=download, force=force)
    report = plan.report(source)
    if as_json:
        print_json(report)
        return
    console = stdout(most=100)
    if dry_run:
        console.print(report["what"], soft_wrap=True)
        return
    if (graph := report["graph"]) is not None:
        console.print(f"graph  {graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']:,} node features")
    for part, counts in report["statistics"].items():
        if "negatives" in counts:
            console.print(f"{part:5}  {counts['edges']:>11,} edges, {counts['negatives']:>9,} negative pairs")
        elif graph is not None:
            console.print(f"{part:5}  {counts['chosen']:>7,} nodes")
        else:
            means = f"{counts['mean_nodes']:,.2f} nodes, {counts['mean_edges']:,.2f} edges"
            console.print(f"{part:5}  {counts['graphs']:>7,} graphs  mean {means}")
    if report["note"] and graph is not None:
        console.print(f"[yellow]note[/]: {report['note']}", soft_wrap=True)
    console.print(f"licence: {report['terms']}", soft_wrap=True)
    console.print(f"{report['name']}: {show_bytes(report['bytes'])} in {report['folder']}", soft_wrap=True)


@app.command("verify")
def verify(name: Name, data_root: Root = None, as_json: o.AsJson = False) -> None:
    """Check every file of a data set by size and checksum; exit code 1 if one is damaged.

    Example: [bold]lrga data verify ZINC[/]
    """
    from lrga.cli.printing import print_json, stdout
    from lrga.data.datasets.building import verify as verify_files

    checks = verify_files(name, data_root)
    if as_json:
        print_json([{"file": str(check.file), "problem": check.problem} for check in checks])
    else:
        console = stdout(most=100)
        for check in checks:
            mark, text = ("[green]ok[/]", str(check.file)) if check.problem is None else ("[red]BAD[/]", check.problem)
            console.print(f"{mark} ", end="")
            console.print(text, soft_wrap=True, markup=False)
    if any(check.problem for check in checks):
        raise typer.Exit(1)


def _on_disk(row: dict[str, Any]) -> str:
    if row["damaged"]:
        return "damaged"
    if row["built"]:
        return show_bytes(row["bytes"]) + ("" if row["full"] else "*")
    return "unfinished" if row["variants"] else "not built"
