"""The training loop."""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import PackedGraphs
from lrga.kernels.checks import check_choice
from lrga.tasks.task import Task
from lrga.training.callbacks.events import EpochRecord, Listener
from lrga.training.callbacks.guard import Guard
from lrga.training.capture.eligibility import start_engine
from lrga.training.capture.engine import Engine
from lrga.training.config import ENGINES, OptimizerConfig
from lrga.training.determinism import norm_generator, order_generator
from lrga.training.evaluate import Scores, autocast, evaluate, recalibrate_norm, run_model

AT_ONCE = 4  # batches of small graphs that one captured step evaluates


@dataclass(frozen=True)
class Best:
    """The epoch with the best metric in validation, and its weights."""

    record: EpochRecord
    weights: dict[str, Tensor]


class Keeper:
    """Keeps a run; this one keeps nothing and never pauses."""

    def pause(self, trainer: "Trainer") -> str | None:
        """Asked before every batch whether to stop for now, and why."""
        return None

    def record(self, record: EpochRecord) -> None:
        """Is given every epoch's numbers."""

    def note(self, text: str, facts: dict[str, Any]) -> None:
        """Is told which loop trains, in words and as JSON values."""

    def end_epoch(self, trainer: "Trainer") -> None:
        """Called after every epoch, after :meth:`record`: saves, or leaves it for later."""
        self.save(trainer)

    def save(self, trainer: "Trainer") -> None:
        """Called at the end of epochs and when pausing (:func:`lrga.training.runs.state.capture`)."""


