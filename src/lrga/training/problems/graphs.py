"""Training on a set of graphs."""

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lrga.data.datasets.spec import SPLITS
from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import PackedGraphs
from lrga.data.packed.padded import why_not_padded
from lrga.data.packed.sampler import NeighborSampler
from lrga.distributed.collectives import gather_ragged, rank_of, reduce_, world_size
from lrga.distributed.partition.model import broadcast_state
from lrga.distributed.partition.norm import convert_norms
from lrga.distributed.partition.step import reduce_gradients
from lrga.errors import OptionError
from lrga.nn.norm import BatchNorm
from lrga.tasks.losses import class_weights, weighted_cross_entropy, wide
from lrga.tasks.running import Scores
from lrga.tasks.task import Task
from lrga.training.callbacks.guard import first_non_finite
from lrga.training.capture.graphs import GraphEngine
from lrga.training.config import OptimizerConfig
from lrga.training.determinism import NORM_STREAM, order_generator, step_seed, stream_generator
from lrga.training.evaluate import autocast, evaluate, in_mode, recalibrate_norm, run_model
from lrga.training.problems.problem import Problem, StepLoss

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

_SAMPLES = 3  # the random stream of neighbour sampling
_ROW_BY_ROW = (nn.LayerNorm, nn.GroupNorm)  # statistics within a row do not include padding


class GraphProblem(Problem):
    """Trains a model on the splits of a set of graphs.

    An epoch uses every training graph once. Loss and metric of the training split come from the training steps.

    Args:
        model: Any module with the call signature of :class:`lrga.GNN`, on the device of the graphs.
        task: The task.
        splits: ``train``, ``val`` and ``test``, on one device.
        options: Learning rate, schedule, batches, precision.
        seed: Seed of the order of the graphs. (Weights and dropout use PyTorch's global random state.)
    """

    name, engine = "graphs", GraphEngine

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        splits: Mapping[str, PackedGraphs],
        options: OptimizerConfig,
        *,
        seed: int = 41,
    ) -> None:
        self.model, self.task, self.splits, self.options, self.seed = model, task, splits, options, seed
        self.device, self.masked = splits["train"].device, "mask" in splits["train"].columns
        self.batches = math.ceil(len(splits["train"]) / options.batch_size)
        self.eval_size = options.eval_batch_size or options.batch_size
        self.sums = Scores(task, self.device)

    def epoch_batches(self, epoch: int, first: int) -> Iterator[PackedBatch]:
        generator = order_generator(self.seed, epoch)
        batches = self.splits["train"].batches(self.options.batch_size, shuffle=True, generator=generator)
        return itertools.islice(batches, first, None)

    def step_loss(self, batch: PackedBatch, epoch: int, number: int) -> StepLoss:
        return self._loss_of(*self.task.select(run_model(self.model, batch), batch, masked=self.masked))

    def _loss_of(self, scores: Tensor, targets: Tensor) -> StepLoss:
        loss = self.task.loss_of(scores, targets)
        return StepLoss(loss, loss.detach(), (scores, targets))

    def evaluate(self, trainer: "Trainer") -> dict[str, tuple[float, float]]:
        engine: Any = trainer.engine
        if self.options.recalibrate_norm:
            with autocast(self.device, self.options.precision):
                recalibrate_norm(
                    self.model,
                    self.splits["train"],
                    batches=self.options.recalibrate_norm,
                    batch_size=self.options.batch_size,
                    generator=order_generator(self.seed, trainer.epoch, stream=NORM_STREAM),
                )
        found, self.numbers = {}, {}
        for split in SPLITS:
            if split == "train":
                sums = self.sums
            elif engine is not None:
                sums = engine.evaluate(split)
            else:
                options: Any = {"batch_size": self.eval_size, "precision": self.options.precision}
                options |= {"loss_of": self._loss_of, "sums": (sums := Scores(self.task, self.device))}
                evaluate(self.model, self.splits[split], self.task, **options)
            found[split] = sums.means()
            self.numbers |= {f"{name}/{split}": value for name, value in sums.numbers().items()}
        return found

    def why_not_captured(self) -> str | None:
        if any("forward" in vars(module) for module in self.model.modules()):
            return "a captured step cannot save random states for activation checkpointing"
        for name, module in self.model.named_modules():
            if _sees_padding(module):
                return f"{name or 'the model'} ({type(module).__name__}) computes statistics that include padding"
        for split, graphs in self.splits.items():
            if (why := why_not_padded(graphs)) is not None:
                return f"{why} in {split}"
        return None

    def diagnose(self, batch: PackedBatch) -> str | None:
        named = {f"{name} of the batch": getattr(batch, name) for name in ("x", "edge_attr", "y")}
        with autocast(self.device, self.options.precision):
            return first_non_finite(self.model, lambda: run_model(self.model, batch), named)

    def diagnose_split(self, split: str) -> str | None:
        with in_mode(self.model, training=False):
            for number, batch in enumerate(self.splits[split].batches(self.eval_size), start=1):
                if (culprit := self.diagnose(batch)) is not None:
                    return f"{culprit}, in batch {number} of {self.eval_size} graphs each"
        return None


