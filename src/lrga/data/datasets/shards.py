"""Long work in shards: several processes, progress, and what is finished survives a kill.

Each shard is one ``.npz`` file that appears whole or not at all; a build that starts again makes only those that are
missing or damaged. The work of a shard depends on its arguments alone, so the result depends neither on the number of
processes nor on how often the work was interrupted.

Processes are started as ``python -m lrga.data.datasets.shards`` rather than by :mod:`multiprocessing`, which would run
the caller's own script again in each of them (or, forking, copy a process whose threads it cannot).
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from lrga import errors
from lrga.data.datasets.prepared import read_arrays
from lrga.errors import ChecksumError, DataError, LRGAError, OptionError
from lrga.io.files import atomic_path
from lrga.io.progress import Progress

# What a worker may be asked for: a function of JSON values that returns arrays.
TASKS = {
    "tours": "lrga.data.datasets.tours:solve_instances",
    "regions": "lrga.data.datasets.superpixels.regions:cut_images",
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


def make_shards(shards: Sequence[Shard], folder: Path, *, workers: int, progress: Progress, label: str) -> list[Path]:
    """Makes every shard that ``folder`` does not hold yet; returns their files in the order of ``shards``."""
    missing = [shard for shard in shards if not _is_made(shard, folder)]
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
            make_shard(shard.name, shard.task, shard.arguments, folder)
            finished(shard)
    return [_path(shard.name, folder) for shard in shards]


def make_shard(name: str, task: str, arguments: Mapping[str, Any], folder: Path) -> None:
    """Does the work of one shard and writes its file."""
    if task not in TASKS:
        raise OptionError(f"one of the tasks {', '.join(TASKS)}", repr(task), "choose one of these")
    module, function = TASKS[task].split(":")
    arrays = getattr(import_module(module), function)(**arguments)
    with atomic_path(_path(name, folder), error=DataError) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)


def _path(name: str, folder: Path) -> Path:
    return folder / f"{name}.npz"


def _is_made(shard: Shard, folder: Path) -> bool:
    path = _path(shard.name, folder)
    if not path.exists():
        return False
    try:
        read_arrays(path, shard.arrays)
    except (ChecksumError, DataError):  # a disk's fault: the shard is made again
        path.unlink()
        return False
    return True


def _make_in_processes(
    shards: Sequence[Shard], folder: Path, *, workers: int, finished: Callable[[Shard], None]
) -> None:
    processes = [_start() for _ in range(workers)]
    idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
    for process in processes:
        idle.put(process)

    def make(shard: Shard) -> None:
        process = idle.get()
        try:
            _ask(process, shard, folder)
            finished(shard)
        finally:
            idle.put(process)

    pool = ThreadPoolExecutor(workers)  # each thread waits for one process
    try:
        for future in as_completed([pool.submit(make, shard) for shard in shards]):
            future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:  # none is at work, unless something went wrong or the user pressed Ctrl-C
            process.kill()
        pool.shutdown()
        for process in processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):  # a request that a dead worker did not take
                    if stream is not None:
                        stream.close()


def _start() -> subprocess.Popen[str]:
    # One thread each: the processes are the parallelism. A session of their own: Ctrl-C is ours to handle. A worker
    # whose parent was killed reads the end of its input and leaves.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", "lrga.data.datasets.shards"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
        start_new_session=True,
    )


def _ask(process: subprocess.Popen[str], shard: Shard, folder: Path) -> None:
    """Has ``process`` make one shard; raises the error that it reports."""
    request = {"name": shard.name, "task": shard.task, "arguments": dict(shard.arguments), "folder": str(folder)}
    answer = ""
    if process.stdin is not None and process.stdout is not None:
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:  # a broken pipe: said below
            answer = ""
    if not answer:
        raise DataError(
            f"shard {shard.name} from a worker process",
            f"the end of that process (exit code {process.wait()})",
            "start again: finished shards are kept; if memory is short, use --workers 1",
        )
    reply = json.loads(answer)
    if reply["error"] is not None:
        kind, arguments = reply["error"]
        raise rebuilt_error(kind, arguments)


def rebuilt_error(kind: str, arguments: list[str]) -> LRGAError:
    """The error that a worker reported: its class by name and the three parts of its message."""
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, LRGAError):
        return found(*arguments)
    return DataError("the work of a shard to succeed", f"{kind}: {' '.join(arguments)}", "start again, or report this")


def serve(requests: IO[str], answers: IO[str]) -> None:
    """The other side of :func:`make_shards`: answers one line for each line of ``requests`` until it ends.

    Example:
        >>> import io
        >>> answers = io.StringIO()
        >>> serve(io.StringIO('{"name": "a", "task": "none", "arguments": {}, "folder": "."}'), answers)
        >>> json.loads(answers.getvalue())["error"][0]
        'OptionError'
    """
    for line in requests:
        request = json.loads(line)
        error: tuple[str, list[str]] | None = None
        try:
            make_shard(request["name"], request["task"], request["arguments"], Path(request["folder"]))
        except LRGAError as problem:
            error = (type(problem).__name__, [problem.expected, problem.got, problem.remedy])
        except Exception as problem:  # whatever it is, the process that asked must hear of it
            error = (type(problem).__name__, [str(problem)])
        answers.write(json.dumps({"name": request["name"], "error": error}) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Compiled libraries print to file descriptor 1 as they like: answers get a descriptor of their own.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, output)
