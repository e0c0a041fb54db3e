"""Logging for TensorBoard (an optional extra)."""

from pathlib import Path
from typing import Any

from lrga.errors import optional_module
from lrga.training.callbacks.base import Callback, EpochRecord, RunFacts


class TensorBoardLog(Callback):
    """Writes loss, metric and learning rate of every epoch to ``RUN/tensorboard``.

    A resumed run continues the same curves; values of lost epochs are not shown.
    """

    def __init__(self) -> None:
        self._writer: Any = None
        self._metric = ""
        optional_module("tensorboard", "to log curves", "tensorboard")  # before training starts

    def on_start(self, facts: RunFacts) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = (facts.folder or Path("runs")) / "tensorboard"
        self._writer = SummaryWriter(log_dir=str(folder), purge_step=facts.epoch + 1)
        self._metric = facts.task.metric

    def on_epoch_end(self, record: EpochRecord) -> None:
        for split in ("train", "val", "test"):
            self._writer.add_scalar(f"loss/{split}", getattr(record, f"{split}_loss"), record.epoch)
            self._writer.add_scalar(f"{self._metric}/{split}", getattr(record, f"{split}_metric"), record.epoch)
        for name, value in {"lr": record.lr, **record.numbers}.items():
            self._writer.add_scalar(name, value, record.epoch)
        self._writer.flush()

    def on_close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
