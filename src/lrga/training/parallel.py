"""Training of one model by several processes, each on its share of every batch: the step is that of one process.

Gradients are averaged by PyTorch's DistributedDataParallel. BatchNorm takes its statistics over the whole batch, the
loss is weighted as over the whole batch, and scores of all ranks come together for the metrics, so that nothing depends
on the number of ranks but the rounding.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import PackedGraphs
from lrga.distributed.collectives import gather_ragged, rank_of, reduce_, world_size
from lrga.distributed.launch import is_leader, joined, launched
from lrga.distributed.model import broadcast_state
from lrga.distributed.norm import convert_norms
from lrga.errors import UnsupportedError
from lrga.models.gnn import GNN
from lrga.tasks.losses import wide
from lrga.tasks.task import Task
from lrga.training.config import TrainingConfig
from lrga.training.determinism import step_seed
from lrga.training.evaluate import Scores, autocast, in_mode, run_model
from lrga.training.runs.checkpointer import FolderKeeper
from lrga.training.runs.ranks import forget_folder
from lrga.training.runs.state import capture, restore
from lrga.training.trainer import Trainer

P = ParamSpec("P")
R = TypeVar("R")
_PAUSES = (None, "time_limit", "interrupted")


def on_all_ranks(function: Callable[P, R]) -> Callable[P, R]:
    """A function that takes a configuration first, run by all the processes that ``torchrun`` started together."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not launched() or dist.is_initialized():
            return function(*args, **kwargs)
        config: Any = args[0]
        with joined(config.run.device):
            if not is_leader():
                kwargs["listeners"] = ()
            result: Any = function(*args, **kwargs)
        # Not before all ranks have come to the end: one that is lost on the way begins the command anew.
        if result.finished:
            forget_folder(result.folder)
        return result

    return run


def check_links(config: TrainingConfig) -> None:
    """Refuses what a run of link prediction cannot do: one process trains on its one graph."""
    if launched():
        remedy = "train in one process, or divide the graph with lrga.distributed.link_step (docs/scale.md)"
        raise UnsupportedError("a data set of many graphs for torchrun", f"links of {config.data.name}", remedy)


class Shares:
    """The graphs of a set of which this rank sees its share of every batch; all ranks together see each once."""

    def __init__(self, graphs: PackedGraphs) -> None:
        self.graphs = graphs

    def __len__(self) -> int:
        return len(self.graphs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graphs, name)

    def batches(
        self, batch_size: int, *, shuffle: bool = False, generator: torch.Generator | None = None
    ) -> Iterator[PackedBatch]:
        """This rank's shares of the batches that :meth:`PackedGraphs.batches` gives one process."""
        order = torch.arange(len(self.graphs))
        if shuffle:
            device = "cpu" if generator is None else generator.device
            order = torch.randperm(len(self.graphs), generator=generator, device=device).cpu()
        for begin in range(0, len(order), batch_size):
            yield self.graphs.batch(share_of(order[begin : begin + batch_size], rank_of(), world_size()))


def share_of(rows: Tensor, rank: int, world: int) -> Tensor:
    """The rank-th of ``world`` runs of nearly equal length; the last are empty where there are more ranks than rows.

    Example:
        >>> [share_of(torch.arange(5), rank, 3).tolist() for rank in range(3)]
        [[0, 1], [2, 3], [4]]
    """
    return rows.tensor_split(world)[rank]


def share_of_loss(task: Task, scores: Tensor, targets: Tensor) -> Tensor:
    """This rank's part of the loss of the whole batch: the parts of all ranks add up to it.

    Args:
        task: Whose loss.
        scores: Of this rank, ``[m, …]``; m may be 0.
        targets: Of this rank.
    """
    own = torch.tensor([scores.size(0)], device=scores.device)
    if task.kind == "multilabel":  # a mean over the labels that are there
        own = (~targets.isnan()).sum().view(1)
    rows = reduce_(own.clone(), "loss").to(torch.float64)
    if task.loss != "weighted_cross_entropy":
        return task.loss_of(scores, targets) * (own / rows.clamp(min=1)).squeeze().to(scores.dtype)
    scores, labels = wide(scores), targets.long()
    count = (labels.unsqueeze(1) == torch.arange(scores.size(1), device=labels.device)).sum(0)
    count = reduce_(count, "loss")
    weight = ((rows - count) / rows.clamp(min=1) * (count > 0)).to(scores.dtype)
    mass = (weight * count).sum()
    mass = torch.where(mass > 0, mass, torch.ones_like(mass))
    if scores.size(0) == 0:
        return scores.sum() * 0.0
    total = nn.functional.cross_entropy(
        scores, labels, weight=weight, reduction="sum", label_smoothing=task.label_smoothing
    )
    return total / mass


