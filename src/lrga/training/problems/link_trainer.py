"""The training loop of link prediction: the whole graph in every step, a batch of edges to predict."""

import math
import time
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from lrga.data.links.data import LinkData
from lrga.data.links.negatives import NoEdgePairs, uniform_pairs
from lrga.errors import NonFiniteError
from lrga.models.embeddings import MatrixFactorization, Node2Vec
from lrga.nn.recompute import recomputed
from lrga.tasks.link import LinkTask
from lrga.tasks.running import Running
from lrga.training.callbacks.events import EpochRecord, Listener
from lrga.training.config import TrainingConfig
from lrga.training.determinism import stream_generator
from lrga.training.evaluate import autocast
from lrga.training.problems.link_architecture import LinkNetwork
from lrga.training.problems.link_evaluate import Messages, evaluate_links
from lrga.training.problems.walk_trainer import WalkTrainer
from lrga.training.trainer import Best, Keeper

_ORDER, _NEGATIVES, _SAMPLE = 1, 2, 3  # streams of random numbers
_REMEDY = "lower the learning rate, clip gradients (--clip-gradient 1), or look at the node features"


class LinkTrainer:
    """Trains a network to tell edges from other pairs of nodes.

    An epoch goes once through the training edges in an order that follows from seed and epoch. Each batch runs the
    network on the whole graph, scores its edges and as many negative pairs, and clips the gradients of network,
    predictor and embedding each by themselves. Nothing in a step waits for a GPU. The reported number is the test
    metric of the epoch that is best in validation.

    Args:
        model: The network, on the device of the data.
        task: Metric and kind of negatives.
        data: Graph and splits.
        config: All options.
        listener: Is told what happens.
        keeper: Writes down what happens, and says when to pause.
    """

    def __init__(
        self,
        model: LinkNetwork,
        task: LinkTask,
        data: LinkData,
        config: TrainingConfig,
        *,
        listener: Listener | None = None,
        keeper: Any = None,
    ) -> None:
        assert config.link is not None
        self.model, self.task, self.data, self.options, self.link = model, task, data, config.optimizer, config.link
        self.seed, self.device = config.run.seed, data.device
        self.listener = listener or Listener()
        self.keeper: Any = keeper or Keeper()
        conv, weighted = config.model.model, self.link.edge_weights
        self.messages = Messages.of(data, conv=conv, weighted=weighted)
        self.test_messages = (
            Messages.of(data, conv=conv, weighted=weighted, with_validation=True)
            if self.link.validation_edges and not isinstance(model, MatrixFactorization)
            else None
        )
        self.no_edges = (
            NoEdgePairs(data.edge, data.num_nodes, undirected=data.undirected) if task.negatives == "no_edge" else None
        )
        self.walks = WalkTrainer(model, data, self.link, seed=self.seed) if isinstance(model, Node2Vec) else None
        self.groups = model.parameter_groups()
        self.optimizer = torch.optim.Adam(
            [parameter for group in self.groups for parameter in group],
            lr=self.options.lr,
            weight_decay=self.options.weight_decay,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.options.precision == "fp16")
        self.edges = data.splits["train"].edge
        self.batches = math.ceil(self.edges.size(0) / self.options.batch_size)
        count = min(self.edges.size(0), data.splits["val"].edge.size(0))
        picked = torch.randperm(self.edges.size(0), generator=self._generator(_SAMPLE), device=self.device)[:count]
        self.sample = self.edges.index_select(0, picked)  # of the training edges, to see how they are scored
        self.epoch, self.batch, self.seconds = 0, 0, 0.0
        self.epoch_seconds, self._mark = 0.0, time.perf_counter()
        self.loss = Running(self.device)
        self.last: EpochRecord | None = None
        self.best: Best | None = None
        self.eval_block = (
            self.options.eval_batch_size or self.options.batch_size
        )  # pairs that evaluation scores at once
        self.recompute = False  # whether the backward pass computes scores again (lrga.training.problems.link_memory)
        self._order: tuple[int, Tensor] | None = None
        self._frozen: Tensor | None = None

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self.options.lr

    @property
    def finished(self) -> str | None:
        """Why training is over: ``"max_epochs"``; ``None`` while it is not."""
        return "max_epochs" if self.epoch >= self.options.max_epochs else None

    @property
    def position(self) -> tuple[int, int]:
        """Epochs (those of walks first) and batches done: the name of a checkpoint."""
        if self.walks is not None and not self.walks.finished:
            return self.walks.epoch, self.walks.batch
        return (0 if self.walks is None else self.walks.epoch) + self.epoch, self.batch

    def fit(self) -> str:
        """Trains on from where it stands; returns why it ended or paused."""
        paused = self._walk()
        while paused is None and self.finished is None:
            paused = self._train_epoch()
            if paused is None:
                self._end_epoch()
        if paused is not None:
            if not self.is_finite():
                self._give_up(f"epoch {self.epoch + 1}")
            self.keeper.save(self)
        return paused or str(self.finished)

    def is_finite(self) -> bool:
        """Whether the losses of the epoch so far are finite."""
        return math.isfinite(float(self.loss.total))

    def _walk(self) -> str | None:
        walks = self.walks
        self._mark = time.perf_counter()
        while walks is not None and not walks.finished:
            if (why := self.keeper.pause(self)) is not None:
                return why
            walks.step()
            self._clock()
            done = walks.epoch * walks.batches + walks.batch
            self.listener.batch_done(0, done, walks.options.walk_epochs * walks.batches)
        return None

    def _train_epoch(self) -> str | None:
        self.model.train()
        self._mark = time.perf_counter()
        while self.batch < self.batches:
            if (why := self.keeper.pause(self)) is not None:
                return why
            self.step(*self.pairs())
            self._clock()
            self.listener.batch_done(self.epoch + 1, self.batch, self.batches)
        return None

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Edges and as many negative pairs of the next batch, both ``[2, B]``."""
        if self._order is None or self._order[0] != self.epoch:
            generator = self._generator(_ORDER, self.epoch)
            self._order = self.epoch, torch.randperm(self.edges.size(0), generator=generator, device=self.device)
        size = self.options.batch_size
        chosen = self._order[1][self.batch * size : (self.batch + 1) * size]
        generator = self._generator(_NEGATIVES, self.epoch, self.batch)
        if self.no_edges is not None:
            negative = self.no_edges.draw(chosen.numel(), generator=generator)
        else:
            negative = uniform_pairs(chosen.numel(), self.data.num_nodes, generator=generator)
        return self.edges.index_select(0, chosen).t(), negative

    def step(self, positive: Tensor, negative: Tensor) -> None:
        """One step of the optimiser."""
        with autocast(self.device, self.options.precision):
            h = self._encode()
            true, false = (
                score_again(self.model, h, pairs, recompute=self.recompute).float() for pairs in (positive, negative)
            )
            loss = self.task.loss_of(true, false)
        if self.device.type == "cpu" and not math.isfinite(loss.item()):
            self._give_up(f"epoch {self.epoch + 1}, batch {self.batch + 1} of {self.batches}")
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        if self.options.clip_gradient is not None:
            self.scaler.unscale_(self.optimizer)
            for group in self.groups:
                nn.utils.clip_grad_norm_(group, self.options.clip_gradient)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.loss.add(loss, weight=float(positive.size(1)))
        self.batch += 1

    def _encode(self) -> Tensor:
        if isinstance(self.model, MatrixFactorization) and not self.model.trains_vectors:
            if self._frozen is None:  # nothing that the predictor's loss could change
                self._frozen = self.messages.encode(self.model)
            return self._frozen
        return self.messages.encode(self.model)

    def _end_epoch(self) -> None:
        self.listener.evaluating(self.epoch + 1)
        train_loss = self.loss.mean()
        if not math.isfinite(train_loss):
            self._give_up(f"epoch {self.epoch + 1}")
        found = evaluate_links(
            self.model,
            self.data,
            self.task,
            messages=self.messages,
            test_messages=self.test_messages,
            train_edges=self.sample,
            batch_size=self.eval_block,
            precision=self.options.precision,
        )
        for split, (loss, _) in found.items():
            if not math.isfinite(loss):
                self._give_up(f"evaluating {split!r} after epoch {self.epoch + 1}")
        self._clock()
        self.last = EpochRecord(
            epoch=self.epoch + 1,
            lr=self.lr,
            train_loss=train_loss,
            train_metric=found["train"][1],
            val_loss=found["val"][0],
            val_metric=found["val"][1],
            test_loss=found["test"][0],
            test_metric=found["test"][1],
            seconds=round(self.epoch_seconds, 3),
            elapsed=round(self.seconds, 3),
        )
        if self.best is None or self.task.is_better(self.last.val_metric, self.best.record.val_metric):
            self.best = Best(self.last, {name: value.clone() for name, value in self.model.state_dict().items()})
        self.epoch, self.batch, self.epoch_seconds = self.epoch + 1, 0, 0.0
        self.loss = Running(self.device)
        self.keeper.record(self.last)
        self.keeper.end_epoch(self)
        self.listener.epoch_done(self.last)

    def _generator(self, *path: int) -> torch.Generator:
        return stream_generator(self.seed, *path, device=self.device)

    def _give_up(self, where: str) -> NoReturn:
        x = self.data.x
        if x is not None and not bool(x.isfinite().all()):
            raise NonFiniteError(f"a finite loss in {where}", "NaN or infinity in the node features", _REMEDY)
        bad = [name for name, value in self.model.named_parameters() if not bool(value.isfinite().all())]
        got = f"NaN or infinity, already in {bad[0]}" if bad else "a loss that overflows, all weights being finite"
        raise NonFiniteError(f"a finite loss in {where}", got, _REMEDY)

    def _clock(self) -> None:
        now = time.perf_counter()
        self.seconds += now - self._mark
        self.epoch_seconds += now - self._mark
        self._mark = now


def score_again(model: LinkNetwork, h: Tensor, pairs: Tensor, *, recompute: bool) -> Tensor:
    """Logits of ``pairs`` ``[2, P]``; with ``recompute`` the backward pass computes what lies between again."""
    return recomputed(model.score, h, pairs, norms=model.predictor) if recompute else model.score(h, pairs)
