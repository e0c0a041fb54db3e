"""How much memory a training step takes, and what to do where there is less.

Small random batches are trained on, and the peak of their memory is fitted by a + b·nodes + c·edges, which is what
these networks take: on a GPU the peak of PyTorch's allocator, on a CPU the bytes of all tensors alive. From the largest
batch that can occur follows what the run needs, as it is or with layers computed again in the backward pass.

Letters: N nodes, E edges of a batch.
"""

import copy
import ctypes
import gc
import re
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lrga.data.packed.graphs import PackedGraphs
from lrga.distributed.collectives import world_size
from lrga.errors import OptionError
from lrga.io.limits import parse_bytes, show_bytes
from lrga.kernels.edges import EdgeLayout
from lrga.models.gnn import GNN
from lrga.nn.recompute import recompute_layers
from lrga.training.determinism import random_states_kept
from lrga.training.trainer import Trainer

MARGIN = 1.15  # for what a fit to small batches does not see
_TRIALS = ((1000, 4000), (3000, 4000), (1000, 16_000), (3000, 16_000))  # nodes and edges
_M_MMAP_THRESHOLD = -3  # of malloc.h


@dataclass(frozen=True)
class Fit:
    """Bytes of a step on a batch: ``base + per_node * N + per_edge * E``."""

    base: float
    per_node: float
    per_edge: float

    def of(self, nodes: int, edges: int) -> int:
        """Bytes on a batch of this size, with a margin."""
        return round(MARGIN * (self.base + self.per_node * nodes + self.per_edge * edges))


@dataclass(frozen=True)
class MemoryPlan:
    """What a run needs and what is done about it.

    Attributes:
        limit: Bytes there are.
        standing: Bytes of the data set, the weights, their gradients and Adam's moments; on a CPU of the whole process.
        plain: Bytes needed, ``standing`` included, as the model is.
        recomputed: Bytes needed with layers computed again in the backward pass.
        nodes: Nodes of the largest batch that can occur.
        edges: Its edges.
    """

    limit: int
    standing: int
    plain: int
    recomputed: int
    nodes: int
    edges: int

    @property
    def recompute(self) -> bool:
        """Whether layers are to be computed again."""
        return self.plain > self.limit

    def __str__(self) -> str:
        batch = f"a batch of up to {self.nodes:,} nodes and {self.edges:,} edges"
        if not self.recompute:
            return f"fits into {show_bytes(self.limit)}: {batch} takes {show_bytes(self.plain)}; nothing to do"
        return (
            f"activation checkpointing to fit into {show_bytes(self.limit)}: {batch} takes "
            f"{show_bytes(self.recomputed)} instead of {show_bytes(self.plain)}, for about a third more time"
        )


