"""A training step of every network of Table 3 (and so of Table 1, PATTERN), captured and in the plain loop.

    python benchmarks/cells.py [--models gcn gat …] [--budget 500k] [--graphs 1024] [--profile] [--json] [--out FILE]

Each network is built, compiled and captured in its own process, all at the same time; when all are
ready (compilation would slow down the host), each in turn has the machine for itself and is measured. First the loss of
the same first batch is compared in both loops; then medians. *captured* is ``lrga train`` on a GPU, *plain*
the same network and batches operation by operation. Seconds per epoch are those of the training steps on PATTERN's
10,000 graphs.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from threading import BrokenBarrierError
from typing import Any

import torch
from gpu_steps import Notes, Ours, pattern
from passes import use_tf32
from reporting import make_parser, report
from timing import at_least_one, kernels_of, need_device, show_profiles, synchronize, take_profiles, wall_ms

from lrga import build_model
from lrga.models.zoo import MODELS
from lrga.paper.protocols import paper_config
from lrga.tasks import task_of
from lrga.training import GraphProblem, OptimizerConfig, Trainer

PATTERN_GRAPHS = 10_000
turn: Any = None  # the lock of the measuring process
all_ready: Any = None


class Cell(Ours):
    """A network of the tables, ready for steps in either loop."""

    def __init__(self, model: str, lrga: bool, budget: str, splits: dict[str, Any], batch_size: int) -> None:
        torch.manual_seed(0)
        device = splits["train"].device
        self.model = build_model("PATTERN", model, budget=budget, lrga=lrga).to(device).train()
        options = OptimizerConfig(batch_size=batch_size)
        problem = GraphProblem(self.model, task_of("PATTERN"), splits, options)
        self.trainer = Trainer(problem, callbacks=[Notes()], engine="captured")


def plain_first_loss(cell: Cell, graphs: int) -> float:
    """The loss of the first graphs in the plain loop, before its step."""
    trainer = cell.trainer
    trainer.problem.sums.reset()
    trainer.step(trainer.problem.splits["train"].batch(slice(0, graphs)))
    return trainer.problem.sums.means()[0]


def measure(model: str, lrga: bool, options: argparse.Namespace) -> dict[str, Any]:
    """One network: its first loss in both loops, then its times."""
    try:
        cell, twin, batch, loss = prepare(model, lrga, options)
    except BaseException:
        all_ready.abort()  # otherwise the other processes wait forever
        raise
    all_ready.wait()
    batch_size, inner = cell.trainer.problem.options.batch_size, 4 if options.device != "cpu" else 1
    with turn:
        row = {
            "case": ("LRGA + " if lrga else "") + MODELS[model],
            "launch": "replay",
            "width": cell.model.hidden_channels,
            "layers": cell.model.num_layers,
            "batch_size": batch_size,
            "ms": wall_ms(cell.step, options.device, repeats=options.repeats, inner=inner),
            "baseline": "plain loop, eager",
            "baseline_ms": wall_ms(lambda: twin.trainer.step(batch), options.device, repeats=options.repeats),
            "first_loss": loss,
        }
        if options.profile and options.device != "cpu":
            row["profile"] = kernels_of(cell.step)
    steps = -(-PATTERN_GRAPHS // batch_size)
    return row | {"ratio": row["baseline_ms"] / row["ms"], "epoch_seconds": row["ms"] * steps / 1e3}


def prepare(model: str, lrga: bool, options: argparse.Namespace) -> tuple[Cell, Cell, Any, float]:
    """The network for both loops after one step, a batch for the plain loop, and the losses of the first batch."""
    use_tf32(True)
    batch_size = min(paper_config("PATTERN", model, budget=options.budget).optimizer.batch_size, options.graphs)
    splits = pattern(options.graphs, options.device)
    cell, twin = (Cell(model, lrga, options.budget, splits, batch_size) for _ in range(2))
    cell.start()
    losses = cell.first(batch_size), plain_first_loss(twin, batch_size)
    if not abs(losses[0] - losses[1]) <= 2e-3 * abs(losses[1]):  # TF32 rounds differently in both
        raise SystemExit(f"{model}: first losses {losses[0]:.6f} and {losses[1]:.6f} differ; no timing")
    batch = splits["train"].batch(slice(0, batch_size))
    cell.step()
    twin.trainer.step(batch)
    synchronize(options.device)
    return cell, twin, batch, losses[0]


def begin(lock: Any, barrier: Any) -> None:
    """Initialises a measuring process: the lock, and the barrier for all processes."""
    global turn, all_ready
    turn, all_ready = lock, barrier
    torch.set_num_threads(1)


def measure_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All networks, each in its process."""
    context = multiprocessing.get_context("spawn")
    which = [(model, lrga) for model in options.models for lrga in (False, True)]
    rows: dict[tuple[str, bool], dict[str, Any]] = {}
    shared = context.Lock(), context.Barrier(len(which))
    with ProcessPoolExecutor(len(which), context, begin, shared) as pool:
        waiting = {pool.submit(measure, *one, options): one for one in which}
        for done in as_completed(waiting):
            if isinstance(done.exception(), BrokenBarrierError):  # caused by another process, whose error follows
                continue
            row = rows[waiting[done]] = done.result()
            print(f"{row['case']}: {row['ms']:.2f} ms, plain {row['baseline_ms']:.2f} ms", file=sys.stderr)
    return [rows[one] for one in which]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=list(MODELS))
    parser.add_argument("--budget", choices=("100k", "500k"), default="500k")
    parser.add_argument("--graphs", type=at_least_one, default=1024, help="graphs in the generated training set")
    parser.add_argument("--repeats", type=at_least_one, default=15)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--profile", action="store_true", help="list the kernels of each captured step")
    options = parser.parse_args(arguments)
    need_device(options.device)
    rows = measure_all(options)
    facts = {"device": options.device, "precision": "tf32", "settings": {"budget": options.budget}}
    report("cells", rows, show, options, **facts, profiles=take_profiles(rows))


def show(record: dict[str, Any]) -> None:
    print(f"{record['device']}, PATTERN {record['settings']['budget']}, TF32")
    print(f"{'':20} captured   plain  ratio  s/epoch")
    for row in record["rows"]:
        times = f"{row['ms']:8.2f} {row['baseline_ms']:7.2f} {row['ratio']:6.1f} {row['epoch_seconds']:8.2f}"
        print(f"{row['case']:20} {times}")
    show_profiles(record)


if __name__ == "__main__":
    main()
