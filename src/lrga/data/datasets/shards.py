"""Long work in shards: several processes, progress, and what is finished survives a kill.

Each shard is one ``.npz`` file that appears whole or not at all; a build that starts again makes only those that are
missing or damaged. The work of a shard depends on its arguments alone, so the result depends neither on the number of
processes nor on how often the work was interrupted.

Processes are started as ``python -m lrga.data.datasets.shards`` rather than by :mod:`multiprocessing`, which would run
the caller's own script again in each of them (or, forking, copy a process whose threads it cannot).
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from lrga import errors
from lrga.data.datasets.source import read_arrays
from lrga.errors import ChecksumError, DataError, LRGAError, OptionError
from lrga.io.files import atomic_path
from lrga.io.progress import Progress

# What a worker may be asked for: a function of JSON values that returns arrays.
TASKS = {
    "tours": "lrga.data.datasets.tsp:solve_instances",
    "regions": "lrga.data.datasets.superpixels.images:cut_images",
}


@dataclass(frozen=True)
class Shard:
    """One shard: its file is ``name + ".npz"``, its content what ``task`` makes of ``arguments`` (JSON values).

    ``items`` is how many units of progress it counts for, ``arrays`` what its file must hold.
    """

    name: str
    task: str
    arguments: Mapping[str, Any]
    items: int
    arrays: tuple[str, ...]

    def path(self, folder: Path) -> Path:
        """Its file in ``folder``."""
        return folder / f"{self.name}.npz"

    def is_made(self, folder: Path) -> bool:
        """Whether its file is there; a damaged one is deleted."""
        if not self.path(folder).exists():
            return False
        try:
            read_arrays(self.path(folder), self.arrays)
        except (ChecksumError, DataError):  # a disk's fault: the shard is made again
            self.path(folder).unlink()
            return False
        return True

    def make(self, folder: Path) -> None:
        """Does its work and writes its file."""
        if self.task not in TASKS:
            raise OptionError(f"one of the tasks {', '.join(TASKS)}", repr(self.task), "choose one of these")
        module, function = TASKS[self.task].split(":")
        arrays = getattr(import_module(module), function)(**self.arguments)
        with atomic_path(self.path(folder), error=DataError) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **arrays)


def make_shards(shards: Sequence[Shard], folder: Path, *, workers: int, progress: Progress, label: str) -> list[Path]:
    """Makes every shard that ``folder`` does not hold yet; returns their files in the order of ``shards``."""
    missing = [shard for shard in shards if not shard.is_made(folder)]
    total = sum(shard.items for shard in shards)
    done = total - sum(shard.items for shard in missing)
    progress(label, done, total)
    lock = threading.Lock()

    def finished(shard: Shard) -> None:
        nonlocal done
        with lock:
            done += shard.items
            progress(label, done, total)

    if workers > 1 and len(missing) > 1:
        _make_in_processes(missing, folder, workers=min(workers, len(missing)), finished=finished)
    else:
        for shard in missing:
            shard.make(folder)
            finished(shard)
    return [shard.path(folder) for shard in shards]


def _make_in_processes(
    shards: Sequence[Shard], folder: Path, *, workers: int, finished: Callable[[Shard], None]
) -> None:
    processes = [_start(folder) for _ in range(workers)]

    def make(process: "subprocess.Popen[str]", own: Sequence[Shard]) -> None:
        for shard in own:
            _ask(process, shard)
            finished(shard)

    pool = ThreadPoolExecutor(workers)  # each thread waits for one process
    try:
        jobs = [pool.submit(make, process, shards[number::workers]) for number, process in enumerate(processes)]
        for job in as_completed(jobs):
            job.result()
    finally:
        for process in processes:  # none is at work, unless something went wrong or the user pressed Ctrl-C
            process.kill()
        pool.shutdown()
        for process in processes:
            process.communicate()


def _start(folder: Path) -> "subprocess.Popen[str]":
    # One thread each: the processes are the parallelism. A session of their own: Ctrl-C is ours to handle. A worker
    # whose parent was killed reads the end of its input and leaves.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", "lrga.data.datasets.shards", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
        start_new_session=True,
    )


def _ask(process: "subprocess.Popen[str]", shard: Shard) -> None:
    """Has ``process`` make one shard; raises the error that it reports."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asdict(shard)) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    except OSError:  # a broken pipe
        answer = ""
    if not answer:
        raise DataError(
            f"shard {shard.name} from a worker process",
            f"the end of that process (exit code {process.wait()})",
            "start again: finished shards are kept; if memory is short, use --workers 1",
        )
    if (reply := json.loads(answer)) is not None:
        kind, arguments = reply
        found = getattr(errors, kind, None)
        if isinstance(found, type) and issubclass(found, LRGAError):
            raise found(*arguments)
        raise DataError(f"to make shard {shard.name}", f"{kind}: {arguments[0]}", "start again, or report this")


def serve(requests: IO[str], answers: IO[str], folder: Path) -> None:
    """The other side of :func:`make_shards`: for each shard that is asked for, a line with ``null`` or the error."""
    for line in requests:
        error: tuple[str, list[str]] | None = None
        try:
            Shard(**json.loads(line)).make(folder)
        except LRGAError as problem:
            error = (type(problem).__name__, [problem.expected, problem.got, problem.remedy])
        except Exception as problem:  # whatever it is, the process that asked must hear of it
            error = (type(problem).__name__, [str(problem)])
        answers.write(json.dumps(error) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Compiled libraries print to file descriptor 1 as they like: answers get a descriptor of their own.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, output, Path(sys.argv[1]))