class Trainer:
    """Trains a model on the splits of a data set.

    One epoch: every training graph once, in an order that follows from seed and epoch; evaluation of ``val`` and
    ``test``; the learning rate is lowered on a plateau of the validation loss. Training ends when it falls below
    ``min_lr`` or after ``max_epochs``.

    Args:
        model: Any module called as :class:`lrga.GNN` is, on the device of the graphs.
        task: What is predicted and how it is scored.
        splits: ``train``, ``val`` and ``test``, on one device.
        options: Learning rate, schedule, batches, precision.
        seed: Of the order of the graphs. (Weights and dropout follow PyTorch's own random state.)
        listener: Is told what happens.
        keeper: Writes down what happens, and says when to pause.
        engine: ``"plain"`` is the loop below; ``"captured"`` the same in :class:`~lrga.training.capture.engine.Engine`;
            ``"auto"`` the latter on a GPU. Where that is not possible the loop below trains, and the listener is told
            why.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        splits: Mapping[str, PackedGraphs],
        options: OptimizerConfig,
        *,
        seed: int = 41,
        listener: Listener | None = None,
        keeper: "Keeper | None" = None,
        engine: str = "plain",
    ) -> None:
        check_choice("engine", engine, ENGINES)
        self.model, self.task, self.splits, self.options, self.seed = model, task, splits, options, seed
        self.listener, self.keeper = listener or Listener(), keeper or Keeper()
        self.device, self.masked = splits["train"].device, "mask" in splits["train"].columns
        # One kernel for all parameters: these networks have hundreds of small ones, on a CPU several ms a step.
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=options.lr, weight_decay=options.weight_decay, fused=True
        )
        self.schedule = ReduceLROnPlateau(self.optimizer, factor=options.lr_factor, patience=options.patience)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=options.precision == "fp16")
        self.batches = math.ceil(len(splits["train"]) / options.batch_size)
        self.guard = Guard(self)
        self.choice, self.ended = engine, ""
        self.at_once = AT_ONCE
        self.engine: Engine | None = None
        self.epoch, self.batch, self.seconds = 0, 0, 0.0  # epochs done, batches of the next done, seconds of both
        self.epoch_seconds, self._mark = 0.0, time.perf_counter()
        self.sums = Scores(task, self.device)
        self.last: EpochRecord | None = None
        self.best: Best | None = None

    @property
    def lr(self) -> float:
        """The learning rate now."""
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def finished(self) -> str | None:
        """Why training is over: ``"min_lr"`` or ``"max_epochs"``; ``None`` while it is not."""
        if self.epoch > 0 and self.lr < self.options.min_lr:
            return "min_lr"
        return "max_epochs" if self.epoch >= self.options.max_epochs else None

    def is_finite(self) -> bool:
        """Whether the losses of the epoch so far are finite."""
        return self.guard.is_finite()

    def fit(self) -> str:
        """Trains on from where it stands; returns why it ended or paused."""
        for _ in self.steps():
            continue
        return self.ended

    def steps(self) -> Iterator[None]:
        """As :meth:`fit`, one batch at a time; afterwards :attr:`ended` says why it ended or paused."""
        if self.engine is None and self.choice != "plain" and self.finished is None:
            self.engine = start_engine(self)
        try:
            yield from self._epochs()
        finally:
            if self.engine is not None:
                self.engine.close()

    def _epochs(self) -> Iterator[None]:
        while self.finished is None:
            self.guard.begin()
            self.model.train()
            self._mark = time.perf_counter()
            for step in self._work():
                if (why := self.keeper.pause(self)) is not None:
                    self.guard.check_now()
                    self.keeper.save(self)
                    self.ended = why
                    return
                step()
                self._clock()
                self.listener.batch_done(self.epoch + 1, self.batch, self.batches)
                yield
            self._end_epoch()
        self.ended = self.finished

    def _work(self) -> Iterator[Callable[[], None]]:
        """The steps of this epoch that are not done."""
        if self.engine is not None:
            return (partial(self.engine.step, work) for work in self.engine.rest_of_epoch())
        return (partial(self.step, batch) for batch in self.rest_of_epoch())

    def rest_of_epoch(self) -> Iterator[PackedBatch]:
        """The batches of this epoch that are not done."""
        generator = order_generator(self.seed, self.epoch)
        batches = self.splits["train"].batches(self.options.batch_size, shuffle=True, generator=generator)
        return itertools.islice(batches, self.batch, None)

    def step(self, batch: PackedBatch) -> None:
        """One step of the optimiser."""
        self.guard.before(batch)
        with autocast(self.device, self.options.precision):
            scores, targets = self.task.select(run_model(self.model, batch), batch, masked=self.masked)
            loss = self.task.loss_of(scores, targets)
        self.guard.check(loss)
        self.descend(loss)
        self.sums.add(loss, scores, targets)
        self.batch += 1

    def descend(self, loss: Tensor) -> None:
        """Moves the weights along the gradient of a loss."""
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        if self.options.clip_gradient is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip_gradient)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _end_epoch(self) -> None:
        self.listener.evaluating(self.epoch + 1)
        options = self.options
        if options.recalibrate_norm and self.engine is not None:
            self.engine.recalibrate_norm()
        elif options.recalibrate_norm:
            with autocast(self.device, options.precision):
                recalibrate_norm(
                    self.model,
                    self.splits["train"],
                    batches=options.recalibrate_norm,
                    batch_size=options.batch_size,
                    generator=norm_generator(self.seed, self.epoch),
                )
        train_loss, train_metric = self.sums.means()
        val_loss, val_metric = self._evaluate("val")
        test_loss, test_metric = self._evaluate("test")
        lr = self.lr
        self.schedule.step(val_loss)
        self._clock()
        self.last = EpochRecord(
            epoch=self.epoch + 1,
            lr=lr,
            train_loss=train_loss,
            train_metric=train_metric,
            val_loss=val_loss,
            val_metric=val_metric,
            test_loss=test_loss,
            test_metric=test_metric,
            seconds=round(self.epoch_seconds, 3),
            elapsed=round(self.seconds, 3),
        )
        if self.best is None or self.task.is_better(val_metric, self.best.record.val_metric):
            self.best = Best(self.last, {name: value.clone() for name, value in self.model.state_dict().items()})
        self.epoch, self.batch, self.epoch_seconds = self.epoch + 1, 0, 0.0
        self.sums.reset()
        self.keeper.record(self.last)
        self.keeper.end_epoch(self)
        self.listener.epoch_done(self.last)

    def _evaluate(self, split: str) -> tuple[float, float]:
        size, precision = self.options.eval_batch_size or self.options.batch_size, self.options.precision
        if self.engine is not None:
            loss, metric = self.engine.evaluate(split)
        else:
            loss, metric = evaluate(self.model, self.splits[split], self.task, batch_size=size, precision=precision)
        self.guard.check_evaluation(loss, split, size)
        return loss, metric

    def _clock(self) -> None:
        now = time.perf_counter()
        self.seconds += now - self._mark
        self.epoch_seconds += now - self._mark
        self._mark = now
