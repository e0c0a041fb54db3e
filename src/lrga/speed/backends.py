"""Which implementation each operation takes on a machine, and why not a faster one: for ``lrga bench --explain``."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from lrga.checks import check_choice, check_count
from lrga.data.packed.graphs import PackedGraphs
from lrga.models.gnn import GNN
from lrga.ops import linear as linear_ops
from lrga.ops._triton import allows_tf32, runs_on_gpu, why_not_triton
from lrga.ops.attention import explain_backend
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors import cpu as csr
from lrga.tasks import Task
from lrga.training.capture.engine import why_plain
from lrga.training.config import OptimizerConfig
from lrga.training.determinism import choose_device
from lrga.training.problems.graphs import GraphProblem
from lrga.training.trainer import Trainer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
LARGE, SMALL = 576_289, 14_384  # nodes
ON_CPU = "the tensors are on the CPU"
_GATHER = "PyTorch, gather and add"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """An operation, what computes it here, and why nothing faster does (empty where there is nothing faster)."""

    operation: str
    taken: str
    why: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def explain_choices(
    device: str = "auto", *, dtype: str = "float32", width: int = 60, rank: int = 30, heads: int = 1
) -> list[Choice]:
    """What every operation takes for node features of that type and width.

    Args:
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"`` or ``"float64"``.
        width: Channels.
        rank: Of the attention.
        heads: Of the attention.

    Example:
        >>> [choice.taken for choice in explain_choices("cpu")][:3]
        ['segmented', 'segmented', 'sparse products']
    """
    check_choice("dtype", dtype, tuple(DTYPES))
    for name, value in (("width", width), ("rank", rank), ("heads", heads)):
        check_count(name, value, minimum=1)
    place, kind = choose_device(device), DTYPES[dtype]
    few = torch.empty(4, width, device=place, dtype=kind)
    by_rows = csr.is_supported(few)  # what a CPU's sparse products take
    in_parts = -(-linear_ops.MIN_MIXED_NUMBERS // (2 * width + 2 * rank))
    why_mixed = f"from {in_parts:,} nodes on in parts: below, one product is faster"
    return [
        _attention("attention, many small graphs", few, rank, heads, nodes=SMALL, graphs=128),
        _attention("attention, one large graph", few, rank, heads, nodes=LARGE, graphs=1),
        _by_kernel("sums over neighbours", few, "sparse products" if by_rows else _GATHER),
        _by_kernel("GAT's weighted sum", few, "PyTorch" if by_rows else _GATHER),
        _by_kernel("edges of GatedGCN", few, "chunks of edges" if by_rows else _GATHER),
        _by_kernel("batch normalisation", few, "PyTorch"),
        Choice(operation="[X, LRGA, GNN] to m5", taken="concatenated", why=why_mixed),
        _step(place),
        _products(few),
    ]


def _attention(operation: str, x: Tensor, rank: int, heads: int, *, nodes: int, graphs: int) -> Choice:
    # One row seen as many: only sizes, type and device decide, and a large graph would take memory.
    rows = x[:1].expand(nodes, -1)
    weight, bias = x.new_empty(heads * 4 * rank, x.size(1)), x.new_empty(heads * 4 * rank)
    segments = Segments(nodes, graphs) if graphs == 1 else Segments(nodes, graphs, counts=x.new_zeros(0))
    taken, why = explain_backend(rows, weight, bias, segments, rank=rank)
    return Choice(operation=operation, taken=taken, why=why if runs_on_gpu(x) else _why(x, why))


def _by_kernel(operation: str, x: Tensor, on_cpu: str) -> Choice:
    if runs_on_gpu(x):
        return Choice(operation=operation, taken="triton", why="")
    return Choice(operation=operation, taken=on_cpu, why=_why(x))


def _step(device: torch.device) -> Choice:
    """What the engine says of a small network."""
    edges = torch.tensor([[0, 1], [1, 0]])
    data = [Data(x=torch.ones(2, 3), edge_index=edges, y=torch.tensor([0.5])) for _ in range(2)]
    graphs = PackedGraphs.from_data_list(data, y_level="graph").to(device)
    model = GNN(3, 4, 1, 1, rank=2, task="graph").to(device)
    splits = dict.fromkeys(("train", "val", "test"), graphs)
    task = Task(level="graph", kind="regression", out_channels=1)
    trainer = Trainer(GraphProblem(model, task, splits, OptimizerConfig(batch_size=2)), engine="auto")
    why = why_plain(trainer)
    return Choice(operation="training step", taken="captured" if why is None else "plain loop", why=why or "")


def _products(x: Tensor) -> Choice:
    if x.device.type != "cuda" or x.dtype != torch.float32:
        return Choice(operation="matrix products", taken=str(x.dtype).removeprefix("torch."), why="")
    if allows_tf32():
        return Choice(operation="matrix products", taken="TF32", why="")
    remedy = "torch.set_float32_matmul_precision('high') allows TF32, two to three times as fast"
    return Choice(operation="matrix products", taken="float32", why=remedy)


def _why(x: Tensor, *more: str) -> str:
    """All that speaks against kernels, the machine first: without a GPU or Triton no other type or rank would help."""
    reasons = [ON_CPU] if x.device.type == "cpu" else []  # Triton's interpreter is never the choice
    reasons += [why for one in (x.new_empty(0, dtype=torch.float32), x) if (why := why_not_triton(one)) is not None]
    return "; also ".join(dict.fromkeys([*reasons, *more]))
