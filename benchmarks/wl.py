"""1-WL against networkx on graphs of 100,000 edges, and how the time of 2-FWL grows with the number of nodes.

    python benchmarks/wl.py [--json] [--repeats 5] [--largest 400] [--device cpu]

Correctness comes first: on each large graph the classes of nodes after the last iteration are compared with those of
networkx, and 2-FWL with its definition in plain Python; a difference ends the run. Then both sides start from their own
graph object and do the same number of iterations; converting a networkx graph to ours is timed separately. One thread.
"""

import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import torch
from reporting import make_parser, report
from rich.console import Console
from rich.table import Table
from timing import at_least_one, need_device

from lrga.theory import as_graph, stable_colouring
from lrga.theory.kernels import same_partition
from lrga.theory.labelled import LabelledGraph
from lrga.theory.wl.joint import join, pair_types

LARGE: dict[str, Callable[[], nx.Graph]] = {
    "random, 20k nodes": lambda: nx.gnm_random_graph(20_000, 100_000, seed=0),
    "random, 50k nodes": lambda: nx.gnm_random_graph(50_000, 100_000, seed=0),
    "preferential attachment": lambda: nx.barabasi_albert_graph(20_005, 5, seed=0),
    "4-regular": lambda: nx.random_regular_graph(4, 50_000, seed=0),
    "grid 224 x 224": lambda: nx.grid_2d_graph(224, 224),
    "path": lambda: nx.path_graph(100_001),
}
ITERATIONS = (3, 10)  # 3 is networkx's default
PAIRS: dict[str, Callable[[int], nx.Graph]] = {
    "random, mean degree 3": lambda n: nx.gnm_random_graph(n, 3 * n // 2, seed=0),
    "3-regular": lambda n: nx.random_regular_graph(3, n, seed=0),
    "path": nx.path_graph,
}


def seconds(function: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def networkx_classes(graph: nx.Graph, iterations: int) -> np.ndarray:
    hashes = nx.weisfeiler_lehman_subgraph_hashes(graph, iterations=iterations, digest_size=32)
    names: dict[str, int] = {}
    return np.array([names.setdefault(hashes[node][-1], len(names)) for node in graph])


def one_dimension(repeats: int) -> list[dict[str, Any]]:
    rows = []
    for name, make in LARGE.items():
        graph = make()
        reading = seconds(lambda graph=graph: as_graph(graph), repeats)
        ours = as_graph(graph)
        for iterations in ITERATIONS:
            colouring = stable_colouring(ours, "1-wl", rounds=iterations)
            if not same_partition(colouring.colours, networkx_classes(graph, iterations)):
                raise SystemExit(f"{name}: classes differ from networkx after {iterations} iterations")
            theirs_time = seconds(
                lambda graph=graph, k=iterations: nx.weisfeiler_lehman_graph_hash(graph, iterations=k), min(repeats, 3)
            )
            our_time = seconds(lambda ours=ours, k=iterations: stable_colouring(ours, "1-wl", rounds=k), repeats)
            rows.append(
                {
                    "case": name,
                    "method": "1-wl",
                    "nodes": ours.num_nodes,
                    "edges": ours.num_edges,
                    "iterations": iterations,
                    "seconds": our_time,
                    "baseline": "networkx",
                    "baseline_seconds": theirs_time,
                    "ratio": theirs_time / our_time,
                    "reading_seconds": reading,
                }
            )
    return rows


def by_definition(graph: LabelledGraph) -> np.ndarray:
    """2-FWL by its definition, with dictionaries."""
    types, count = pair_types(join([graph]))
    size, colours = graph.num_nodes, types[0].tolist()
    while True:
        columns = list(zip(*colours, strict=True))
        keys = [
            (colours[i][j], *sorted(zip(colours[i], columns[j], strict=True))) for i in range(size) for j in range(size)
        ]
        names = {key: number for number, key in enumerate(sorted(set(keys)))}
        if len(names) == count:
            return np.array(colours)
        colours = [[names[key] for key in keys[i * size : (i + 1) * size]] for i in range(size)]
        count = len(names)


def two_dimensions(largest: int, device: str, repeats: int) -> list[dict[str, Any]]:
    rows = []
    sizes = [n for n in (26, 50, 100, 200, 400, 800, 1600) if n <= largest]
    for name, make in PAIRS.items():
        small = as_graph(make(24))
        if not same_partition(stable_colouring(small, "2-fwl", device=device).colours, by_definition(small)):
            raise SystemExit(f"{name}: 2-FWL differs from its definition")
        last: tuple[int, float] | None = None
        for size in sizes:
            graph = as_graph(make(size))
            found = stable_colouring(graph, "2-fwl", device=device)
            taken = seconds(
                lambda graph=graph: stable_colouring(graph, "2-fwl", device=device), repeats if size <= 200 else 1
            )
            plain = seconds(lambda graph=graph: by_definition(graph), 1) if size <= 50 else None
            growth = None if last is None else math.log(taken / last[1]) / math.log(size / last[0])
            rows.append(
                {
                    "case": name,
                    "method": "2-fwl",
                    "nodes": size,
                    "rounds": found.rounds,
                    "colours": found.num_colours,
                    "seconds": taken,
                    "growth": growth,
                    "definition_seconds": plain,
                }
            )
            last = size, taken
    return rows


def show(result: dict[str, Any]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(f"{result['device']}, torch {result['torch']}")
    table = Table("graph", "edges", "iterations", "networkx ms", "lrga ms", "times faster", "reading ms", title="1-WL")
    for row in (row for row in result["rows"] if row["method"] == "1-wl"):
        cells = (f"{1000 * row[key]:.1f}" for key in ("baseline_seconds", "seconds"))
        table.add_row(
            row["case"],
            f"{row['edges']:,}",
            str(row["iterations"]),
            *cells,
            f"{row['ratio']:.0f}",
            f"{1000 * row['reading_seconds']:.0f}",
        )
    console.print(table)
    table = Table("graph", "nodes", "rounds", "colours", "seconds", "grows as n^", "plain Python s", title="2-FWL")
    for row in (row for row in result["rows"] if row["method"] == "2-fwl"):
        growth = "" if row["growth"] is None else f"{row['growth']:.1f}"
        plain = "" if row["definition_seconds"] is None else f"{row['definition_seconds']:.2f}"
        table.add_row(
            row["case"],
            str(row["nodes"]),
            str(row["rounds"]),
            f"{row['colours']:,}",
            f"{row['seconds']:.3f}",
            growth,
            plain,
        )
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=at_least_one, default=5, help="number of timings; the median is reported")
    parser.add_argument("--largest", type=int, default=400, help="nodes of the largest graph for 2-FWL")
    parser.add_argument("--device", default="cpu", help="device of 2-FWL")
    options = parser.parse_args(arguments)
    need_device(options.device)
    torch.set_num_threads(1)
    # networkx warns that hashes of graphs without attributes changed in 3.5; only equality matters here.
    warnings.filterwarnings("ignore", message="The hashes produced for graphs", category=UserWarning)
    rows = one_dimension(options.repeats) + two_dimensions(options.largest, options.device, options.repeats)
    settings = {"numpy": np.__version__, "networkx": nx.__version__, "threads": 1}
    report("wl", rows, show, options, device=options.device, settings=settings)


if __name__ == "__main__":
    main()
