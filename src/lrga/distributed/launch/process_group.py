"""Joins the processes started by ``torchrun`` into one group, monitors them, and leaves the group in order."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType

import torch
import torch.distributed as dist

from lrga.distributed.launch.monitor import INTERVAL, Monitor, lost_error
from lrga.errors import LRGAError, OptionError

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_BROKEN = ("gloo", "nccl", "connection", "socket", "broken pipe", "timed out", "store")
EXPLAIN_SECONDS = 12.0
TIMEOUT = timedelta(minutes=30)  # of one collective
_joins = 0  # how often this process has joined: one command may train several times
_group: "_Group | None" = None  # the group that this process has joined


def launched() -> bool:
    """Whether this process is one of several started by ``torchrun``, or by a launcher that sets the same variables."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and all(name in os.environ for name in _NEEDED)


def is_leader() -> bool:
    """Whether this process prints and writes files: rank 0, or the only process."""
    return not launched() or int(os.environ["RANK"]) == 0


def attempt() -> int:
    """How often ``torchrun`` has restarted the run."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def choose_backend(device: str) -> str:
    """``"nccl"`` if every process of this machine has its own GPU, else ``"gloo"``."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return "nccl" if device != "cpu" and gpus > 0 and local <= gpus and dist.is_nccl_available() else "gloo"


@contextmanager
def joined(device: str = "auto", *, patience: float | None = None) -> Iterator[None]:
    """Joins the process group for the duration of the block.

    If there are GPUs and ``device`` is not ``"cpu"``, each process uses the GPU of its local rank. If another rank
    stops, this one raises :class:`~lrga.errors.RankLostError` with its number; if this rank hangs in a collective, the
    process ends with the same message.

    Args:
        device: ``"auto"``, ``"cuda"`` or ``"cpu"``.
        patience: Seconds without a heartbeat after which a rank counts as lost.
    """
    if missing := [name for name in _NEEDED if name not in os.environ]:
        remedy = "start the script with torchrun --nproc-per-node N, which sets these variables"
        raise OptionError(f"the variables {', '.join(_NEEDED)}", f"no {', '.join(missing)}", remedy)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if ":" in device:
        raise OptionError(
            "auto, cpu or cuda for several ranks", repr(device), "pass 'cuda'; each rank uses its own GPU"
        )
    if device != "cpu" and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    global _group, _joins
    _joins += 1  # all ranks join equally often
    name = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}-{attempt()}-{_joins}"
    # A separate prefix for every start: torchrun keeps the store over restarts, with addresses of dead processes.
    hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    store = dist.TCPStore(host, port, world, is_master=hosts, timeout=TIMEOUT, wait_for_workers=False)
    group_store = dist.PrefixStore(f"lrga/group/{name}", store)
    dist.init_process_group(choose_backend(device), store=group_store, rank=rank, world_size=world, timeout=TIMEOUT)
    options = {} if patience is None else {"patience": patience}
    monitor = Monitor(rank, world, host=host, port=port, attempt=name, **options)
    with monitor, _patient() as patient:
        try:
            _group = _Group(dist.PrefixStore(f"lrga/turns/{name}", store), monitor)
            yield
            dist.barrier()
        except BaseException as error:
            patient.leaving = True
            if isinstance(error, RuntimeError) and not isinstance(error, LRGAError) and _is_broken(error):
                found = monitor.wait_for_lost(EXPLAIN_SECONDS)
                if found is not None:
                    monitor.conclude(found)
                    raise lost_error(world, found) from error
            monitor.report(f"{type(error).__name__}: {error}"[:2000])
            raise
        finally:
            _group = None
    dist.destroy_process_group()


@dataclass
class _Group:
    store: dist.Store
    monitor: Monitor
    turns: int = 0  # number of leader_first blocks


@contextmanager
def leader_first() -> Iterator[None]:
    """Runs the block on rank 0, then on the others; they wait as long as rank 0 sends heartbeats."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        yield
        return
    leader = dist.get_rank() == 0
    if _group is None:  # the group was not joined by `joined`: there is no monitor
        if not leader:
            dist.barrier()
        yield
        if leader:
            dist.barrier()
        return
    _group.turns += 1  # all ranks come here equally often
    key = str(_group.turns)
    while not leader and not _group.store.check([key]):
        if (found := _group.monitor.lost(_group.monitor.patience)) is not None:
            raise lost_error(dist.get_world_size(), found)
        time.sleep(INTERVAL)
    yield
    if leader:
        _group.store.set(key, "done")


def _is_broken(error: RuntimeError) -> bool:
    """Whether an error looks like a connection error."""
    text = f"{type(error).__name__} {error}".lower()
    return any(word in text for word in _BROKEN)


class _Patient:
    """Handles SIGTERM: the process ends, after a few seconds to find out which rank was lost. ``torchrun`` sends
    SIGTERM to all processes as soon as one dies."""

    leaving = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self.leaving:
            raise SystemExit(128 + signal.SIGTERM)


@contextmanager
def _patient() -> Iterator[_Patient]:
    patient = _Patient()
    if threading.current_thread() is not threading.main_thread():
        yield patient
        return
    before = signal.signal(signal.SIGTERM, patient.receive)
    try:
        yield patient
    finally:
        signal.signal(signal.SIGTERM, before)
