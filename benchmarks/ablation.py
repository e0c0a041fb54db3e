"""The gain of each group of GPU kernels in a captured training step: each group is switched off in turn, then all.

    python benchmarks/ablation.py [--models gcn gat …] [--graphs 512] [--no-compile] [--json] [--out FILE]

The networks are LRGA + GCN, GatedGCN, GAT and GIN on graphs like PATTERN's. A disabled group is computed by its
definition in PyTorch operations; the last row is the definition under ``torch.compile``, also captured. The first
loss of every variant is compared with that of all kernels before timing. Times are relative to all kernels:
a group stays in the library if some network takes 5 % longer without it.

Each network has its own process, which builds and captures all variants; when all are ready, each process in turn
has the machine for itself.
"""

import argparse
import importlib
import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from threading import BrokenBarrierError
from typing import Any

import cells
from cells import Cell
from gpu_attention import use_tf32
from gpu_steps import pattern
from reporting import make_parser, report
from timing import at_least_one, need_device, synchronize, wall_ms

from lrga.models.zoo import MODELS
from lrga.paper.protocols import paper_config

# Group → the module of lrga.ops that chooses between kernels and definition.
GROUPS = {
    "sums over neighbours": "neighbors.reduce",
    "GatedGCN": "gated.definition",
    "GAT softmax and scores": "gat.definition",
    "batch norm": "norm.definition",
    "attention": "attention",
    "bias sums": "linear",
    "batch gathering": "neighbors.batch_layout",
}
ONLY_IN = {"GatedGCN": "gatedgcn", "GAT softmax and scores": "gat"}
ALL_ON, ALL_OFF, COMPILED = "all kernels", "none", "none, torch.compile"
TOLERANCE = 5e-3  # of the first loss: TF32 rounds each variant differently


@contextmanager
def switched_off(groups: Iterable[str]) -> Iterator[None]:
    """Inside the block, the kernels of these groups are not used."""
    modules: list[Any] = [importlib.import_module(f"lrga.ops.{GROUPS[group]}") for group in groups]
    before = [module.runs_on_gpu for module in modules]
    for module in modules:
        module.runs_on_gpu = _never
    try:
        yield
    finally:
        for module, choose in zip(modules, before, strict=True):
            module.runs_on_gpu = choose


def _never(*_: Any) -> bool:
    return False


def variants(model: str, *, compiled: bool) -> dict[str, list[str]]:
    """The disabled groups of each variant of a network, by its name in the table."""
    own = [group for group in GROUPS if ONLY_IN.get(group, model) == model]
    found = {ALL_ON: [], **{f"without {group}": [group] for group in own}, ALL_OFF: list(GROUPS)}
    return {**found, COMPILED: list(GROUPS)} if compiled else found


class Variant:
    """A network with some groups off, with captured steps, one of them taken; or the reason why capture failed."""

    def __init__(
        self, model: str, name: str, off: list[str], splits: dict[str, Any], batch_size: int, budget: str
    ) -> None:  # fmt: skip
        self.name, self.off, self.why_not, self.loss = name, off, "", float("nan")
        self.cell = Cell(model, True, budget, splits, batch_size)
        with switched_off(off):
            if name == COMPILED:
                self.cell.model.compile()
            try:
                self.cell.start()
                self.loss = self.cell.first(batch_size)
                self.cell.step()
            except (Exception, SystemExit) as error:  # a compiler may fail in any way; the table shows the reason
                if name != COMPILED:
                    raise
                self.why_not = f"does not capture: {str(error).strip().splitlines()[0][:120]}"
        synchronize(splits["train"].device.type)

    def compare(self, loss: float) -> None:
        """Ends the script if the first loss differs from ``loss``; under a compiler the table shows it."""
        if self.why_not or abs(self.loss - loss) <= TOLERANCE * abs(loss):
            return
        found = f"first loss {self.loss:.6f} instead of {loss:.6f}"
        if self.name != COMPILED:
            raise SystemExit(f"{self.name}: {found}: no timing")
        self.why_not = found

    def row(self, options: argparse.Namespace, all_on_ms: float | None) -> dict[str, Any]:
        """The row of the table."""
        if self.why_not:
            return {"method": self.name, "launch": "replay", "skipped": self.why_not}
        inner = 4 if options.device != "cpu" else 1
        with switched_off(self.off):
            found = wall_ms(self.cell.step, options.device, repeats=options.repeats, inner=inner)
        return {
            "method": self.name,
            "launch": "replay",
            "ms": found,
            "baseline": ALL_ON,
            "ratio": 1.0 if all_on_ms is None else all_on_ms / found,
            "first_loss": self.loss,
        }


def measure(model: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All variants of one network."""
    try:
        use_tf32(True)
        batch_size = min(paper_config("PATTERN", model, budget=options.budget).optimizer.batch_size, options.graphs)
        splits = pattern(options.graphs, options.device)
        found = [
            Variant(model, name, off, splits, batch_size, options.budget)
            for name, off in variants(model, compiled=options.compile).items()
        ]
        for variant in found:
            variant.compare(found[0].loss)
    except BaseException:
        cells.all_ready.abort()  # otherwise the other processes wait forever
        raise
    cells.all_ready.wait()
    with cells.turn:
        rows: list[dict[str, Any]] = []
        for variant in found:
            rows.append(variant.row(options, rows[0]["ms"] if rows else None))
    return [{"case": f"LRGA + {MODELS[model]}", **row} for row in rows]


def measure_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All networks, each in its process."""
    context = multiprocessing.get_context("spawn")
    rows: dict[str, list[dict[str, Any]]] = {}
    shared = context.Lock(), context.Barrier(len(options.models))
    with ProcessPoolExecutor(len(options.models), context, cells.begin, shared) as pool:
        waiting = {pool.submit(measure, model, options): model for model in options.models}
        for done in as_completed(waiting):
            if isinstance(done.exception(), BrokenBarrierError):  # caused by another process, whose error follows
                continue
            rows[waiting[done]] = done.result()
            print(f"{waiting[done]} is measured", file=sys.stderr, flush=True)
    return [row for model in options.models for row in rows[model]]


def show(record: dict[str, Any]) -> None:
    """Time of a captured step relative to all kernels: one line per group, one column per network."""
    models = list(dict.fromkeys(row["case"] for row in record["rows"]))
    cells_of = {(row["method"], row["case"]): row for row in record["rows"]}
    print(f"{record['device']}, PATTERN {record['settings']['budget']}, TF32, captured; times relative to all kernels")
    print(f"| kernels | {' | '.join(models)} |\n|---|{'---:|' * len(models)}")
    for name in dict.fromkeys(off for off, _ in cells_of):
        print(f"| {name} | {' | '.join(_cell(cells_of.get((name, model))) for model in models)} |")


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    if "skipped" in row:
        return row["skipped"]
    return f"{row['ms']:.2f} ms" if row["method"] == ALL_ON else f"{1 / row['ratio']:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=["gcn", "gatedgcn", "gat", "gin"])
    parser.add_argument("--budget", choices=("100k", "500k"), default="500k")
    parser.add_argument("--graphs", type=at_least_one, default=512, help="graphs in the generated training set")
    parser.add_argument("--repeats", type=at_least_one, default=15)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="skip torch.compile")
    options = parser.parse_args(arguments)
    need_device(options.device)
    facts = {"device": options.device, "precision": "tf32", "settings": {"budget": options.budget}}
    report("ablation", measure_all(options), show, options, **facts)


if __name__ == "__main__":
    main()
