"""The training loop, the same for every problem."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lrga.checks import check_choice
from lrga.data.datasets.spec import SPLITS
from lrga.errors import NonFiniteError, OptionError
from lrga.training.callbacks.base import Callback, Checkpointer, EpochRecord
from lrga.training.callbacks.guard import Guard
from lrga.training.capture.engine import start_engine
from lrga.training.config import ENGINES
from lrga.training.evaluate import autocast
from lrga.training.optim import Schedule, WeightAverage, make_optimizer
from lrga.training.problems.problem import Problem

if TYPE_CHECKING:
    from lrga.training.capture.engine import Engine


@dataclass(frozen=True)
class Best:
    """The epoch with the best metric in validation, and its weights."""

    record: EpochRecord
    weights: dict[str, Tensor]


class Trainer:
    """Trains one or several problems in sequence.

    An epoch runs every batch once, in an order determined by seed and epoch, evaluates, and updates the learning rate.
    Training ends after ``max_epochs``, or when a plateau schedule falls below ``min_lr``.

    Args:
        *stages: Problems, for example :class:`~lrga.training.problems.graphs.GraphProblem`. Node2Vec has two
            stages, walks and links.
        callbacks: Called during training.
        checkpointer: Saves the run and decides when to pause.
        engine: ``"plain"`` for the plain loop; ``"captured"`` to replay captured steps
            (:mod:`lrga.training.capture.engine`); ``"auto"`` to do so on a GPU. If capturing is not possible, the
            plain loop is used and callbacks receive the reason.

    Example:
        >>> import lrga
        >>> from torch_geometric.data import Data
        >>> from lrga.data import PackedGraphs
        >>> from lrga.tasks import Task
        >>> from lrga.training import GraphProblem, OptimizerConfig
        >>> path = torch.tensor([[0, 1], [1, 0]])
        >>> data = [Data(x=torch.rand(2, 3), edge_index=path, y=torch.tensor([0.5])) for _ in range(4)]
        >>> splits = {name: PackedGraphs.from_data_list(data, y_level="graph") for name in ("train", "val", "test")}
        >>> task = Task(level="graph", kind="regression", out_channels=1, loss="l1", metric="mae")
        >>> problem = GraphProblem(lrga.GNN(3, 8, 1, 1, task="graph"), task, splits, OptimizerConfig(max_epochs=2))
        >>> Trainer(problem).fit()
        'max_epochs'
    """

    problem: Problem

    def __init__(
        self,
        *stages: Problem,
        callbacks: Sequence[Callback] = (),
        checkpointer: Checkpointer | None = None,
        engine: str = "plain",
    ) -> None:
        check_choice("engine", engine, ENGINES)
        self.stages, self.choice = stages, engine
        self.callbacks, self.checkpointer = list(callbacks), checkpointer or Checkpointer()
        self.ended = ""
        self.seconds, self.epoch_seconds, self._mark = 0.0, 0.0, time.perf_counter()
        self.records = 0  # number of recorded epochs
        self.last: EpochRecord | None = None
        self.best: Best | None = None
        self.numbers: dict[str, float] = {}
        self.start_stage(0)

    def start_stage(self, number: int) -> None:
        """Starts a stage: its problem, with a new optimiser."""
        self.stage, self.problem = number, self.stages[number]
        task = self.problem.task
        names = [] if task is None else ["loss", task.metric, *task.logged()]
        if len(set(names)) < len(names):
            expected = f"numbers of the task with names other than loss and {task.metric}"
            raise OptionError(expected, ", ".join(names[2:]), "choose other names")
        self._taken = {f"{name}/{split}" for name in names for split in SPLITS} | {f.name for f in fields(EpochRecord)}
        options, model = self.problem.options, self.problem.model
        parameters = [parameter for group in self.problem.parameter_groups() for parameter in group]
        self.optimizer = make_optimizer(model, parameters, options)
        self.schedule = Schedule(self.optimizer, options, self.problem.batches)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=options.precision == "fp16")
        decay = options.weight_average
        self.average = None if decay is None else WeightAverage(model, decay)
        self.engine: Engine | None = None
        self.epoch, self.batch = 0, 0  # finished epochs of the stage, finished batches of the next epoch
        self.rate = self.lr  # learning rate of the last step
        self.guard = Guard(self)

    @property
    def model(self) -> nn.Module:
        """The model in training."""
        return self.problem.model

    @property
    def device(self) -> torch.device:
        """The device of training."""
        return self.problem.device

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        return self.schedule.lr

    @property
    def position(self) -> tuple[int, int, int]:
        """Numbers of finished stages, epochs of the next stage, and batches of the next epoch."""
        return self.stage, self.epoch, self.batch

    @property
    def stage_ended(self) -> str | None:
        """Why the stage ended: ``"min_lr"`` or ``"max_epochs"``; ``None`` before the end."""
        if self.epoch > 0 and self.schedule.ended:
            return "min_lr"
        return "max_epochs" if self.epoch >= self.problem.options.max_epochs else None

    @property
    def finished(self) -> str | None:
        """Why training ended; ``None`` before the end."""
        return self.stage_ended if self.stage + 1 == len(self.stages) else None

    def notify(self, event: str, *args: Any) -> None:
        """Calls a method of every callback."""
        for callback in self.callbacks:
            getattr(callback, event)(*args)

    def log(self, name: str, value: float) -> None:
        """Adds a finite value, by a name of its own, to the record of the current epoch."""
        if not isinstance(name, str) or not name.strip() or name in self._taken:
            expected = f"a name for a logged value, other than {', '.join(sorted(self._taken))}"
            raise OptionError(expected, repr(name), "choose another name")
        self._record(name, value)

    def _record(self, name: str, value: float) -> None:
        with suppress(TypeError, ValueError, OverflowError):
            if math.isfinite(number := float(value)):
                self.numbers[name] = number
                return
        remedy = "pass one number, and only in epochs in which it is finite"
        raise NonFiniteError(f"a finite value to log as {name!r}", f"{value!r:.60}", remedy)

    def weights(self) -> dict[str, Tensor]:
        """The model's state dict for evaluation: with averaged weights if enabled, complete on every rank."""
        with nullcontext() if self.average is None else self.average.applied():
            return {name: value.clone() for name, value in self.problem.gather_all(self.model.state_dict()).items()}

    def fit(self) -> str:
        """Trains from the current position; returns why training ended or paused."""
        for _ in self.steps():
            continue
        return self.ended

    def steps(self) -> Iterator[None]:
        """Like :meth:`fit`, one batch at a time; afterwards :attr:`ended` says why training ended or paused."""
        while True:
            if self.engine is None and self.choice != "plain" and self.stage_ended is None:
                self.engine = start_engine(self)
            try:
                paused = yield from self._epochs()
            finally:
                if self.engine is not None:
                    self.engine.close()
            if paused is not None or self.stage + 1 == len(self.stages):
                self.ended = paused or str(self.stage_ended)
                return
            self.start_stage(self.stage + 1)

    def _epochs(self) -> Generator[None, None, str | None]:
        """Runs the epochs of a stage; returns why it paused, or ``None`` at the end."""
        while self.stage_ended is None:
            self.guard.begin()
            self.model.train()
            self._mark = time.perf_counter()
            step: Callable[[Any], None] = self.step
            if self.engine is None:
                batches = self.problem.epoch_batches(self.epoch, self.batch)
            else:
                batches, step = self.engine.rest_of_epoch(), self.engine.step
            for batch in batches:
                if (why := self.checkpointer.pause(self)) is not None:
                    self.guard.check_sum(now=True)
                    self.checkpointer.save(self)
                    return why
                step(batch)
                self._clock()
                epoch, done, total = self.epoch + 1, self.batch, self.problem.batches
                if not self.problem.is_evaluated:  # the whole stage counts as epoch 0
                    epoch, done = 0, self.epoch * total + done
                    total *= self.problem.options.max_epochs
                self.notify("on_batch_end", epoch, done, total)
                yield
            self._end_epoch()
        return None

    def step(self, batch: Any) -> None:
        """Runs one training step on a batch."""
        self.guard.before(batch)
        with autocast(self.device, self.problem.options.precision):
            step = self.problem.step_loss(batch, self.epoch, self.batch)
        self.guard.check(step.value)
        self.descend(step.loss)
        self.problem.sums.add(step.value, *step.scored, weight=step.weight)
        self.end_step()

    def descend(self, loss: Tensor) -> None:
        """Runs the backward pass of a loss and updates the weights."""
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.problem.reduce_gradients()
        if (limit := self.problem.options.clip_gradient) is not None:
            self.scaler.unscale_(self.optimizer)
            self.problem.clip_gradients(limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.average is not None:
            self.average.update()

    def end_step(self) -> None:
        """Updates position and learning rate after a step."""
        self.batch, self.rate = self.batch + 1, self.lr
        self.schedule.step()

    def _end_epoch(self) -> None:
        if not self.problem.is_evaluated:
            self.epoch, self.batch = self.epoch + 1, 0
            self.problem.sums.reset()
            self.checkpointer.end_epoch(self, None)
            return
        self.notify("on_evaluation_start", self.epoch + 1)
        with nullcontext() if self.average is None else self.average.applied():
            found = self.problem.evaluate(self)
            for split, (loss, _) in found.items():
                self.guard.check_evaluation(loss, split)
        for name, value in self.problem.numbers.items():
            self._record(name, value)
        self.schedule.end_epoch(found["val"][0])
        self.notify("on_evaluation_end", self)
        self._clock()
        self.last = EpochRecord(
            epoch=self.epoch + 1,
            lr=self.rate,
            **{f"{split}_loss": loss for split, (loss, _) in found.items()},
            **{f"{split}_metric": metric for split, (_, metric) in found.items()},
            seconds=round(self.epoch_seconds, 3),
            elapsed=round(self.seconds, 3),
            numbers=self.numbers,
        )
        self.numbers = {}
        if self.best is None or self.problem.task.is_better(self.last.val_metric, self.best.record.val_metric):
            self.best = Best(self.last, self.weights())
        self.epoch, self.batch, self.epoch_seconds = self.epoch + 1, 0, 0.0
        self.records += 1
        self.problem.sums.reset()
        self.checkpointer.end_epoch(self, self.last)
        self.notify("on_epoch_end", self.last)

    def _clock(self) -> None:
        now = time.perf_counter()
        self.seconds += now - self._mark
        self.epoch_seconds += now - self._mark
        self._mark = now
