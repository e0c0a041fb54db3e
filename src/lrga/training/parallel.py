"""Runs of several processes that ``torchrun`` started: rank zero alone writes, and all ranks know what it knows.

What each process computes is the problem's business (:class:`~lrga.training.problems.graphs.ParallelGraphProblem`,
:class:`~lrga.training.problems.links.PartitionedLinkProblem`).
"""

import functools
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch.distributed as dist

from lrga.distributed.collectives import world_size
from lrga.distributed.launch import is_leader, joined, launched

P = ParamSpec("P")
R = TypeVar("R")


def on_all_ranks(function: Callable[P, R]) -> Callable[P, R]:
    """A function that takes a configuration first, run by all the processes that ``torchrun`` started together."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not launched() or dist.is_initialized():
            return function(*args, **kwargs)
        config: Any = args[0] if args else kwargs["config"]
        with joined(config.run.device):
            if not is_leader():
                kwargs["callbacks"] = ()
            return function(*args, **kwargs)

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


def launch_name() -> str | None:
    """Of this ``torchrun``, the same after it restarted its processes: they have one parent, which outlives them."""
    if not launched() or "TORCHELASTIC_RESTART_COUNT" not in os.environ:
        return None
    return f"{os.environ.get('TORCHELASTIC_RUN_ID', 'none')}-{os.getppid()}"
