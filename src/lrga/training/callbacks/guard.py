"""Stops a run when its loss is not finite, and reports where NaN or infinity first appears.

On a CPU every loss is checked before the optimiser's step. On a GPU a check synchronises, so it is done only every few
batches; on failure the epoch is repeated from a copy of its start, with a check of every loss, to find batch and layer.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from lrga.errors import NonFiniteError
from lrga.training.determinism import random_states, restore_random_states
from lrga.training.runs.checkpoint import capture, restore

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

CHECK_EVERY = 50  # batches between two checks on a GPU


class Guard:
    """Watches the losses of a :class:`~lrga.training.trainer.Trainer`."""

    def __init__(self, trainer: "Trainer") -> None:
        self.trainer = trainer
        self.every = CHECK_EVERY if trainer.device.type == "cuda" else 1
        self._start: tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None = None
        self._batch: Any = None
        self._random: dict[str, Tensor] = {}

    def begin(self) -> None:
        """Call when an epoch starts or resumes."""
        if self.every > 1:
            parts, state = capture(self.trainer)
            self._start = {part: {k: v.clone() for k, v in own.items()} for part, own in parts.items()}, state

    def before(self, batch: Any) -> None:
        """Call before a batch."""
        if self.every == 1:
            self._batch, self._random = batch, random_states(self.trainer.device)

    def check(self, loss: Tensor) -> None:
        """Checks the loss of a batch before the optimiser's step."""
        if self.every == 1:
            if not _is_finite(loss):
                self._give_up()
        elif self._is_due(number := self.trainer.batch + 1) and not _is_finite(self.trainer.problem.sums.total + loss):
            self._replay(number)

    def check_sum(self, *, now: bool = False) -> None:
        """Checks the sum of the losses if it is due after a captured step, or ``now``, before training pauses."""
        if (now or self._is_due(self.trainer.batch)) and not self.is_finite():
            self._replay(self.trainer.batch)

    def is_finite(self) -> bool:
        """Whether the losses of the epoch so far are finite; this synchronises a GPU."""
        return self.every == 1 or _is_finite(self.trainer.problem.sums.total)

    def check_evaluation(self, loss: float, split: str) -> None:
        """Checks the mean loss of an evaluation."""
        if math.isfinite(loss):
            return
        where = f"a finite loss in evaluating {split!r} after epoch {self.trainer.epoch + 1}"
        self._refuse(where, self.trainer.problem.diagnose_split(split))

    def _is_due(self, number: int) -> bool:
        return number % self.every == 0 or number == self.trainer.problem.batches

    def _give_up(self) -> NoReturn:
        trainer, problem = self.trainer, self.trainer.problem
        restore_random_states(self._random, trainer.device)
        where = f"a finite loss in epoch {trainer.epoch + 1}, batch {trainer.batch + 1} of {problem.batches}"
        self._refuse(f"{where} of {problem.name}" if len(trainer.stages) > 1 else where, problem.diagnose(self._batch))

    def _replay(self, last: int) -> NoReturn:
        trainer = self.trainer
        assert self._start is not None
        restore(trainer, *self._start)
        self.every = 1
        batches = trainer.problem.epoch_batches(trainer.epoch, trainer.batch)
        for batch in itertools.islice(batches, last - trainer.batch):
            trainer.step(batch)
        got = "finite losses when the epoch was repeated, with another order of sums and other random numbers"
        self._refuse(f"finite losses in epoch {trainer.epoch + 1} up to batch {last}", got)

    def _refuse(self, where: str, got: str | None) -> NoReturn:
        overflow = "finite outputs of every layer and a loss that overflows"
        raise NonFiniteError(where, got or overflow, self.trainer.problem.remedy)


def first_non_finite(model: nn.Module, run: Callable[[], Any], inputs: Mapping[str, Tensor | None]) -> str | None:
    """Reports where NaN or infinity first appears when ``run`` calls ``model``, in its current mode.

    ``None`` if ``inputs`` (by name) and the outputs of all modules, innermost first, are finite. To repeat a random
    pass, restore the random states before the call.
    """
    for name, values in inputs.items():
        if not _is_finite(values):
            return f"NaN or infinity in {name}"
    found: list[str] = []

    def watch(name: str, module: nn.Module, _: Any, output: Any) -> None:
        if not found and not _is_finite(output):
            bad = [key for key, value in module.named_parameters(recurse=False) if not _is_finite(value)]
            because = f"; parameters that are not finite: {' and '.join(bad)}" if bad else ""
            found.append(f"NaN or infinity first in the output of layer {name!r} ({type(module).__name__}){because}")

    hooks = [module.register_forward_hook(partial(watch, name)) for name, module in model.named_modules() if name]
    try:
        with torch.no_grad():
            output = run()
    finally:
        for hook in hooks:
            hook.remove()
    if not found and not _is_finite(output):
        found.append("NaN or infinity in the output of the model, but in none of its layers")
    return found[0] if found else None


def _is_finite(value: Any) -> bool:
    """Whether all values of a tensor, or of tensors in a tuple or list, are finite; other objects count as finite."""
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return all(map(_is_finite, value)) if isinstance(value, tuple | list) else True
