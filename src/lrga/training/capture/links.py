"""Captured steps for link prediction: the whole graph in every step; the pairs of a batch are copied to its input."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from lrga.tasks.losses import exact
from lrga.training.capture.engine import Captured, Engine
from lrga.training.evaluate import autocast

if TYPE_CHECKING:
    from lrga.training.problems.links import LinkProblem, Pairs
    from lrga.training.trainer import Trainer


class LinkEngine(Engine):
    """Runs the batches of a :class:`~lrga.training.problems.links.LinkProblem`: one captured step for each number of
    pairs (all batches except the last have the same number), and one for evaluation."""

    def __init__(self, trainer: "Trainer", problem: "LinkProblem") -> None:
        super().__init__(trainer, problem)
        edges, size = problem.edges.size(0), problem.options.batch_size
        self.sizes = sorted({min(size, edges), (edges - 1) % size + 1})
        self._pairs = {size: torch.zeros(2, 2, size, dtype=torch.int64, device=self.device) for size in self.sizes}

    def prepare(self) -> None:
        self.problem.model.train()
        for size in self.sizes:
            self._step_of(size)
        self._scoring()

    def describe(self) -> str:
        return f"captured steps for {' and '.join(f'{size:,}' for size in self.sizes)} edges"

    def rest_of_epoch(self) -> "Iterator[Pairs]":
        return self.problem.epoch_batches(self.trainer.epoch, self.trainer.batch)

    def step(self, work: "Pairs") -> None:
        size = work[0].size(1)
        run = self._step_of(size)
        for place, pairs in zip(self._pairs[size], work, strict=True):
            place.copy_(pairs)
        run()
        self.problem.sums.weight += size
        self.trainer.end_step()
        self.trainer.guard.check_sum()

    def scores(self) -> "dict[str, Pairs]":
        return self._scoring()()

    def _scoring(self) -> Captured:
        return self.recorded("scores", lambda: self.captured(self.problem.scores))

    def _step_of(self, size: int) -> Captured:
        problem = self.problem
        edges, negative = self._pairs[size]

        def step() -> None:
            with autocast(self.device, problem.options.precision):
                loss = problem.step_loss((edges, negative), 0, 0)
            with self.rate_on_device():
                self.trainer.descend(loss.loss)
            problem.sums.total += exact(loss.value) * size

        self.set_rate()
        return self.recorded(size, lambda: self.captured(step, problem.sums.total))
