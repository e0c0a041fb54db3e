"""Keeps a run in its folder while it trains."""

import time
from typing import Any

from lrga.training.checkpoint import checkpoint_name
from lrga.training.events import EpochRecord, Listener
from lrga.training.run_folder import RunFolder
from lrga.training.signals import StopRequest
from lrga.training.state import capture
from lrga.training.trainer import Keeper, Trainer


class FolderKeeper(Keeper):
    """Keeps a run in its folder; pauses at a deadline and on Ctrl-C."""

    def __init__(
        self, home: RunFolder, listener: Listener, request: StopRequest, minutes: float, deadline: float | None
    ) -> None:
        self.home, self.listener, self.request, self.deadline = home, listener, request, deadline
        self.seconds, self._saved_at, self._saved = 60 * minutes, time.monotonic(), ""

    def pause(self, trainer: Trainer) -> str | None:
        if self.request.received is not None:
            return "interrupted"
        now = time.monotonic()
        if self.deadline is not None and now >= self.deadline:
            return "time_limit"
        # where the losses are not finite any more, the guard says so at its next look
        if now - self._saved_at >= self.seconds and trainer.is_finite():
            self.save(trainer)
        return None

    def record(self, record: EpochRecord) -> None:
        self.home.append_metrics(record)

    def note(self, text: str, facts: dict[str, Any]) -> None:
        self.home.log(text)
        self.home.extend_environment(facts)

    def save(self, trainer: Trainer) -> None:
        name = checkpoint_name(trainer.epoch, trainer.batch)
        if name != self._saved:  # where nothing was done since the last, there is nothing to save
            path = self.home.save_checkpoint(name, *capture(trainer))
            self.listener.checkpointed(path)
        self._saved, self._saved_at = name, time.monotonic()
