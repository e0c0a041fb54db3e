"""One training step on PATTERN on the CPU: ours and the same model as usual PyG code, in the same run.

    python benchmarks/training.py [--json]

A step includes the next batch of 64 shuffled graphs, forward, loss, backward and Adam. The peer has PyG's
DataLoader, GCNConv (or the gated convolution with gathers and scatters), and LRGA on graphs padded by to_dense_batch.
Correctness first: with the same weights, on the same graphs, the loss of the first step must agree to 1e-4.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

# Waiting threads sleep: spinning threads multiply the time of both sides if the machine has other work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import torch_geometric
from pyg_network import Peer, copy_weights, peer_loss
from reporting import make_parser, report
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from lrga import GNN
from lrga.data import PackedGraphs, load
from lrga.tasks import task_of
from lrga.training import GraphProblem, OptimizerConfig, Trainer

BATCH_SIZE, WIDTH, LAYERS, RANK, CLASSES = 64, 60, 4, 30, 2
WANTED = {"gcn": 2.0, "gatedgcn": 1.3}  # times as fast


def endless(loader: Callable[[], Iterator]) -> Iterator:
    """Batches of one epoch after another."""
    while True:
        yield from loader()


def measure(conv: str, graphs: PackedGraphs, steps: int) -> dict[str, Any]:
    """Checks the first loss, then times ``steps`` steps of both alternately."""
    torch.manual_seed(0)
    ours = GNN(3, WIDTH, CLASSES, LAYERS, conv=conv, rank=RANK, encoder="embedding")
    peer = Peer(conv, WIDTH, LAYERS, RANK, CLASSES).train()
    copy_weights(ours, peer)
    options = OptimizerConfig(batch_size=BATCH_SIZE)
    splits = {"train": graphs, "val": graphs, "test": graphs}
    trainer = Trainer(GraphProblem(ours.train(), task_of("PATTERN"), splits, options))
    optimizer = torch.optim.Adam(peer.parameters(), lr=options.lr)
    data = graphs.to_data_list()
    loader = DataLoader(data, batch_size=BATCH_SIZE, shuffle=True)
    our_batches = endless(lambda: graphs.batches(BATCH_SIZE, shuffle=True))
    peer_batches = endless(lambda: iter(loader))

    def our_step(batch: object = None) -> float:
        trainer.problem.sums.reset()
        trainer.step(next(our_batches) if batch is None else batch)
        return trainer.problem.sums.means()[0]

    def peer_step(batch: object = None) -> float:
        batch = next(peer_batches) if batch is None else batch
        optimizer.zero_grad()
        loss = peer_loss(peer(batch), batch.y, CLASSES)
        loss.backward()
        optimizer.step()
        return loss.item()

    first = list(range(min(BATCH_SIZE, len(graphs))))
    losses = our_step(graphs.batch(first)), peer_step(Batch.from_data_list([data[i] for i in first]))
    if abs(losses[0] - losses[1]) > 1e-4:
        raise SystemExit(f"first losses {losses[0]:.6f} and {losses[1]:.6f} differ; no timing")
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(steps):
        for name, step in (("ours", our_step), ("peer", peer_step)):  # alternately, so both have the same load
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = median["peer"] / median["ours"]
    return {
        "case": {"gcn": "LRGA + GCN", "gatedgcn": "LRGA + GatedGCN"}[conv],
        "launch": "eager",
        "first_loss": losses[0],
        "baseline_first_loss": losses[1],
        "ms": round(1e3 * median["ours"], 1),
        "baseline": "PyG",
        "baseline_ms": round(1e3 * median["peer"], 1),
        "ratio": round(ratio, 2),
        "wanted": WANTED[conv],
        "reached": ratio >= WANTED[conv],
    }


def show(record: dict[str, Any]) -> None:
    print(f"one step on PATTERN, loading included: width {WIDTH}, {LAYERS} layers, batch {BATCH_SIZE}, ", end="")
    print(f"threads {record['settings']['threads']}, medians")
    print(f"{'':17}{'first loss':>12}{'PyG':>10}{'ours, ms':>12}{'PyG, ms':>10}{'faster':>9}{'wanted':>9}")
    for row in record["rows"]:
        print(
            f"{row['case']:17}{row['first_loss']:>12.6f}{row['baseline_first_loss']:>10.6f}{row['ms']:>12}"
            f"{row['baseline_ms']:>10}{row['ratio']:>8}x{row['wanted']:>8}x"
        )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=tuple(WANTED), default=tuple(WANTED), help="networks to measure")
    parser.add_argument("--graphs", type=int, default=256, help="graphs of PATTERN to train on, at least 64")
    parser.add_argument("--steps", type=int, default=12, help="timed steps of each; the median is reported")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of torch")
    arguments = parser.parse_args()
    if arguments.graphs < BATCH_SIZE or arguments.steps < 1:
        parser.error(f"at least {BATCH_SIZE} graphs and one step are needed")
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as root:
        graphs = load("PATTERN", root, sizes=(arguments.graphs, 1, 1))["train"]
    rows = [measure(conv, graphs, arguments.steps) for conv in arguments.models]
    settings = {
        "threads": arguments.threads, "batch_size": BATCH_SIZE, "width": WIDTH, "layers": LAYERS, "rank": RANK,
        "torch_geometric": torch_geometric.__version__,
    }  # fmt: skip
    report("training", rows, show, arguments, device="cpu", precision="float32", settings=settings)
    sys.exit(0 if all(row["reached"] for row in rows) else 1)


if __name__ == "__main__":
    main()
