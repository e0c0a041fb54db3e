"""The part of a stage that depends on the problem; the loop is :class:`~lrga.training.trainer.Trainer`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from lrga.tasks.running import Scores
from lrga.training.callbacks.guard import first_non_finite
from lrga.training.config import OptimizerConfig
from lrga.training.evaluate import autocast

if TYPE_CHECKING:
    from lrga.training.capture.engine import Engine
    from lrga.training.trainer import Trainer


@dataclass(frozen=True)
class StepLoss:
    """The loss of a batch.

    Attributes:
        loss: The loss to minimise; with several processes, this rank's share of it.
        value: The reported loss of the whole batch, detached.
        scored: Scores and targets, if a metric is computed from them.
        weight: Weight of the batch in the mean over an epoch.
    """

    loss: Tensor
    value: Tensor
    scored: tuple[Tensor, ...] = ()
    weight: float = 1.0


class Problem(ABC):
    """One stage of a run: a model, the batches of an epoch, the loss of a batch, the evaluation of the splits.

    Attributes:
        name: Name of the stage, in checkpoints and messages.
        unit: Unit of the sizes of the splits.
        model: The model, on :attr:`device`.
        task: The task.
        options: Learning rate, schedule, batches, precision.
        seed: Seed of all randomness except weights and dropout.
        batches: Number of batches per epoch.
        numbers: Other numbers of the last evaluation, by name; they are recorded with it.
        remedy: Remedy for a loss that is not finite.
        is_evaluated: Whether epochs are evaluated and recorded; preparatory stages are not.
        engine: The engine for captured steps, if they can be captured.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "graphs"
    remedy: ClassVar[str] = (
        "lower the learning rate, clip gradients (--clip-gradient 1, in campaigns --set clip_gradient=1), or check "
        "the graphs of this batch"
    )
    is_evaluated: ClassVar[bool] = True
    engine: ClassVar["type[Engine]"]
    model: nn.Module
    task: Any
    options: OptimizerConfig
    device: torch.device
    seed: int
    batches: int
    numbers: Mapping[str, float] = MappingProxyType({})

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """The trained parameters; gradients of each group are clipped together."""
        return [list(self.model.parameters())]

    @abstractmethod
    def epoch_batches(self, epoch: int, first: int) -> Iterator[Any]:
        """The batches of an epoch (from 0), starting at batch ``first``, in an order determined by seed and epoch."""

    @abstractmethod
    def step_loss(self, batch: Any, epoch: int, number: int) -> StepLoss:
        """The loss of batch ``number`` of an epoch, both from 0."""

    @cached_property
    def sums(self) -> Scores:
        """The mean loss of the epoch so far, on the device, and a metric that training steps determine."""
        return Scores(None, self.device)

    def evaluate(self, trainer: "Trainer") -> dict[str, tuple[float, float]]:
        """Loss and metric of ``train``, ``val`` and ``test`` after an epoch; may set :attr:`numbers`."""
        raise TypeError(f"{type(self).__name__} is not evaluated")

    def restored(self) -> None:
        """Called after a checkpoint was loaded."""

    def why_not_captured(self) -> str | None:
        """Why steps cannot be captured as CUDA graphs, as far as known without a capture; ``None`` if they can."""
        return f"{self.name} cannot be captured"

    def diagnose(self, batch: Any) -> str | None:
        """The layer in which NaN or infinity first appears in a step on a batch; ``None`` if in none of them."""
        with autocast(self.device, self.options.precision):
            return first_non_finite(self.model, lambda: self.step_loss(batch, 0, 0), {})

    def diagnose_split(self, split: str) -> str | None:
        """:meth:`diagnose` for the evaluation of a split; also names the batch."""
        return None

    # Hooks for several processes that share the work; the defaults are for one process.

    def whole_model(self, weights: dict[str, Tensor]) -> nn.Module:
        """The trained model with these weights, for a single process."""
        self.model.load_state_dict(weights)
        return self.model

    def reduce_gradients(self) -> None:
        """Adds up the gradients of all processes."""

    def clip_gradients(self, limit: float) -> None:
        """Scales the gradients of each group down to a norm of at most ``limit``."""
        for group in self.parameter_groups():
            nn.utils.clip_grad_norm_(group, limit)

    def gather_all(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The complete tensors of a state dict of the model, or of a part of it."""
        parameters = dict(self.model.named_parameters())
        return {k: self.gather(parameters[k], v) if k in parameters else v for k, v in values.items()}

    def gather(self, parameter: nn.Parameter, value: Tensor) -> Tensor:
        """The complete tensor of a parameter (value or moment) from this process's part."""
        return value

    def take(self, parameter: nn.Parameter, value: Tensor) -> Tensor:
        """This process's part of a result of :meth:`gather`."""
        return value
