"""Training by the several processes that ``torchrun`` started: who writes, when all pause, what all know.

What each process computes is the problem's business (:class:`~lrga.training.problems.graphs.ParallelGraphProblem`,
:class:`~lrga.training.problems.links.PartitionedLinkProblem`).
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist

from lrga.distributed.collectives import world_size
from lrga.distributed.launch import is_leader, joined, launched
from lrga.training.runs.checkpointer import SAVE, FolderCheckpointer
from lrga.training.runs.ranks import forget_folder
from lrga.training.trainer import Trainer

P = ParamSpec("P")
R = TypeVar("R")
_REASONS = (None, SAVE, "time_limit", "interrupted")


def on_all_ranks(function: Callable[P, R]) -> Callable[P, R]:
    """A function that takes a configuration first, run by all the processes that ``torchrun`` started together."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not launched() or dist.is_initialized():
            return function(*args, **kwargs)
        config: Any = args[0]
        with joined(config.run.device):
            if not is_leader():
                kwargs["listeners"] = ()
            result: Any = function(*args, **kwargs)
        # Not before all ranks have come to the end: one that is lost on the way begins the command anew.
        if result.finished:
            forget_folder(result.folder)
        return result

    return run


class RanksCheckpointer(FolderCheckpointer):
    """Pauses and saves on all ranks at once, when one of them is asked to; rank 0 alone has a folder to write into."""

    def pause(self, trainer: Trainer) -> str | None:
        if trainer.device.type == "cuda" and trainer.batch % 16:  # asking means waiting for the GPU
            return None
        reason = self.reason(trainer)
        why = torch.tensor([_REASONS.index(reason)], device=trainer.device)
        dist.all_reduce(why, op=dist.ReduceOp.MAX)
        if (agreed := _REASONS[int(why)]) == SAVE:
            self.save(trainer)
            return None
        return agreed

    def end_epoch(self, trainer: Trainer) -> None:
        if broadcast(self.is_due(trainer)):
            self.save(trainer)


def checkpointer_class() -> type[FolderCheckpointer]:
    """What keeps the run."""
    return RanksCheckpointer if world_size() > 1 else FolderCheckpointer


def broadcast(value: R) -> R:
    """What rank 0 passes, on all ranks."""
    if world_size() == 1:
        return value
    told: list[Any] = [value]
    dist.broadcast_object_list(told, src=0)
    return told[0]
