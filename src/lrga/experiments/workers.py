"""Several processes that train the runs of one campaign at the same time, on one GPU or one CPU.

Each takes the next free run: run folders are locked, and records show which runs are done. All pause at the same
deadline. However they end, the same call resumes the campaign.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from lrga.checks import check_count
from lrga.errors import RankLostError
from lrga.experiments.campaign import Campaign, say_on_stderr
from lrga.experiments.cell import Cell
from lrga.experiments.records import CLOCK
from lrga.training.runs.run import Interrupted, StopRequest

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]
_STOPPED = {code for number in _SIGNALS for code in (128 + number, -number)}
_PATIENCE = 0.2  # seconds between two checks of the processes
# The signal by which the parent stops its processes; they block other signals. A batch system sends SIGUSR1 to all
# processes, and a second signal would end a process before it has written its checkpoint.
_STOP = signal.SIGTERM


def run_side_by_side(
    cells: Sequence[Cell],
    folder: str | Path,
    *,
    processes: int,
    time_limit: float | None = None,
    retry: bool = False,
    progress: bool = True,
) -> None:
    """Trains the missing runs of a campaign in several processes.

    Args:
        cells: The cells to run.
        folder: Folder of run folders and records.
        processes: Number of processes.
        time_limit: Minutes for all runs together.
        retry: Whether to repeat runs that diverged.
        progress: Whether to print a line on stderr when a run begins and ends.

    Raises:
        Interrupted: After Ctrl-C; every process has written a checkpoint.
        RankLostError: A process died.
    """
    check_count("number of processes", processes, minimum=1)
    began, deadline = time.strftime(CLOCK), None if time_limit is None else time.time() + 60 * time_limit
    Campaign(cells, folder, time_limit=time_limit).prepare()  # errors of data or device concern all runs
    if deadline is not None and time.time() >= deadline:
        return
    context = multiprocessing.get_context("spawn")  # CUDA does not work after a fork
    arguments = (tuple(cells), str(folder), deadline, retry, progress, began)
    workers = [context.Process(target=_work, args=(number, *arguments)) for number in range(1, processes + 1)]
    with StopRequest() as request:
        try:
            for worker in workers:
                worker.start()
            _wait(workers, request)
        finally:
            for worker in workers:
                if worker.is_alive():
                    worker.kill()
    codes = [worker.exitcode for worker in workers]
    if request.received is not None or any(code in _STOPPED for code in codes):
        name = request.received or "SIGTERM"
        raise Interrupted("Stopped after checkpoints. Run the same command to resume.", name)
    if any(codes):
        remedy = "see its last lines above; run the same command to resume"
        raise RankLostError("all processes to end with exit code 0", f"exit codes {codes}", remedy)


def _wait(workers: Sequence[BaseProcess], request: StopRequest) -> None:
    told = False
    while any(worker.is_alive() for worker in workers):
        time.sleep(_PATIENCE)
        if request.received is not None and not told:
            told = True
            for worker in workers:
                if worker.is_alive() and worker.pid is not None:
                    os.kill(worker.pid, _STOP)


def _work(
    number: int,
    cells: Sequence[Cell],
    folder: str,
    deadline: float | None,
    retry: bool,
    progress: bool,
    began: str,
) -> None:
    """One process: goes through all runs once and trains those that are free."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # only the parent receives Ctrl-C; it signals each process once
        signal.pthread_sigmask(signal.SIG_BLOCK, set(_SIGNALS) - {_STOP})
    threading.Thread(target=_follow_parent, daemon=True).start()
    left = None if deadline is None else (deadline - time.time()) / 60
    if left is not None and left <= 0:
        return

    def say(line: str) -> None:
        if not line.endswith("skipped"):
            say_on_stderr(f"({number}) {line}")

    campaign = Campaign(
        cells, folder, time_limit=left, retry=retry, say=say if progress else None, at_once=False, failed_since=began
    )
    try:
        campaign.run()
    except Interrupted as stop:
        sys.exit(stop.exit_code)


def _follow_parent() -> None:
    """Makes the process write a checkpoint and end if the parent is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), _STOP)
