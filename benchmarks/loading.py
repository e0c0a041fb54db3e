"""Graphs a second that reach the model: PackedGraphs beside PyG's DataLoader, on the CPU, in the same run.

    python benchmarks/loading.py [--zinc FOLDER] [--json]

Correctness first: every batch of an epoch must hold the same tensors as PyG's. Then both load shuffled epochs. Ours
delivers edge_index sorted by target and, in the second column, the complete EdgeLayout as well (the edges in the order
of their sources too, which the backward pass wants); PyG delivers edge_index as it comes.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch_geometric
from reporting import described
from timing import at_least_one
from torch_geometric.loader import DataLoader

from lrga.data import PackedBatch, PackedGraphs, load
from lrga.version import __version__

BATCH_SIZE = 128
WANTED = {"ZINC": 10.0, "PATTERN": 2.0}  # times as many graphs a second


def zinc(folder: Path | None, count: int) -> tuple[PackedGraphs, str]:
    """Molecules: real ones from ``folder``, else random ones of the same sizes."""
    if folder is not None:
        with tempfile.TemporaryDirectory() as root:
            return load("ZINC", root, source=folder)["train"][:count], "real molecules"
    rng = np.random.default_rng(0)
    nodes = rng.integers(9, 38, count)
    bonds = nodes + rng.integers(0, 4, count)  # a little more than a tree, as molecules are
    first = np.concatenate([rng.integers(0, n, b) for n, b in zip(nodes, bonds, strict=True)])
    second = np.concatenate([rng.integers(0, n, b) for n, b in zip(nodes, bonds, strict=True)])
    # Both directions of a bond, graph by graph, in the order of their source, as the benchmark has them.
    graph = np.repeat(np.arange(count), bonds)
    source, target, owner = np.r_[first, second], np.r_[second, first], np.r_[graph, graph]
    order = np.lexsort((target, source, owner))
    packed = PackedGraphs.from_arrays(
        num_nodes=nodes,
        num_edges=2 * bonds,
        edge_index=np.stack([source[order], target[order]]),
        x=rng.integers(0, 28, nodes.sum()),
        edge_attr=rng.integers(1, 4, 2 * bonds.sum()),
        y=rng.standard_normal(count).astype(np.float32),
        y_level="graph",
    )
    return packed, "random molecules"


def pattern(count: int) -> tuple[PackedGraphs, str]:
    """Graphs of PATTERN, drawn for the occasion."""
    with tempfile.TemporaryDirectory() as root:
        return load("PATTERN", root, sizes=(count, 1, 1))["train"], "generated"


def check(packed: PackedGraphs, graphs: list) -> None:
    """Every batch holds what PyG's does, edges sorted by target."""
    for ours, theirs in zip(packed.batches(BATCH_SIZE), DataLoader(graphs, BATCH_SIZE), strict=True):
        order = torch.argsort(theirs.edge_index[1], stable=True)
        pairs = [("edge_index", ours.edge_index, theirs.edge_index[:, order]), ("batch", ours.batch, theirs.batch)]
        pairs += [("x", ours.x, theirs.x), ("y", ours.y, theirs.y), ("ptr", ours.ptr, theirs.ptr)]
        if theirs.edge_attr is not None:
            pairs.append(("edge_attr", ours.edge_attr, theirs.edge_attr[order]))
        for name, left, right in pairs:
            if left is None or not torch.equal(left, right):
                raise SystemExit(f"{name} of a batch differs from PyG's: no timing on wrong results")
        by_source = ours.edges.source[ours.edges.out_order]
        if not bool((by_source.diff() >= 0).all()):
            raise SystemExit("the edges of a layout are not sorted by source")


def best_rate(epochs: list[Callable[[], Iterable]], count: int, repeats: int) -> list[float]:
    """Graphs a second of each kind of epoch: the best of ``repeats``, taken in turns so that all meet the same load."""
    best = [float("inf")] * len(epochs)
    for _ in range(repeats):
        for kind, epoch in enumerate(epochs):
            start = time.perf_counter()
            for batch in epoch():
                if kind == 2 and isinstance(batch, PackedBatch):
                    _ = batch.edges
            best[kind] = min(best[kind], time.perf_counter() - start)
    return [count / seconds for seconds in best]


def measure(name: str, packed: PackedGraphs, what: str, repeats: int) -> dict[str, object]:
    graphs = packed.to_data_list()
    check(packed, graphs)
    loader = DataLoader(graphs, BATCH_SIZE, shuffle=True)
    pyg, ours, with_layout = best_rate(
        [lambda: loader, *[lambda: packed.batches(BATCH_SIZE, shuffle=True)] * 2], len(packed), repeats
    )
    return {
        "dataset": name,
        "graphs": len(packed),
        "content": what,
        "pyg_graphs_per_second": round(pyg),
        "packed_graphs_per_second": round(ours),
        "packed_with_layout_graphs_per_second": round(with_layout),
        "times_faster": round(ours / pyg, 1),
        "times_faster_with_layout": round(with_layout / pyg, 1),
        "wanted": WANTED[name],
        "reached": ours / pyg >= WANTED[name],
    }


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zinc", type=Path, help="folder of the real ZINC files; else random molecules of that size")
    parser.add_argument("--graphs", type=int, default=10_000, help="graphs of ZINC (a fifth as many of PATTERN)")
    parser.add_argument("--repeats", type=at_least_one, default=5, help="epochs timed; the best counts")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(given)
    torch.set_num_threads(arguments.threads)
    rows = [
        measure("ZINC", *zinc(arguments.zinc, arguments.graphs), arguments.repeats),
        measure("PATTERN", *pattern(max(arguments.graphs // 5, 1)), arguments.repeats),
    ]
    if arguments.json:
        versions = {"lrga": __version__, "torch": torch.__version__, "torch_geometric": torch_geometric.__version__}
        machine = {"processor": platform.processor() or platform.machine(), "threads": arguments.threads}
        record = {"batch_size": BATCH_SIZE, "rows": rows, "versions": versions, "machine": machine}
        print(json.dumps(described(record), indent=2))
    else:
        print(f"shuffled epochs, batch {BATCH_SIZE}, threads {arguments.threads}, best of {arguments.repeats}")
        print("graphs a second:")
        print(f"{'':9}{'PyG DataLoader':>16}{'PackedGraphs':>16}{'':>8}{'with EdgeLayout':>18}{'':>8}{'wanted':>8}")
        for row in rows:
            print(
                f"{row['dataset']:9}{row['pyg_graphs_per_second']:>16,}{row['packed_graphs_per_second']:>16,}"
                f"{row['times_faster']:>7}x{row['packed_with_layout_graphs_per_second']:>18,}"
                f"{row['times_faster_with_layout']:>7}x{row['wanted']:>7}x  ({row['content']})"
            )
    sys.exit(0 if all(row["reached"] for row in rows) else 1)


if __name__ == "__main__":
    main()
