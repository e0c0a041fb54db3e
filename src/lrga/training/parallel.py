"""Runs of several processes started by ``torchrun``: only rank zero writes, and it broadcasts its decisions.

The problem determines what each process computes (:class:`~lrga.training.problems.graphs.ParallelGraphProblem`,
:class:`~lrga.training.problems.links.PartitionedLinkProblem`).
"""

import functools
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch.distributed as dist

from lrga.distributed.collectives import world_size
from lrga.distributed.launch.process_group import is_leader, joined, launched

P = ParamSpec("P")
R = TypeVar("R")


def on_all_ranks(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function with a configuration as first argument: it joins the process group of ``torchrun``."""

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
    """Decorates a function that only rank zero runs; it returns ``default`` on the other ranks."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(*args, **kwargs) if is_leader() else default

        return run

    return decorate


def broadcast(value: R) -> R:
    """Returns the value of rank zero on all ranks."""
    if world_size() == 1:
        return value
    values: list[Any] = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def launch_name() -> str | None:
    """An id of this ``torchrun``, unchanged when it restarts its processes: their parent process stays the same."""
    if not launched() or "TORCHELASTIC_RESTART_COUNT" not in os.environ:
        return None
    return f"{os.environ.get('TORCHELASTIC_RUN_ID', 'none')}-{os.getppid()}"
