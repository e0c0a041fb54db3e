"""One graph partitioned between 1, 2 and 4 processes of this machine: correctness, then seconds and bytes sent.

    python benchmarks/distributed.py [--nodes 20000] [--ranks 1 2 4] [--partition blocks|metis] [--json] [--out FILE]

Every rank holds its part of a synthetic graph (power-law degrees, communities) and trains GCN and LRGA + GCN on it.
First, on a small graph in float64, loss and gradients of a step must equal those of one process to 1e-8. Then steps are
timed, and the bytes that a rank sends per step are counted by purpose. The processes share this machine's cores and
memory bus, so the seconds do not apply to a cluster, but the bytes do. Two sizes of the graph show
which part of the traffic grows with the graph; that of LRGA does not.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import torch.distributed as dist
import torch.nn.functional as F
from reporting import make_parser, report
from torch_geometric.data import Data

import lrga
from lrga.data.datasets.synthetic import synthetic_graph
from lrga.distributed import count_traffic, joined, partition_graph, partition_model, training_step
from lrga.distributed.collectives import rank_of, world_size

WIDTH, RANK, LAYERS, CLASSES, PER_NODE = 64, 32, 2, 4, 20
MODELS: dict[str, int | None] = {"GCN": None, "LRGA + GCN": RANK}
PURPOSES = ("halo", "attention", "norm", "gradients", "loss")


def make_model(rank: int | None) -> lrga.GNN:
    torch.manual_seed(0)
    return lrga.GNN(WIDTH, WIDTH, CLASSES, LAYERS, conv="gcn", rank=rank)


def differences(graph: Data, rank: int | None, method: str) -> dict[str, float]:
    """The difference of loss and gradients of one step in float64 between the partitioned and the whole graph."""
    whole = make_model(rank).double()
    part = partition_graph(graph.edge_index, graph.num_nodes, method=method)
    ours = partition_model(whole, part)
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.0)
    loss = training_step(ours, part, part.take_nodes(graph.x.double()), part.take_nodes(graph.y), optimizer)
    expected = F.cross_entropy(whole(graph.x.double(), graph.edge_index), graph.y)
    expected.backward()
    pairs = [(a.grad, b.grad) for a, b in zip(ours.parameters(), whole.parameters(), strict=True)]
    worst = max(float((a - b).abs().max()) for a, b in pairs if a is not None and b is not None)
    return {"loss": abs(float(loss) - float(expected.detach())), "gradient": worst}


def measure(graph: Data, rank: int | None, method: str, steps: int) -> dict[str, Any]:
    """Seconds and bytes of a training step in float32."""
    part = partition_graph(graph.edge_index, graph.num_nodes, method=method)
    model = partition_model(make_model(rank), part)
    adam = torch.optim.Adam(model.parameters())
    x, y = part.take_nodes(graph.x), part.take_nodes(graph.y)
    with count_traffic() as traffic:
        training_step(model, part, x, y, adam)
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        training_step(model, part, x, y, adam)
        seconds.append(time.perf_counter() - begin)
    sent = torch.tensor([[traffic.wire.get(purpose, 0) for purpose in PURPOSES]])
    halo = torch.tensor([part.num_halo])
    if world_size() > 1:
        dist.all_reduce(sent, op=dist.ReduceOp.MAX)
        dist.all_reduce(halo)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "seconds": statistics.median(seconds),
        "halo_nodes": int(halo),
        **{f"{purpose}_bytes": sent for purpose, sent in zip(PURPOSES, sent[0].tolist(), strict=True)},
    }


def work(arguments: argparse.Namespace) -> None:
    """The work of each rank; rank 0 prints the result."""
    torch.set_num_threads(1)
    small = synthetic_graph(500, PER_NODE, features=WIDTH, classes=CLASSES, communities=8)
    rows = []
    for name, rank in MODELS.items():
        found = differences(small, rank, arguments.partition)
        if not max(found.values()) < 1e-8:
            raise SystemExit(f"{name} on {world_size()} ranks differs: {found}; no timing")
        for nodes in (arguments.nodes // 10, arguments.nodes):
            graph = synthetic_graph(nodes, PER_NODE, features=WIDTH, classes=CLASSES)
            row = measure(graph, rank, arguments.partition, arguments.steps)
            errors = {f"{what}_error": error for what, error in found.items()}
            rows.append({"case": name, "ranks": world_size(), **errors, **row})
    if rank_of() == 0:
        print(json.dumps(rows))


def launch(ranks: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs ``ranks`` processes of this script."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    shared = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    options = ["--nodes", str(arguments.nodes), "--steps", str(arguments.steps), "--partition", arguments.partition]
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", *options],
            env={**os.environ, **shared, "RANK": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            text=True,
        )
        for rank in range(ranks)
    ]
    out = processes[0].communicate()[0]
    if any(process.wait() for process in processes):
        raise SystemExit(f"one of {ranks} processes failed")
    return json.loads(out)


def show(record: dict[str, Any]) -> None:
    partition = record["settings"]["partition"]
    print(f"{record['device']}; width {WIDTH}, rank {RANK}, {LAYERS} layers, partition {partition}")
    worst = max(row[key] for row in record["rows"] for key in ("loss_error", "gradient_error"))
    print(f"loss and gradients within {worst:.0e} of one process (float64)\n")
    print(f"{'model':11}{'ranks':>6}{'nodes':>9}{'halo':>8}{'s/step':>8}  bytes sent by a rank per step")
    for row in record["rows"]:
        text = ", ".join(f"{name} {row[f'{name}_bytes']:,}" for name in PURPOSES[:4])
        print(
            f"{row['case']:11}{row['ranks']:>6}{row['nodes']:>9,}{row['halo_nodes']:>8,}{row['seconds']:>8.3f}  {text}"
        )


def main(given: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=20_000, help="nodes of the larger graph; the other has a tenth")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=5, help="number of timed steps; the median is reported")
    parser.add_argument("--partition", choices=["blocks", "metis"], default="blocks")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.nodes < 1000 or arguments.steps < 1:
        parser.error("at least 1,000 nodes and one step are needed")
    if min(arguments.ranks) < 1:
        parser.error("expected numbers of processes of at least 1, for example --ranks 1 2 4")
    if arguments.out is not None and not arguments.out.parent.is_dir():
        parser.error(f"--out {arguments.out}: the folder {arguments.out.parent} does not exist")
    if arguments.worker:
        if int(os.environ["WORLD_SIZE"]) == 1:
            work(arguments)
        else:
            with joined("cpu"):
                work(arguments)
        return
    rows = []
    for ranks in arguments.ranks:
        print(f"{ranks} processes", file=sys.stderr, flush=True)
        rows += launch(ranks, arguments)
    device = f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, gloo"
    settings = {"partition": arguments.partition, "width": WIDTH, "rank": RANK, "layers": LAYERS}
    report("distributed", rows, show, arguments, device=device, precision="float32", settings=settings)


if __name__ == "__main__":
    main()
