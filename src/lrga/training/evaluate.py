"""A model on a set of graphs: its loss and metric, and fresh statistics for its BatchNorm layers."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import PackedGraphs
from lrga.data.packed.padded import PaddedBatch
from lrga.models.gnn import GNN
from lrga.tasks.running import Running, RunningMetric
from lrga.tasks.task import Task


def run_model(model: nn.Module, batch: PackedBatch | PaddedBatch) -> Tensor:
    """The model's output on a batch."""
    encodings = {}
    if getattr(model, "encoding", None):
        encodings = {"node_encoding": batch.node_encoding, "edge_encoding": batch.edge_encoding}
    return model(batch.x, batch.edges, batch.edge_attr, batch.batch, batch.num_graphs, **encodings)


def in_target_units(model: nn.Module, task: Any) -> nn.Module:
    """The trained model, made to predict in the units of the data where training had standardised the targets."""
    if isinstance(task, Task) and task.target_mean is not None and task.target_std is not None:
        assert isinstance(model, GNN)
        model.set_output_scale(task.target_mean, task.target_std)
    return model


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context of mixed precision, of no effect for ``"float32"``."""
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "float32")


class Scores:
    """Mean loss over batches and the task's metric, added up on the device; of standardised targets in their units."""

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task = task
        self.loss, self.metric = Running(device), RunningMetric(task, device)
        # A tensor from the beginning: captured steps cannot make one. In double precision, as squares may be large.
        self._scale = None
        if task.target_std is not None:
            self._scale = torch.tensor(task.target_std, dtype=torch.float64, device=device)

    def add(self, loss: Tensor, scores: Tensor, targets: Tensor, valid: Tensor | None = None) -> None:
        """Adds a batch; one without targets counts for nothing.

        With ``valid``, the rows that count, in a step that may be replayed: only what is in memory that does not move.
        :meth:`count` does the rest.
        """
        if valid is None and scores.size(0) == 0:
            return
        if self._scale is not None:
            scores, targets = scores.detach() * self._scale, targets * self._scale
            loss = self.task.loss_of(scores, targets, valid)
        if valid is None:
            self.loss.add(loss)
        else:
            self.loss.total += loss.detach()
        if valid is None or self.metric.tensors:
            self.metric.add(scores, targets, valid)

    def count(self, rows: int, scored: tuple[Tensor, Tensor, Tensor]) -> None:
        """After a step that added with ``valid``: how many rows that was, and its scores, targets and ``valid``."""
        self.loss.weight += 1.0 if rows else 0.0
        if not self.metric.tensors:  # a replay writes them to the same memory again
            self.metric.add(*(values.clone() for values in scored))

    def reset(self) -> None:
        """Forgets everything; the sums stay where they are in memory."""
        self.loss.reset()
        self.metric.reset()

    def means(self) -> tuple[float, float]:
        """Loss and metric."""
        return self.loss.mean(), self.metric.value(self.loss.weight)


@torch.no_grad()
def evaluate(
    model: nn.Module,
    graphs: PackedGraphs,
    task: Task,
    *,
    batch_size: int = 128,
    precision: str = "float32",
    add: Callable[[Scores, Tensor, Tensor], None] | None = None,
) -> tuple[float, float]:
    """Loss (mean over batches) and metric of a model, in evaluation mode, graphs in their order.

    ``add`` adds the scores and targets of a batch to the sums where this process has only a share of them.

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
    sums, masked = Scores(task, graphs.device), "mask" in graphs.columns
    with in_mode(model, training=False), autocast(graphs.device, precision):
        for batch in graphs.batches(batch_size):
            scores, targets = task.select(run_model(model, batch), batch, masked=masked)
            if add is not None:
                add(sums, scores, targets)
            else:
                sums.add(task.loss_of(scores, targets), scores, targets)
    return sums.means()


@torch.no_grad()
def recalibrate_norm(
    model: nn.Module, graphs: PackedGraphs, *, batches: int, batch_size: int, generator: torch.Generator | None = None
) -> None:
    """Replaces the running statistics of every BatchNorm by their plain average over ``batches`` training batches.

    Running statistics lag behind the weights; where the signal is small beside its mean (CLUSTER), evaluation by them
    is close to chance in the middle of training. Dropout is off while the statistics are taken.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    before = [norm.momentum for norm in norms]
    with in_mode(model, training=False):
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # which PyTorch takes for the plain average of all batches
            norm.train()
        try:
            for batch in itertools.islice(graphs.batches(batch_size, shuffle=True, generator=generator), batches):
                run_model(model, batch)
        finally:
            for norm, momentum in zip(norms, before, strict=True):
                norm.momentum = momentum


@contextmanager
def in_mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Training or evaluation mode for a while; every module's own mode comes back."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
