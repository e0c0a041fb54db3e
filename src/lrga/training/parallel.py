"""Runs of several processes that ``torchrun`` started: rank zero alone writes, and all ranks know what it knows.

What each process computes is the problem's business (:class:`~lrga.training.problems.graphs.ParallelGraphProblem`,
:class:`~lrga.training.problems.links.PartitionedLinkProblem`).
"""

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch.distributed as dist

from lrga.distributed.collectives import world_size
from lrga.distributed.launch import attempt, is_leader, joined, launched
from lrga.io.files import write_bytes

P = ParamSpec("P")
R = TypeVar("R")
_keeps_markers: ContextVar[bool] = ContextVar("keeps_markers", default=False)


def on_all_ranks(function: Callable[P, R]) -> Callable[P, R]:
    """A function that takes a configuration first, run by all the processes that ``torchrun`` started together."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not launched() or dist.is_initialized():
            return function(*args, **kwargs)
        config: Any = args[0]
        with joined(config.run.device):
            if not is_leader():
                kwargs["callbacks"] = ()
            result: Any = function(*args, **kwargs)
        # Not before all ranks have come to the end: one that is lost on the way begins the command anew.
        if result.finished:
            forget_folder(result.folder)
        return result

    return run


def rank_zero_only(default: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates what only rank zero does; it returns ``default`` on the other ranks."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(*args, **kwargs) if is_leader() else default

        return run

    return decorate


def broadcast(value: R) -> R:
    """What rank zero passes, on all ranks."""
    if world_size() == 1:
        return value
    values: list[Any] = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def folder_before_restart(base: Path) -> Path | None:
    """The folder that this command had chosen for a run called ``base`` before ``torchrun`` restarted it; ``None`` on
    the first start."""
    marker = _marker(base)
    if marker is None or attempt() == 0 or not marker.is_file():
        return None
    return base.with_name(marker.read_text(encoding="utf-8"))


@rank_zero_only(None)
def remember_folder(folder: Path, base: Path) -> None:
    """Writes a marker with the folder of a run called ``base``, for restarts of this command."""
    if (marker := _marker(base)) is not None:
        write_bytes(marker, folder.name.encode())


@rank_zero_only(None)
def forget_folder(folder: Path) -> None:
    """Deletes the marker of a run that is over, unless within :func:`markers_kept`."""
    prefix = _prefix()
    if prefix is None or _keeps_markers.get():
        return
    for marker in folder.parent.iterdir():
        if marker.name.startswith(prefix) and marker.read_text(encoding="utf-8") == folder.name:
            marker.unlink(missing_ok=True)


@contextmanager
def markers_kept(folders: Iterable[Path]) -> Iterator[None]:
    """Keeps the markers of runs that end inside the block until all have: a restart then finds those that are done."""
    token = _keeps_markers.set(True)
    try:
        yield
    finally:
        _keeps_markers.reset(token)
    for folder in folders:
        forget_folder(folder)


def _marker(base: Path) -> Path | None:
    """One file for each run of each ``torchrun``."""
    prefix = _prefix()
    return None if prefix is None else base.with_name(prefix + base.name)


def _prefix() -> str | None:
    """Of the markers of this ``torchrun``: its processes have one parent, which outlives them."""
    if not launched() or "TORCHELASTIC_RESTART_COUNT" not in os.environ:
        return None
    return f".torchrun-{os.environ.get('TORCHELASTIC_RUN_ID', 'none')}-{os.getppid()}-"
