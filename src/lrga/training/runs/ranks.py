"""The run folder of several ranks: rank 0 alone writes, and finds its folder again when ``torchrun`` restarts it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from torch import Tensor

from lrga.distributed.launch import attempt, is_leader, launched
from lrga.io.files import write_bytes
from lrga.training.callbacks.events import EpochRecord
from lrga.training.runs.checkpoint import Checkpoint, Tensors
from lrga.training.runs.folder import RunFolder

_kept: ContextVar[bool] = ContextVar("kept", default=False)


def run_folder(path: str | Path) -> RunFolder:
    """The folder of a run, for this rank."""
    return RunFolder(path) if is_leader() else FollowerFolder(path)


class FollowerFolder(RunFolder):
    """Stands for the run folder on ranks that have none: nothing is read or written; rank 0 tells what is there."""

    @property
    def holds_a_run(self) -> bool:
        return False

    def lock(self) -> AbstractContextManager[Any]:  # type: ignore[override]
        return nullcontext()

    def create(self, *args: Any, **kwargs: Any) -> None:
        """Rank 0 does."""

    def checkpoint(self) -> tuple[Checkpoint | None, list[str]]:
        return None, []

    def save_checkpoint(self, name: str, parts: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> Path:
        return self.path / "checkpoints" / name

    def append_metrics(self, record: EpochRecord) -> None:
        """Rank 0 does."""

    def cut_metrics(self, size: int) -> None:
        """Rank 0 does."""

    def history(self, size: int | None = None) -> tuple[EpochRecord, ...]:
        return ()

    def add_environment(self, *args: Any, **kwargs: Any) -> None:
        """Rank 0 does."""

    def extend_environment(self, *args: Any, **kwargs: Any) -> None:
        """Rank 0 does."""

    def log(self, text: str) -> None:
        """Rank 0 does."""

    def save_result(self, values: dict[str, Any], weights: dict[str, Tensors]) -> None:
        """Rank 0 does."""


def folder_before_restart(base: Path) -> Path | None:
    """The folder that this command had chosen for a run called ``base`` before ``torchrun`` restarted it; ``None`` on
    the first start."""
    marker = _marker(base)
    if marker is None or attempt() == 0 or not marker.is_file():
        return None
    return base.with_name(marker.read_text(encoding="utf-8"))


def remember_folder(folder: Path, base: Path) -> None:
    """Notes the folder of a run called ``base`` for restarts of this command."""
    marker = _marker(base)
    if marker is not None and is_leader():
        write_bytes(marker, folder.name.encode())


def forget_folder(folder: Path) -> None:
    """The run is over: the note is not needed any more, but for the other runs of :func:`notes_kept`."""
    prefix = _prefix()
    if prefix is None or not is_leader() or _kept.get():
        return
    for marker in folder.parent.iterdir():
        if marker.name.startswith(prefix) and marker.read_text(encoding="utf-8") == folder.name:
            marker.unlink(missing_ok=True)


@contextmanager
def notes_kept(folders: Iterable[Path]) -> Iterator[None]:
    """Keeps the notes of runs that end inside the block until all have: a restart then finds those that are done."""
    token = _kept.set(True)
    try:
        yield
    finally:
        _kept.reset(token)
    for folder in folders:
        forget_folder(folder)


def _marker(base: Path) -> Path | None:
    """One file for each run of each ``torchrun``."""
    prefix = _prefix()
    return None if prefix is None else base.with_name(prefix + base.name)


def _prefix() -> str | None:
    """Of the notes of this ``torchrun``: its processes have one parent, which outlives them."""
    if not launched() or "TORCHELASTIC_RESTART_COUNT" not in os.environ:
        return None
    return f".torchrun-{os.environ.get('TORCHELASTIC_RUN_ID', 'none')}-{os.getppid()}-"
