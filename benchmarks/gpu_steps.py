"""A whole training step on PATTERN on a GPU: captured, and as usual PyG code. Cases of gpu.py."""

import itertools
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from gpu_attention import Row
from passes import use_tf32
from pyg_network import Peer, copy_weights, peer_loss
from timing import kernels_of, synchronize, wall_ms
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from lrga import GNN
from lrga.data import PackedGraphs, load
from lrga.data.packed.batch import PackedBatch
from lrga.tasks import task_of
from lrga.training import GraphProblem, OptimizerConfig, Trainer
from lrga.training.callbacks.base import Callback
from lrga.training.capture.capacity import Work
from lrga.training.capture.engine import start_engine

BATCH_SIZE, LAYERS, RANK, CLASSES = 64, 8, 30, 2
WIDTHS = {"gcn": 100, "gatedgcn": 80}
LABELS = {"gcn": "LRGA + GCN", "gatedgcn": "LRGA + GatedGCN"}
# Minimum N × d tensors that a layer reads or writes, forward and backward: its input and output, the map before the
# sum, the sum, the mixture, and their gradients, each written and read once.
NODE_PASSES = 20
# Tensors of E × D that GatedGCN reads or writes: gate arguments (2), gates and sums (1), new edges (3); backward: sums
# of the normalisation (2), by target (3), by source (2), gradients of the edges (3) and of the weight (2).
EDGE_PASSES = 18
OPTIMIZER_PASSES = 7  # numbers read and written for each parameter: weight, gradient, two moments


def pattern(graphs: int, device: str) -> dict[str, PackedGraphs]:
    """Newly generated graphs of PATTERN."""
    with tempfile.TemporaryDirectory() as root:
        return {
            name: part.to(torch.device(device)) for name, part in load("PATTERN", root, sizes=(graphs, 4, 4)).items()
        }