class ParallelTrainer(Trainer):
    """:class:`~lrga.training.trainer.Trainer` on all ranks of the process group. The arguments are the same."""

    def __init__(
        self, model: nn.Module, task: Task, splits: Mapping[str, PackedGraphs], *args: Any, **kwargs: Any
    ) -> None:
        kwargs["engine"] = "plain"  # captured steps know one process only
        shares: Any = {name: Shares(graphs) for name, graphs in splits.items()}
        super().__init__(convert_norms(model), task, shares, *args, **kwargs)
        broadcast_state(model)
        # Asking which parameters a batch left without gradient costs time; only the last edges of GatedGCN are unused.
        unused = not isinstance(model, GNN) or model.conv == "gatedgcn"
        # The option's newer name; statistics are the same on all ranks already.
        modern = "forward_sync_buffers" in inspect.signature(DistributedDataParallel.__init__).parameters
        buffers: dict[str, Any] = {"forward_sync_buffers" if modern else "broadcast_buffers": False}
        self.ranks = DistributedDataParallel(model, find_unused_parameters=unused, **buffers)
        if not unused:
            self._settle()

    def _settle(self) -> None:
        """One step without effect: the first one lets the ranks agree on the order in which gradients are added, which
        then is the same after a restart, to the last bit."""
        before = {name: value.clone() for name, value in self.model.state_dict().items()}
        batch = next(self.splits["train"].batches(self.options.batch_size))
        (run_model(self.ranks, batch).sum() * 0.0).backward()
        self.model.load_state_dict(before)
        self.optimizer.zero_grad()

    def step(self, batch: PackedBatch) -> None:
        """One step of the optimiser on the batch of which ``batch`` is this rank's share."""
        # Noise differs between ranks and follows from the place in the run, so that nothing of it need be saved.
        torch.manual_seed(step_seed(self.seed, self.epoch, self.batch, rank_of()))
        self.guard.before(batch)
        with autocast(self.device, self.options.precision):
            scores, targets = self.task.select(run_model(self.ranks, batch), batch, masked=self.masked)
            share = share_of_loss(self.task, scores, targets)
        loss = reduce_(share.detach().clone(), "loss")
        self.guard.check(loss)
        self.optimizer.zero_grad()
        self.scaler.scale(share * world_size()).backward()  # the ranks' gradients are averaged
        if self.options.clip_gradient is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip_gradient)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self._add(self.sums, loss, scores, targets)
        self.batch += 1

    def _evaluate(self, split: str) -> tuple[float, float]:
        options, graphs = self.options, self.splits[split]
        sums, size = Scores(self.task, self.device), options.eval_batch_size or options.batch_size
        masked = "mask" in graphs.columns
        with torch.no_grad(), in_mode(self.model, training=False), autocast(self.device, options.precision):
            for batch in graphs.batches(size):
                scores, targets = self.task.select(run_model(self.model, batch), batch, masked=masked)
                loss = reduce_(share_of_loss(self.task, scores, targets), "loss")
                self._add(sums, loss, scores, targets)
        mean, metric = sums.means()
        self.guard.check_evaluation(mean, split, size)
        return mean, metric

    def _add(self, sums: Scores, loss: Tensor, scores: Tensor, targets: Tensor) -> None:
        sums.add(loss, gather_ragged(scores.detach(), "scores"), gather_ragged(targets, "scores"))


class RanksKeeper(FolderKeeper):
    """Pauses all ranks when one of them is asked to; rank 0 alone has a folder to write into."""

    def pause(self, trainer: Trainer) -> str | None:
        if trainer.device.type == "cuda" and trainer.batch % 16:  # asking means waiting for the GPU
            return None
        why = torch.tensor([_PAUSES.index(super().pause(trainer))], device=trainer.device)
        dist.all_reduce(why, op=dist.ReduceOp.MAX)
        return _PAUSES[int(why)]


def trainer_class() -> type[Trainer]:
    """What trains: one process or all ranks."""
    return ParallelTrainer if world_size() > 1 else Trainer


def keeper_class() -> type[FolderKeeper]:
    """What keeps the run."""
    return RanksKeeper if world_size() > 1 else FolderKeeper


def finished_on_leader(written: dict[str, Any] | None) -> dict[str, Any] | None:
    """The result that rank 0 found written down, if any, on all ranks."""
    return tell(written)


def tell(value: R) -> R:
    """What rank 0 passes, on all ranks."""
    if world_size() == 1:
        return value
    told: list[Any] = [value]
    dist.broadcast_object_list(told, src=0)
    return told[0]


def agree(trainer: Trainer) -> None:
    """Puts all ranks where rank 0 stands, which has read the checkpoint."""
    if world_size() == 1:
        return
    state: Any = tell(_on_cpu(capture(trainer)) if rank_of() == 0 else None)
    if rank_of() > 0:
        restore(trainer, *state)


def _on_cpu(state: tuple[dict[str, dict[str, Tensor]], dict[str, Any]]) -> tuple[Any, Any]:
    parts, values = state
    return {part: {name: tensor.cpu() for name, tensor in own.items()} for part, own in parts.items()}, values
