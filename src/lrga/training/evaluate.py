"""Evaluation of a model on a set of graphs, and recalibration of its BatchNorm statistics."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import PackedGraphs
from lrga.data.packed.padded import PaddedBatch
from lrga.models.gnn import GNN
from lrga.tasks.running import Scores
from lrga.tasks.task import Task

if TYPE_CHECKING:
    from lrga.training.problems.problem import StepLoss


def run_model(model: nn.Module, batch: PackedBatch | PaddedBatch) -> Tensor:
    """The model's output on a batch."""
    encodings = {}
    if getattr(model, "encoding", None):
        encodings = {"node_encoding": batch.node_encoding, "edge_encoding": batch.edge_encoding}
    return model(batch.x, batch.edges, batch.edge_attr, batch.batch, batch.num_graphs, **encodings)


def in_target_units(model: nn.Module, task: Any) -> nn.Module:
    """Makes a trained model predict in the units of the data if training standardised the targets."""
    if isinstance(task, Task) and task.target_mean is not None and task.target_std is not None:
        assert isinstance(model, GNN)
        model.set_output_scale(task.target_mean, task.target_std)
    return model


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context for mixed precision; no effect for ``"float32"``."""
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "float32")


@torch.no_grad()
def evaluate(
    model: nn.Module,
    graphs: PackedGraphs,
    task: Task,
    *,
    batch_size: int = 128,
    precision: str = "float32",
    loss_of: Callable[[Tensor, Tensor], "StepLoss"] | None = None,
    sums: Scores | None = None,
) -> tuple[float, float]:
    """Loss (mean over batches) and metric of a model in evaluation mode, with the graphs in order.

    ``loss_of`` replaces the loss of scores and targets if this process has only a share of each batch. Batches are
    added to ``sums`` if given.

    Example:
        >>> import lrga
        >>> from torch_geometric.data import Data
        >>> from lrga.tasks import Task
        >>> path = torch.tensor([[0, 1], [1, 0]])
        >>> data = [Data(x=torch.ones(2, 3), edge_index=path, y=torch.tensor([0.5])) for _ in range(4)]
        >>> graphs = PackedGraphs.from_data_list(data, y_level="graph")
        >>> task = Task(level="graph", kind="regression", out_channels=1)
        >>> loss, mae = evaluate(lrga.GNN(3, 8, 1, 1, task="graph"), graphs, task)
        >>> abs(loss - mae) < 1e-6
        True
    """
    sums, masked = Scores(task, graphs.device) if sums is None else sums, "mask" in graphs.columns
    with in_mode(model, training=False), autocast(graphs.device, precision):
        for batch in graphs.batches(batch_size):
            scores, targets = task.select(run_model(model, batch), batch, masked=masked)
            if loss_of is None:
                sums.add(task.loss_of(scores, targets), scores, targets)
            else:
                step = loss_of(scores, targets)
                sums.add(step.value, *step.scored)
    return sums.means()


@torch.no_grad()
def recalibrate_norm(
    model: nn.Module, graphs: PackedGraphs, *, batches: int, batch_size: int, generator: torch.Generator | None = None
) -> None:
    """Replaces the running statistics of every BatchNorm by the average over ``batches`` training batches.

    Running statistics lag behind the weights. If the signal is small compared with its mean (CLUSTER), evaluation with
    them is close to chance in the middle of training. Dropout is off during recalibration.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    before = [norm.momentum for norm in norms]
    with in_mode(model, training=False):
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # PyTorch then averages over all batches
            norm.train()
        try:
            for batch in itertools.islice(graphs.batches(batch_size, shuffle=True, generator=generator), batches):
                run_model(model, batch)
        finally:
            for norm, momentum in zip(norms, before, strict=True):
                norm.momentum = momentum


@contextmanager
def in_mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Sets training or evaluation mode inside the block; restores the mode of every module afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
