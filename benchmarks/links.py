"""An epoch of LRGA + GCN on a graph like ogbl-ddi: captured steps, the plain loop, and PyTorch with a dense adjacency.

    python benchmarks/links.py [--device cuda] [--nodes 4267] [--edges 1067911] [--repeats 5] [--json] [--out FILE]

The graph is random, of ogbl-ddi's size; with ``--source`` it is ogbl-ddi itself. All three have the same weights, pairs
and options (TF32, no dropout), and the first losses are compared before timing. An epoch is its training
steps and the evaluation of all splits. *dense* is plain user code: the normalised adjacency as a matrix, every
operation launched separately.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from passes import use_tf32
from reporting import make_parser, report
from timing import at_least_one, need_device, wall_ms
from torch import Tensor

from lrga.data import LinkData, load
from lrga.data.links.split import split_edges
from lrga.training.callbacks.base import Callback
from lrga.training.presets import make_config
from lrga.training.problems.data import load_run_data
from lrga.training.problems.links import LinkProblem, Pairs
from lrga.training.trainer import Trainer


def random_graph(nodes: int, edges: int) -> LinkData:
    """A random graph with about ``edges`` edges, split 80 : 10 : 10."""
    pairs = np.random.default_rng(0).integers(nodes, size=(round(edges / 0.75), 2))
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    return split_edges(np.unique(pairs, axis=0), None, seed=0)


class Dense:
    """The same network and steps in plain PyTorch operations, with the normalised adjacency as a matrix."""

    def __init__(self, problem: LinkProblem, lr: float, clip: float) -> None:
        self.problem, self.model, self.clip = problem, problem.model, clip
        n = problem.data.num_nodes
        adjacency = torch.zeros(n, n, device=problem.device)
        source, target = problem.data.edge_index
        adjacency[target, source] = 1.0
        adjacency += torch.eye(n, device=problem.device)
        scale = adjacency.sum(1).rsqrt()
        self.adjacency = scale.unsqueeze(1) * adjacency * scale
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def encode(self) -> Tensor:
        """Node features, as LinkGNN computes them."""
        gnn: Any = self.model.gnn
        x = self.model.embedding.weight
        for i, (conv, attention, mix) in enumerate(zip(gnn.convs, gnn.attentions, gnn.mixes, strict=True)):
            local = F.relu(self.adjacency @ conv.lin(x) + conv.bias)
            u, v, z, t = attention.project(x).relu().chunk(4, dim=1)
            eta = (u.sum(0) * v.sum(0)).sum() / x.size(0)
            x = mix(torch.cat([u @ (v.t() @ z) / (eta + 1e-6), t, local], dim=1))
            if i + 1 < gnn.num_layers:
                x = gnn.norms[i](F.relu(x))
        return x

    def loss(self, batch: Pairs) -> Tensor:
        h = self.encode()
        true, false = (self.model.predictor(h[pairs[0]], h[pairs[1]]) for pairs in batch)
        return F.softplus(-true).mean() + F.softplus(false).mean()

    def epoch(self) -> None:
        """Training steps and the scores of all splits."""
        self.model.train()
        for batch in self.problem.epoch_batches(0, 0):
            self.optimizer.zero_grad()
            self.loss(batch).backward()
            for group in self.problem.parameter_groups():
                torch.nn.utils.clip_grad_norm_(group, self.clip)
            self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            h = self.encode()
            for split in ("val", "test"):
                pairs = self.problem.data.splits[split]
                assert pairs.edge_neg is not None
                scores = [self.model.predictor(h[p[:, 0]], h[p[:, 1]]) for p in (pairs.edge, pairs.edge_neg)]
                float(self.problem.task.score(*scores))


def make(data: LinkData, device: str, engine: str, epochs: int) -> Trainer:
    config = make_config(
        "graph.csv", data_options={"task": "link"}, hidden=256, layers=2, rank=50, skip=False, dropout=0.0,
        batch_size=65_536, max_epochs=epochs, clip_gradient=1.0, negatives="no_edge", metric="hits@20", lr=5e-3,
    )  # fmt: skip
    run = load_run_data(config, data).to(torch.device(device))
    torch.manual_seed(0)
    return Trainer(*run.stages(run.architecture.build().to(device), config), engine=engine)


def first_loss(trainer: Trainer) -> float:
    """The loss of the first batch, before any step."""
    with torch.no_grad():
        problem: Any = trainer.problem
        return float(problem.step_loss(next(problem.epoch_batches(0, 0)), 0, 0).value)


def seconds_of_epochs(trainer: Trainer, device: str, repeats: int) -> float:
    """The median time of an epoch, without compilation and capture."""
    times: list[float] = []
    callback = Callback()
    callback.on_epoch_end = lambda record: times.append(record.seconds)  # type: ignore[method-assign]
    trainer.callbacks = [callback]
    trainer.fit()
    if device != "cpu" and trainer.choice == "captured" and trainer.engine is None:
        raise SystemExit("the steps were not captured; no timing")
    return float(np.median(times[-repeats:]))


def measure(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Epochs of the three loops: rows and settings of the record."""
    use_tf32(True)
    data = random_graph(options.nodes, options.edges)
    if options.source is not None:
        data = load("ogbl-ddi", options.source.parent / "lrga-data", source=options.source)
    epochs = options.repeats + 2
    captured, plain, twin = (make(data, options.device, engine, epochs) for engine in ("captured", "plain", "plain"))
    problem: Any = twin.problem
    dense = Dense(problem, 5e-3, 1.0)
    with torch.no_grad():
        losses = first_loss(captured), first_loss(plain), float(dense.loss(next(problem.epoch_batches(0, 0))))
    if max(losses) - min(losses) > 2e-3 * max(losses):  # TF32 rounds differently in each
        raise SystemExit(f"first losses {losses} differ; no timing")
    seconds = {
        ("captured", "replay"): seconds_of_epochs(captured, options.device, options.repeats),
        ("plain", "eager"): seconds_of_epochs(plain, options.device, options.repeats),
        ("dense", "eager"): wall_ms(dense.epoch, options.device, repeats=options.repeats) / 1e3,
    }
    rows: list[dict[str, Any]] = [
        {"case": "epoch", "method": loop, "launch": launch, "epoch_seconds": own, "first_loss": loss,
         "baseline": "dense, eager", "ratio": seconds["dense", "eager"] / own}
        for ((loop, launch), own), loss in zip(seconds.items(), losses, strict=True)
    ]  # fmt: skip
    for row, trainer in zip(rows, (captured, plain), strict=False):
        row["last_loss"] = None if trainer.last is None else trainer.last.train_loss
    return rows, {"nodes": data.num_nodes, "edges": data.edge.size(0)}


def show(record: dict[str, Any]) -> None:
    sizes = record["settings"]
    print(f"{sizes['nodes']:,} nodes, {sizes['edges']:,} edges, on {record['device']}: seconds of an epoch")
    for row in record["rows"]:
        faster = f"{row['ratio']:.1f} times as fast as {row['baseline']}"
        print(f"  {row['method']:9} {row['launch']:9} {row['epoch_seconds']:8.3f}   {faster}")


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--nodes", type=at_least_one, default=4267)
    parser.add_argument("--edges", type=at_least_one, default=1_067_911)
    parser.add_argument("--source", type=Path, help="the folder ogbl_ddi of OGB")
    parser.add_argument("--repeats", type=at_least_one, default=5)
    options = parser.parse_args(arguments)
    need_device(options.device)
    rows, settings = measure(options)
    report("links", rows, show, options, device=options.device, precision="tf32", settings=settings)


if __name__ == "__main__":
    main(sys.argv[1:])
