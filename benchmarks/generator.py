"""Seconds and peak memory of generating a large synthetic graph, compared with distinct random pairs.

    python benchmarks/generator.py [--nodes 10000000] [--per-node 20] [--json] [--out record.json]

Each graph is generated in its own process, to measure its peak memory (including Python and PyTorch).
The baseline is the simplest graph of that size: uniform pairs of nodes, made distinct by `torch.unique`, in both
directions; no power law, no communities. Correctness first: on a small graph every edge must exist once in both
directions, without self-loops.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from reporting import make_parser, report
from torch import Tensor

from lrga.data.datasets.synthetic import synthetic_edges

OURS, BASELINE = "synthetic_edges", "random pairs, torch.unique"
WANTED = {"seconds": 120.0, "peak_bytes": 8e9}  # at ten million nodes with 20 edges each


def random_pairs(nodes: int, per_node: int) -> Tensor:
    """The baseline, ``[2, E]``."""
    wanted = nodes * per_node // 2
    one, other = (torch.randint(nodes, (int(wanted * 1.01) + 16,)) for _ in range(2))
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    keys = (low * nodes + high)[low != high].unique()[:wanted]
    low, high = keys // nodes, keys % nodes
    return torch.stack([torch.cat([low, high]), torch.cat([high, low])])


MAKERS = {OURS: synthetic_edges, BASELINE: random_pairs}


def check(nodes: int = 20_000, per_node: int = 20) -> None:
    """Raises an error if a generator does not produce the graph that it promises."""
    for name, make in MAKERS.items():
        source, target = make(nodes, per_node)
        keys, back = (source * nodes + target).sort().values, (target * nodes + source).sort().values
        ok = keys.unique().numel() == keys.numel() and torch.equal(keys, back) and not bool((source == target).any())
        if not ok or (name == OURS and keys.numel() != nodes * per_node):
            raise SystemExit(f"{name} made a graph with loops, repeated or one-way edges; no timing")


def measure(method: str, nodes: int, per_node: int, threads: int) -> dict[str, Any]:
    """Measures one method in its own process."""
    command = [sys.executable, __file__, "--child", method, "--nodes", str(nodes), "--per-node", str(per_node)]
    done = subprocess.run([*command, "--threads", str(threads)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{method} failed: {done.stderr[-500:]}")
    return {"case": f"{nodes:,} nodes", "method": method, "nodes": nodes, **json.loads(done.stdout)}


def child(method: str, nodes: int, per_node: int) -> None:
    begin = time.perf_counter()
    edges = MAKERS[method](nodes, per_node).size(1)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"edges": edges, "seconds": round(seconds, 2), "peak_bytes": peak}))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--per-node", type=int, default=20, help="directed edges per node")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    parser.add_argument("--child", choices=list(MAKERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.child is not None:
        child(options.child, options.nodes, options.per_node)
        return
    check()
    rows = []
    for method in MAKERS:
        print(f"{method}: {options.nodes:,} nodes", file=sys.stderr, flush=True)
        rows.append(measure(method, options.nodes, options.per_node, options.threads))
    ours, plain = rows
    ours |= {
        "baseline": BASELINE, "ratio": round(plain["seconds"] / max(ours["seconds"], 0.01), 2),
        "reached": all(ours[key] < most for key, most in WANTED.items()),
    }  # fmt: skip
    settings = {"threads": options.threads, "edges_per_node": options.per_node}
    settings |= {f"wanted_{key}": most for key, most in WANTED.items()}
    report("generator", rows, show, options, device="cpu", settings=settings)


def show(record: dict[str, Any]) -> None:
    for row in record["rows"]:
        gigabytes = row["peak_bytes"] / 1e9
        print(f"{row['method']:28}{row['edges']:>13,} edges{row['seconds']:>9.1f} s{gigabytes:>8.2f} GB at most")
    print(f"{OURS} is {record['rows'][0]['ratio']:.2f} times as fast as the baseline")


if __name__ == "__main__":
    main()