class Notes(Callback):
    """Prints the trainer's notes on stderr, such as why a step cannot be captured."""

    def on_log(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Ours:
    """Our step: captured as in training on this device, and launched by the plain loop."""

    def __init__(
        self, conv: str, width: int, splits: dict[str, PackedGraphs], batch_size: int, layers: int
    ) -> None:  # fmt: skip
        torch.manual_seed(0)
        device = splits["train"].device
        model = GNN(3, width, CLASSES, layers, conv=conv, rank=RANK, encoder="embedding").to(device)
        self.model = model.train()
        options = OptimizerConfig(batch_size=batch_size)
        problem = GraphProblem(model, task_of("PATTERN"), splits, options)
        self.trainer = Trainer(problem, callbacks=[Notes()], engine="captured")

    def start(self) -> None:
        """Captures the steps; ends the script with the reason if that fails."""
        engine = start_engine(self.trainer)
        if engine is None:
            raise SystemExit("the step could not be captured: see the note above")
        self.engine = engine
        self.model.train()
        self.trainer.guard.begin()
        self._work = self._epochs()

    def first(self, graphs: int) -> float:
        """The loss of the first graphs, before the step."""
        (work,) = self.engine.train.of(torch.arange(graphs))
        self.trainer.problem.sums.reset()
        self.run(work)
        return self.trainer.problem.sums.means()[0]

    def step(self) -> None:
        self.run(next(self._work))

    def plain_first(self, graphs: int) -> float:
        """Same as :meth:`first`, in the plain loop."""
        self.model.train()
        self.trainer.problem.sums.reset()
        self.trainer.step(self.trainer.problem.splits["train"].batch(slice(0, graphs)))
        self._batches = self._plain_epochs()
        return self.trainer.problem.sums.means()[0]

    def plain_step(self) -> None:
        """One step, launched operation by operation."""
        self.trainer.batch = 0
        self.trainer.step(next(self._batches))

    def _plain_epochs(self) -> Iterator[PackedBatch]:
        for epoch in itertools.count():
            self.trainer.epoch, self.trainer.batch = epoch, 0
            yield from self.trainer.problem.epoch_batches(self.trainer.epoch, self.trainer.batch)

    def run(self, work: Work) -> None:
        self.trainer.batch = 0  # no periodic checks: they belong to whole epochs
        self.engine.step(work)

    def _epochs(self) -> Iterator[Work]:
        for epoch in itertools.count():
            self.trainer.epoch, self.trainer.batch = epoch, 0
            yield from self.engine.rest_of_epoch()


class Theirs:
    """The same model in PyG's and PyTorch's own modules, fed by PyG's loader."""

    def __init__(self, ours: Ours, conv: str, width: int, graphs: PackedGraphs, batch_size: int, layers: int) -> None:
        self.device = graphs.device
        self.network = Peer(conv, width, layers, RANK, CLASSES).to(self.device).train()
        copy_weights(ours.model, self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)
        self.data = graphs.to(torch.device("cpu")).to_data_list()
        self.loader = DataLoader(self.data, batch_size=batch_size, shuffle=True, drop_last=True)
        self._batches = itertools.chain.from_iterable(self.loader for _ in itertools.count())
        self._ready: Any = None

    def first(self, graphs: int) -> float:
        return float(self.run(Batch.from_data_list(self.data[:graphs]).to(self.device)).item())

    def step(self) -> None:
        """One step, with the batch made by the loader and moved to the device."""
        self.run(next(self._batches).to(self.device))

    def step_on_device(self) -> None:
        """One step on a batch that is on the device."""
        if self._ready is None:
            self._ready = next(self._batches).to(self.device)
        self.run(self._ready)

    def run(self, batch: Any) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = peer_loss(self.network(batch), batch.y, CLASSES)
        loss.backward()
        self.optimizer.step()
        return loss


def floor_bytes(conv: str, nodes: float, edges: float, width: int, layers: int, model: nn.Module) -> dict[str, float]:
    """Bytes of a step: those that stream through memory, and those gathered from the cache, a row for each edge."""
    parameters = sum(p.numel() for p in model.parameters())
    memory = 4.0 * (layers * NODE_PASSES * nodes * width + OPTIMIZER_PASSES * parameters) + 16.0 * layers * 2 * edges
    if conv == "gatedgcn":
        return {"memory": memory + 4.0 * layers * EDGE_PASSES * edges * width, "cache": 0.0}
    return {"memory": memory, "cache": 4.0 * layers * 2 * edges * width}


def step_case(
    conv: str, rates: dict[str, float], splits: dict[str, PackedGraphs], *, batch_size: int = BATCH_SIZE,
    layers: int = LAYERS, width: int | None = None, repeats: int = 5,
    profile: bool = False,
) -> list[Row]:  # fmt: skip
    """Checks the first loss in float32, then times both in TF32 and in float32."""
    graphs, device = splits["train"], splits["train"].device.type
    width, rows = width or WIDTHS[conv], []
    sizes = [float(n.float().mean()) * batch_size for n in (graphs.nodes_per_graph, graphs.edges_per_graph)]
    for precision in ("float32", "tf32"):
        use_tf32(precision == "tf32")
        ours, plain = (Ours(conv, width, splits, batch_size, layers) for _ in range(2))
        theirs = Theirs(ours, conv, width, graphs, batch_size, layers)
        ours.start()
        losses = ours.first(batch_size), theirs.first(batch_size), plain.plain_first(batch_size)
        if precision == "float32" and not max(losses) - min(losses) < 1e-4:
            found = ", ".join(f"{loss:.6f}" for loss in losses)
            raise SystemExit(f"first losses {found} of one batch differ; no timing")
        moved = floor_bytes(conv, *sizes, width, layers, ours.model)
        facts = {
            "case": f"step {LABELS[conv]}",
            "nodes": round(sizes[0]),
            "edges": round(sizes[1]),
            "precision": precision,
            "floor_ms": 1e3 * sum(moved[where] / rates[where] for where in moved),
        }
        inner = 4 if device == "cuda" else 1
        mine = wall_ms(ours.step, device, repeats=4 * repeats, inner=inner)
        rows.append({**facts, "method": "lrga", "launch": "replay", "both_ms": mine, "first_loss": losses[0]})
        if profile and precision == "tf32" and device == "cuda":
            rows[-1]["profile"] = kernels_of(ours.step)
        eager = wall_ms(plain.plain_step, device, repeats=2 * repeats, inner=inner)
        rows.append({**facts, "method": "lrga", "launch": "eager", "both_ms": eager, "first_loss": losses[2]})
        for method, step in (("PyG", theirs.step), ("PyG, batch on the device", theirs.step_on_device)):
            row = {
                **facts,
                "method": method,
                "launch": "eager",
                "both_ms": wall_ms(step, device, repeats=repeats, inner=inner),
            }
            rows.append({**row, "first_loss": losses[1]})
        synchronize(device)
    return rows
