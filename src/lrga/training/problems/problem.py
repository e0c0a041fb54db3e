"""What a stage of a run trains; :class:`~lrga.training.trainer.Trainer` does the rest."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from lrga.tasks.running import Running
from lrga.training.config import OptimizerConfig

if TYPE_CHECKING:
    from lrga.training.capture.engine import Engine
    from lrga.training.trainer import Trainer


@dataclass(frozen=True)
class StepLoss:
    """The loss of a batch.

    Attributes:
        loss: What is minimised; one rank's share of it where several processes train.
        value: What is reported, detached: the loss of the whole batch.
        scored: Scores and targets, where a metric is computed from them.
        weight: Of the batch in the mean over an epoch.
    """

    loss: Tensor
    value: Tensor
    scored: tuple[Tensor, ...] = ()
    weight: float = 1.0


class Problem(ABC):
    """One stage of a run: a model, the batches of an epoch, the loss of a batch, the evaluation of the splits.

    Attributes:
        name: Of the stage, in checkpoints and messages.
        unit: What is counted in the sizes of the splits.
        model: What is trained, on :attr:`device`.
        task: What is predicted.
        options: Learning rate, schedule, batches, precision.
        seed: Of everything random beside weights and dropout.
        batches: Batches of an epoch.
        remedy: What to do about a loss that is not finite.
        is_evaluated: Whether epochs are evaluated and recorded; a stage that only prepares another one is not.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "graphs"
    remedy: ClassVar[str] = (
        "lower the learning rate, clip gradients (--clip-gradient 1, in campaigns --set clip_gradient=1), or look at "
        "the graphs of this batch"
    )
    is_evaluated: ClassVar[bool] = True
    model: nn.Module
    task: Any
    options: OptimizerConfig
    device: torch.device
    seed: int
    batches: int

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """The trained parameters; gradients of each group are clipped together."""
        return [list(self.model.parameters())]

    @abstractmethod
    def epoch_batches(self, epoch: int, first: int) -> Iterator[Any]:
        """The batches of an epoch (from 0) from batch ``first`` on, in an order that follows from seed and epoch."""

    @abstractmethod
    def step_loss(self, batch: Any, epoch: int, number: int) -> StepLoss:
        """The loss of a batch, the ``number``-th of the epoch, both from 0."""

    @cached_property
    def loss(self) -> Running:
        """The mean loss of the epoch so far, on the device."""
        return Running(self.device)

    def add(self, step: StepLoss) -> None:
        """Adds a batch to the running sums of the epoch."""
        self.loss.add(step.value, weight=step.weight)

    def total_loss(self) -> Tensor:
        """The sum of the losses of the epoch so far, on the device."""
        return self.loss.total

    def evaluate(self, trainer: "Trainer") -> dict[str, tuple[float, float]]:
        """Loss and metric of ``train``, ``val`` and ``test`` after an epoch."""
        raise TypeError(f"{type(self).__name__} is not evaluated")

    def end_epoch(self) -> None:
        """An epoch is over: the sums begin anew."""
        self.loss.reset()

    def numbers(self) -> dict[str, float]:
        """Further numbers of an epoch worth recording, by name."""
        return {}

    def state(self) -> dict[str, Any]:
        """The running sums of the epoch as JSON values."""
        return {"loss": self.loss.state()}

    def restore(self, state: Any) -> None:
        """Continues from what :meth:`state` gave."""
        self.loss.restore(state["loss"])

    def why_not_captured(self) -> str | None:
        """Why steps cannot be recorded as CUDA graphs, as far as is known without trying; ``None`` if they can."""
        return f"{self.name} cannot be captured"

    def make_engine(self, trainer: "Trainer") -> "Engine":
        """What runs recorded steps."""
        raise TypeError(f"{type(self).__name__} has no captured steps")

    def diagnose(self, batch: Any) -> str | None:
        """Where NaN or infinity first appears when the model is run on a batch; ``None`` where it does not."""
        return None

    def diagnose_split(self, split: str) -> str | None:
        """The same for the evaluation of a split, with the batch in which it appears."""
        return None

    # Several processes each have a share of the work; one process has all of it.

    def whole_model(self, weights: dict[str, Tensor]) -> nn.Module:
        """The trained model with these weights, as one process uses it."""
        self.model.load_state_dict(weights)
        return self.model

    def reduce_gradients(self) -> None:
        """Adds up the gradients of all processes."""

    def clip_gradients(self, limit: float) -> None:
        """Scales the gradients of each group down to a norm of at most ``limit``."""
        for group in self.parameter_groups():
            nn.utils.clip_grad_norm_(group, limit)

    def gather(self, parameter: nn.Parameter, value: Tensor) -> Tensor:
        """A tensor that belongs to a parameter (its value, its moments), whole, from this process's part."""
        return value

    def take(self, parameter: nn.Parameter, value: Tensor) -> Tensor:
        """This process's part of what :meth:`gather` gave."""
        return value
