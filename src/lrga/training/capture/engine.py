"""Training steps recorded as CUDA graphs and replayed; what the engines of all problems share.

Forward, loss, backward, clipping and the optimiser's step are recorded once per shape of a batch
(:mod:`lrga.training.capture.cuda_graph`) and then cost the launch of one CUDA graph; loss and metric are added up on
the device. What is computed is what the plain loop of :class:`~lrga.training.trainer.Trainer` computes, so that a run
begun in one loop continues in the other. On a CPU the same code runs without recording.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lrga.training.capture.cuda_graph import Captured, recording_stream, snapshot_of

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

CHECK_EVERY = 200  # batches between two looks at the losses


class Engine(ABC):
    """Runs the batches of a trainer in recorded steps.

    Args:
        trainer: Whose model, optimiser and sums are used. What it holds must stay where it is in memory.
    """

    def __init__(self, trainer: "Trainer") -> None:
        self.trainer, self.device = trainer, trainer.device
        self._rate, self._lr = -1.0, torch.zeros((), dtype=torch.float32, device=self.device)  # as Adam reads it
        self._generators = generators_of(trainer.model, self.device)
        self._stream = recording_stream(self.device)
        self._pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        self._ready: dict[Hashable, Captured | None] = {}

    @abstractmethod
    def prepare(self) -> None:
        """Records the usual steps at once; raises whatever stands in the way."""

    @abstractmethod
    def describe(self) -> str:
        """What was recorded, in words."""

    @abstractmethod
    def rest_of_epoch(self) -> Iterator[Any]:
        """The batches of this epoch that are not done: the trainer's own, in its order."""

    @abstractmethod
    def step(self, work: Any) -> None:
        """One step of the optimiser."""

    def evaluate(self, split: str) -> tuple[float, float]:
        """Loss and metric of a split."""
        raise TypeError(f"{type(self).__name__} evaluates all splits at once")

    def scores(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Scores of true and false pairs by split."""
        raise TypeError(f"{type(self).__name__} evaluates split by split")

    def recalibrate_norm(self) -> None:
        """Averages the statistics of BatchNorm afresh."""

    def why_differs(self) -> str | None:
        """Why recorded steps would compute something else than the plain loop, found by trying; ``None`` if not."""
        return None

    def close(self) -> None:
        """Gives the recorded steps back, at once rather than when garbage is collected, in the middle of another run's
        steps; what is run afterwards is recorded anew."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        for run in self._ready.values():
            if run is not None:
                run.close()
        self._ready.clear()

    def set_rate(self) -> None:
        """Writes the learning rate of the next step to the device, where it changed."""
        if self._rate != self.trainer.lr:
            self._rate = self.trainer.lr
            self._lr.fill_(self._rate)

    def captured(self, step: Callable[[], None], *touched: Tensor) -> Captured:
        """A step that changes the model, the optimiser and the tensors ``touched``, recorded."""
        trainer = self.trainer
        averages = [] if trainer.average is None else trainer.average.averages

        def snapshot() -> Callable[[], None]:
            others = [*touched, *averages]
            return snapshot_of(trainer.model, trainer.optimizer, trainer.scaler, others, self.device, self._generators)

        return Captured(step, self._stream, snapshot=snapshot, pool=self._pool, generators=self._generators)

    @contextmanager
    def rate_on_device(self) -> Iterator[None]:
        """The learning rate as a number of the device: a recorded step then follows when it changes."""
        if self.device.type != "cuda":
            yield
            return
        groups = self.trainer.optimizer.param_groups
        before = [(group["lr"], group.get("capturable")) for group in groups]
        for group in groups:
            group["lr"] = self._lr
            if "capturable" in group:
                group["capturable"] = torch.cuda.is_current_stream_capturing()
        try:
            yield
        finally:
            for group, (lr, capturable) in zip(groups, before, strict=True):
                group["lr"] = lr
                if "capturable" in group:
                    group["capturable"] = capturable


def generators_of(model: nn.Module, device: torch.device) -> list[torch.Generator]:
    """Sources of randomness that modules of the model hold, those on ``device``."""
    found = [getattr(module, "generator", None) for module in model.modules()]
    return [own for own in found if isinstance(own, torch.Generator) and own.device.type == device.type]
