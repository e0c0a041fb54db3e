"""Stops a run whose loss is no longer finite, and says where it broke.

On a CPU every loss is looked at before it does harm. On a GPU looking means waiting, so it is done now and then; the
epoch is then repeated from a copy taken at its start, looking at every loss, to find the batch and the layer.
"""

import itertools
import math
from typing import TYPE_CHECKING, Any, NoReturn

from torch import Tensor

from lrga.data.packed.batch import PackedBatch
from lrga.errors import NonFiniteError
from lrga.training.callbacks.diagnose import first_non_finite
from lrga.training.determinism import random_states, restore_random_states
from lrga.training.evaluate import autocast, in_mode
from lrga.training.runs.state import capture, restore

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

CHECK_EVERY = 50  # batches between two looks on a GPU
_CLIP = "clip gradients (--clip-gradient 1, in campaigns --set clip_gradient=1)"
_REMEDY = f"lower the learning rate, {_CLIP}, or look at the graphs of this batch"


class Guard:
    """Watches the losses of a :class:`~lrga.training.trainer.Trainer`."""

    def __init__(self, trainer: "Trainer") -> None:
        self.trainer = trainer
        self.every = CHECK_EVERY if trainer.device.type == "cuda" else 1
        self._start: tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None = None
        self._batch: PackedBatch | None = None
        self._random: dict[str, Tensor] = {}

    def begin(self) -> None:
        """An epoch begins, or goes on."""
        if self.every > 1:
            parts, state = capture(self.trainer)
            self._start = {part: {k: v.clone() for k, v in own.items()} for part, own in parts.items()}, state

    def before(self, batch: PackedBatch) -> None:
        """A batch is about to be run."""
        if self.every == 1:
            self._batch, self._random = batch, random_states(self.trainer.device)

    def check(self, loss: Tensor) -> None:
        """The loss of the batch, before the optimiser's step."""
        trainer = self.trainer
        number = trainer.batch + 1
        if self.every == 1:
            if not math.isfinite(loss.item()):
                self._give_up()
        elif (number % self.every == 0 or number == trainer.batches) and not math.isfinite(
            (trainer.sums.loss.total + loss.detach()).item()
        ):
            self._replay(number)

    def check_sum(self) -> None:
        """The sum of the losses after a step that nothing could look at: now and then, and at the end of an epoch."""
        number = self.trainer.batch
        if (number % self.every == 0 or number == self.trainer.batches) and not math.isfinite(
            self.trainer.sums.loss.total.item()
        ):
            self._replay(number)

    def is_finite(self) -> bool:
        """Whether the losses of the epoch so far are finite; a GPU is waited for."""
        return self.every == 1 or math.isfinite(self.trainer.sums.loss.total.item())

    def check_now(self) -> None:
        """The sum of the losses before training pauses."""
        if not self.is_finite():
            self._replay(self.trainer.batch)

    def check_evaluation(self, loss: float, split: str, batch_size: int) -> None:
        """The mean loss of an evaluation."""
        if math.isfinite(loss):
            return
        trainer = self.trainer
        where = f"a finite loss in evaluating {split!r} after epoch {trainer.epoch + 1}"
        with in_mode(trainer.model, training=False), autocast(trainer.device, trainer.options.precision):
            for number, batch in enumerate(trainer.splits[split].batches(batch_size), start=1):
                culprit = first_non_finite(trainer.model, batch)
                if culprit is not None:
                    raise NonFiniteError(f"{where}, batch {number} ({batch_size} graphs each)", culprit, _REMEDY)
        raise NonFiniteError(where, "finite outputs of every layer and a loss that overflows", _REMEDY)

    def _give_up(self) -> NoReturn:
        trainer = self.trainer
        assert self._batch is not None
        restore_random_states(self._random, trainer.device)
        with autocast(trainer.device, trainer.options.precision):
            culprit = first_non_finite(trainer.model, self._batch)
        where = f"a finite loss in epoch {trainer.epoch + 1}, batch {trainer.batch + 1} of {trainer.batches}"
        raise NonFiniteError(where, culprit or "finite outputs of every layer and a loss that overflows", _REMEDY)

    def _replay(self, last: int) -> NoReturn:
        trainer = self.trainer
        assert self._start is not None
        restore(trainer, *self._start)
        self.every = 1
        for batch in itertools.islice(trainer.rest_of_epoch(), last - trainer.batch):
            trainer.step(batch)
        got = "all finite when the epoch was repeated, with sums in another order and other random numbers"
        raise NonFiniteError(f"finite losses in epoch {trainer.epoch + 1} up to batch {last}", got, _REMEDY)
