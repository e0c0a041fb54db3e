"""Keeps a run in its folder while it trains."""

import time
from typing import Any

from lrga.training.callbacks.events import EpochRecord, Listener
from lrga.training.runs.checkpoint import checkpoint_name
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.signals import StopRequest
from lrga.training.runs.state import capture
from lrga.training.trainer import Checkpointer, Trainer

SAVE = "save"
EPOCH_SECONDS = 10.0  # epochs of a fraction of a second do not each need a checkpoint of their own


class FolderCheckpointer(Checkpointer):
    """Keeps a run in its folder; pauses at a deadline and on Ctrl-C."""

    def __init__(
        self, home: RunFolder, listener: Listener, request: StopRequest, minutes: float, deadline: float | None
    ) -> None:
        self.home, self.listener, self.request, self.deadline = home, listener, request, deadline
        self.seconds, self._saved_at, self._saved = 60 * minutes, time.monotonic(), ""

    def pause(self, trainer: Trainer) -> str | None:
        if (reason := self.reason(trainer)) != SAVE:
            return reason
        self.save(trainer)
        return None

    def reason(self, trainer: Trainer) -> str | None:
        """Why training pauses, :data:`SAVE` where only a checkpoint is due, ``None`` where nothing is."""
        if self.request.received is not None:
            return "interrupted"
        now = time.monotonic()
        if self.deadline is not None and now >= self.deadline:
            return "time_limit"
        # where the losses are not finite any more, the guard says so at its next look
        return SAVE if now - self._saved_at >= self.seconds and trainer.is_finite() else None

    def record(self, record: EpochRecord) -> None:
        self.home.append_metrics(record)

    def note(self, text: str, facts: dict[str, Any]) -> None:
        self.home.log(text)
        self.home.extend_environment(facts)

    def end_epoch(self, trainer: Trainer) -> None:
        if self.is_due(trainer):
            self.save(trainer)

    def is_due(self, trainer: Trainer) -> bool:
        """Whether to save after an epoch: the last, and any other where the last checkpoint is some seconds old."""
        return trainer.finished is not None or time.monotonic() - self._saved_at >= min(self.seconds, EPOCH_SECONDS)

    def save(self, trainer: Trainer) -> None:
        name = checkpoint_name(*trainer.position)
        if name != self._saved:  # where nothing was done since the last, there is nothing to save
            path = self.home.save_checkpoint(name, *capture(trainer))
            self.listener.checkpointed(path)
        self._saved, self._saved_at = name, time.monotonic()
