"""Captured steps of link prediction: the whole graph in every step, pairs of a batch copied to where it reads them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lrga.tasks.losses import exact
from lrga.training.capture.engine import Captured, Engine
from lrga.training.evaluate import autocast

if TYPE_CHECKING:
    from lrga.training.problems.links import LinkProblem, Pairs
    from lrga.training.trainer import Trainer


class LinkEngine(Engine):
    """Runs the batches of a :class:`~lrga.training.problems.links.LinkProblem`: one recorded step for each number of
    pairs (all batches but the last have the same), and one for evaluation."""

    def __init__(self, trainer: "Trainer", problem: "LinkProblem") -> None:
        super().__init__(trainer)
        self.problem = problem
        edges, size = problem.edges.size(0), problem.options.batch_size
        self.sizes = sorted({min(size, edges), (edges - 1) % size + 1})
        self._pairs: dict[int, Pairs] = {size: (self._empty(size), self._empty(size)) for size in self.sizes}

    def prepare(self) -> None:
        self.problem.model.train()
        for size in self.sizes:
            self._ready[size] = self._training_step(size)
        self._ready["scores"] = self.captured(self.problem.scores)

    def describe(self) -> str:
        return f"captured steps for {' and '.join(f'{size:,}' for size in self.sizes)} edges"

    def rest_of_epoch(self) -> "Iterator[Pairs]":
        return self.problem.epoch_batches(self.trainer.epoch, self.trainer.batch)

    def step(self, work: "Pairs") -> None:
        size = work[0].size(1)
        run = self._ready.get(size) or self._ready.setdefault(size, self._training_step(size))
        assert run is not None
        for place, pairs in zip(self._pairs[size], work, strict=True):
            place.copy_(pairs)
        self.set_rate()
        run()
        self.problem.loss.weight += size
        self.trainer.end_step()
        self.trainer.guard.check_sum()

    def scores(self) -> "dict[str, Pairs]":
        run = self._ready.get("scores") or self._ready.setdefault("scores", self.captured(self.problem.scores))
        assert run is not None
        found: dict[str, Pairs] = run()
        return found

    def _empty(self, size: int) -> Tensor:
        return torch.zeros(2, size, dtype=torch.int64, device=self.device)

    def _training_step(self, size: int) -> Captured:
        problem, pairs = self.problem, self._pairs[size]
        self.set_rate()

        def step() -> None:
            with autocast(self.device, problem.options.precision):
                loss = problem.step_loss(pairs, 0, 0)
            with self.rate_on_device():
                self.trainer.descend(loss.loss)
            problem.loss.total += exact(loss.value) * size

        return self.captured(step, problem.loss.total)