def plan_memory(
    model: nn.Module, splits: Mapping[str, PackedGraphs], *, batch_size: int, limit: int, ranks: int = 1
) -> MemoryPlan:
    """Whether training fits into ``limit`` bytes, as it is or with activation checkpointing; refused where neither.

    Args:
        model: :class:`lrga.GNN`, on the device to train on.
        splits: The graphs.
        batch_size: Graphs in a batch, over all ranks.
        limit: Bytes.
        ranks: Processes that share each batch.
    """
    if not isinstance(model, GNN):
        raise OptionError("lrga.GNN for a memory limit", type(model).__name__, "leave the limit out")
    nodes, edges = _largest(splits["train"], -(-batch_size // ranks))
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    _, before = peak_of_process(torch.device("cpu"))
    fit = fit_memory(model)  # first: what the libraries set up in their first steps stays
    standing = _most_of_ranks(4 * weights + _standing(splits, before))
    plain = _most_of_ranks(standing + fit.of(nodes, edges))
    # Where it fits as it is, the other number is not needed.
    recomputed = plain
    if plain > limit:
        recomputed = _most_of_ranks(standing + fit_memory(model, recompute=True).of(nodes, edges))
    plan = MemoryPlan(limit, standing, plain, min(plain, recomputed), nodes, edges)
    if plan.recomputed > limit:
        got = f"{show_bytes(plan.plain)}, {show_bytes(plan.recomputed)} with activation checkpointing"
        if standing > limit:
            got += f"; data, weights and Python alone take {show_bytes(standing)}"
        smaller = "a smaller --batch-size or --hidden" if batch_size > 1 else "a smaller --hidden"
        remedy = f"take {smaller}, or divide the work: torchrun --nproc-per-node 2 -m lrga train …"
        raise OptionError(f"a training step that fits into {show_bytes(limit)}", got, remedy)
    return plan


def plan_limit(trainer: Trainer, limit: str | int | None) -> MemoryPlan | None:
    """What it takes that a trainer keeps to a memory limit; ``None`` without one."""
    if limit is None:
        return None
    return_freed_memory()
    trainer.at_once = 1  # what is measured is a step of one batch
    return plan_memory(
        trainer.model,
        trainer.splits,
        batch_size=trainer.options.batch_size,
        limit=parse_bytes(limit),
        ranks=world_size(),
    )


def keep_to_limit(trainer: Trainer, plan: MemoryPlan) -> None:
    """Lets a trainer keep to a memory limit, and says what that takes."""
    if plan.recompute:
        recompute_layers(trainer.model)
        trainer.choice = "plain"  # a captured step cannot put random states aside
    trainer.listener.noted(f"memory: {plan}")
    trainer.keeper.note(f"memory: {plan}", {"memory_limit": plan.limit, "activation_checkpointing": plan.recompute})


def fit_memory(model: GNN, *, recompute: bool = False) -> Fit:
    """Measures training steps of a copy of ``model`` on small random batches."""
    device = next(model.parameters()).device
    copied = copy.deepcopy(model).train()
    for layer in copied.modules():
        vars(layer).pop("forward", None)  # of a model that computes its layers again already
    if recompute:
        recompute_layers(copied)
    rows, peaks = [], []
    with random_states_kept(device):
        for nodes, edges in _TRIALS:
            rows.append([1.0, nodes, edges])
            peaks.append(float(_peak_of_step(copied, nodes, edges, device)))
    table = torch.tensor(rows, dtype=torch.float64)
    solution = torch.linalg.lstsq(table, torch.tensor(peaks, dtype=torch.float64).unsqueeze(1)).solution
    return Fit(*(max(float(value), 0.0) for value in solution.flatten()))


def _peak_of_step(model: GNN, nodes: int, edges: int, device: torch.device) -> int:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(nodes, (2, edges), generator=generator).to(device)
    layout, _ = EdgeLayout.from_edge_index(edge_index, nodes, check=False)
    x = torch.zeros(nodes, 1, device=device) if model.encoder is None else model.encoder.ones(nodes)
    model.zero_grad()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        _step(model, x, layout)
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    gc.collect()
    with LiveBytes() as live:
        _step(model, x, layout)
    return live.peak


def _step(model: GNN, x: Tensor, layout: EdgeLayout) -> None:
    out = model(x, layout)
    out.float().square().mean().backward()


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors made inside the block and still alive, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = function(*args, **(kwargs or {}))
        known = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if _has_storage(leaf)}
        for leaf in tree_leaves(out):
            if _has_storage(leaf) and (storage := leaf.untyped_storage())._cdata not in known | self._seen:
                key, size = storage._cdata, storage.nbytes()
                self._seen.add(key)
                self.now += size
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._freed, key, size)
        return out

    def _freed(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size


def _has_storage(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided


def _largest(graphs: PackedGraphs, batch_size: int) -> tuple[int, int]:
    """Nodes and edges that no batch of so many graphs exceeds."""
    count = min(batch_size, len(graphs))
    nodes, edges = graphs.nodes_per_graph, graphs.edges_per_graph
    return int(nodes.topk(count).values.sum()), int(edges.topk(count).values.sum())


def _most_of_ranks(size: int) -> int:
    """The greatest of what the ranks found: all must decide alike, or some would wait for the others' BatchNorm."""
    if world_size() == 1:
        return size
    found: list[Any] = [None] * world_size()
    dist.all_gather_object(found, size)
    return max(found)


def _standing(splits: Mapping[str, PackedGraphs], before: int) -> int:
    """What is there beside a step: the data set on a GPU; on a CPU all of the process (Python, PyTorch), now or,
    where it was more, ``before`` the steps that were measured."""
    data = sum(_bytes_of(graphs) for graphs in splits.values())
    if splits["train"].device.type == "cuda":
        return data
    return max(data, before, peak_of_process(torch.device("cpu"))[0])


def return_freed_memory() -> None:
    """Lets the C library (glibc) return the memory of freed tensors to the system at once, from now on.

    It would otherwise keep tensors of up to 32 MB for later, in pieces that do not fit what comes next: a process then
    holds up to twice what its tensors take.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def peak_of_process(device: torch.device) -> tuple[int, int]:
    """Bytes that this process holds now and held at most so far: of PyTorch's tensors on a GPU, of everything on a CPU;
    zeros where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device), 0
    try:  # on Linux, where getrusage would count the process that started this one, too
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        status = ""
    now, most = (re.search(rf"^{name}:\s*(\d+) kB$", status, re.MULTILINE) for name in ("VmRSS", "VmHWM"))
    if now is not None and most is not None:
        return 1024 * int(now[1]), 1024 * int(most[1])
    try:
        import resource
    except ImportError:  # on Windows
        return 0, 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return peak, peak


def _bytes_of(graphs: PackedGraphs) -> int:
    tensors = [graphs.node_ptr, graphs.edge_ptr, graphs.source, graphs.in_degree, graphs.edge_order]
    tensors += [column.values for column in graphs.columns.values()]
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)