class SampledProblem(GraphProblem):
    """Trains node classification on sampled subgraphs of one graph, with ``options.batch_size`` seed nodes each.

    An epoch uses every training node as a seed once; loss and metric use only the seeds. Low-rank attention attends
    within the subgraph. Evaluation uses the whole graph.
    """

    unit = "nodes"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (level := self.task.level) != "node":
            raise OptionError("fanouts only for node classification", f"a task of {level}s", "omit fanouts")
        self.sampler = NeighborSampler(self.splits["train"], self.options.fanouts or ())
        self.seeds = seed_nodes(self.splits["train"])
        self.batches = math.ceil(self.seeds.numel() / self.options.batch_size)

    def epoch_batches(self, epoch: int, first: int) -> Iterator[PackedBatch]:
        generator = order_generator(self.seed, epoch)
        batches = self.seeds[torch.randperm(self.seeds.numel(), generator=generator)].split(self.options.batch_size)
        for number in range(first, self.batches):
            source = stream_generator(self.seed, _SAMPLES, epoch, number, device=self.device)
            yield self.sampler.sample(batches[number], source)

    def why_not_captured(self) -> str | None:
        return "sampled subgraphs differ in shape from step to step"


def seed_nodes(graphs: PackedGraphs) -> Tensor:
    """The nodes of a split on the CPU: those in its mask, or all."""
    mask = graphs.attribute("mask")
    return torch.arange(graphs.num_nodes) if mask is None else mask.cpu().nonzero().flatten()


def _sees_padding(module: nn.Module) -> bool:
    """Whether a module normalises over rows, including padding."""
    if type(module) is BatchNorm or isinstance(module, _ROW_BY_ROW):
        return False
    norms = nn.modules.batchnorm._NormBase
    return isinstance(module, norms) or type(module).__module__.startswith("torch_geometric.nn.norm")


class ParallelGraphProblem(GraphProblem):
    """:class:`GraphProblem` for all processes of the group, each on its share of every batch.

    BatchNorm statistics and loss weights are those of the whole batch, and metrics use the scores of all ranks, so
    only rounding depends on the number of ranks.
    """

    def __init__(self, model: nn.Module, task: Task, splits: Mapping[str, PackedGraphs], *args: Any, **kwargs: Any):
        shares: Any = {name: Shares(graphs) for name, graphs in splits.items()}
        super().__init__(convert_norms(model), task, shares, *args, **kwargs)
        broadcast_state(model)

    def step_loss(self, batch: PackedBatch, epoch: int, number: int) -> StepLoss:
        # Noise differs between ranks and is determined by the position in the run, so no random state needs saving.
        torch.manual_seed(step_seed(self.seed, epoch, number, rank_of()))
        return super().step_loss(batch, epoch, number)

    def _loss_of(self, scores: Tensor, targets: Tensor) -> StepLoss:
        share = share_of_loss(self.task, scores, targets)
        value = reduce_(share.detach().clone(), "loss")
        return StepLoss(share, value, (gather_ragged(scores.detach(), "scores"), gather_ragged(targets, "scores")))

    def reduce_gradients(self) -> None:
        reduce_gradients(self.model)


class Shares:
    """A set of graphs that yields this rank's share of every batch; all ranks together see each graph once."""

    def __init__(self, graphs: PackedGraphs) -> None:
        self.graphs = graphs

    def __len__(self) -> int:
        return len(self.graphs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graphs, name)

    def batches(
        self, batch_size: int, *, shuffle: bool = False, generator: torch.Generator | None = None
    ) -> Iterator[PackedBatch]:
        """This rank's shares of the batches of :meth:`PackedGraphs.batches`."""
        order = self.graphs.shuffled(generator) if shuffle else torch.arange(len(self.graphs))
        for begin in range(0, len(order), batch_size):
            yield self.graphs.batch(share_of(order[begin : begin + batch_size], rank_of(), world_size()))


def share_of(rows: Tensor, rank: int, world: int) -> Tensor:
    """The rank-th of ``world`` consecutive shares of nearly equal length; with more ranks than rows, some are empty.

    Example:
        >>> [share_of(torch.arange(5), rank, 3).tolist() for rank in range(3)]
        [[0, 1], [2, 3], [4]]
    """
    return rows.tensor_split(world)[rank]


def share_of_loss(task: Task, scores: Tensor, targets: Tensor) -> Tensor:
    """This rank's part of the loss of the whole batch, from its scores ``[m, …]`` and targets (m may be 0). The parts
    of all ranks add up to the loss."""
    if task.loss == "weighted_cross_entropy":
        reduce = partial(reduce_, purpose="loss")
        weights = class_weights(targets, task.out_channels, dtype=wide(scores).dtype, reduce=reduce)
        return weighted_cross_entropy(scores, targets, label_smoothing=task.label_smoothing, weights=weights)
    own = torch.tensor([scores.size(0)], device=scores.device)
    if task.kind == "multilabel":  # a mean over the labels that are not missing
        own = (~targets.isnan()).sum().view(1)
    rows = reduce_(own.clone(), "loss").to(torch.float64)
    return task.loss_of(scores, targets) * (own / rows.clamp(min=1)).squeeze().to(scores.dtype)
