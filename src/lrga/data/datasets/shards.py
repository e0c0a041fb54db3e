"""Long work in shards: several processes, progress, and what is finished survives a kill.

Each shard is one ``.npz`` file that appears whole or not at all; a build that starts again makes only those that are
missing or damaged. The work of a shard depends on its arguments alone, so the result depends neither on the number of
processes nor on how often the work was interrupted.

Each shard has a process of its own, ``python -m lrga.data.datasets.shards``: :mod:`multiprocessing` would run the
caller's script again in each process (or, forking, copy a process whose threads it cannot).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from lrga import errors
from lrga.data.datasets.source import read_arrays
from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError, OptionError
from lrga.io.files import atomic_path
from lrga.io.progress import Progress

# What a worker may be asked for: a function of JSON values that returns arrays.
TASKS = {
    "tours": "lrga.data.datasets.tsp:solve_instances",
    "regions": "lrga.data.datasets.superpixels.images:cut_images",
}

POLL_SECONDS = 0.02


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
        """Whether its file is there and whole."""
        try:
            read_arrays(self.path(folder), self.arrays)
        except (DataMissingError, ChecksumError, DataError):  # not made yet, or a disk's fault: it is made again
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
    for shard in _make(missing, folder, workers):
        done += shard.items
        progress(label, done, total)
    return [shard.path(folder) for shard in shards]


def _make(shards: Sequence[Shard], folder: Path, workers: int) -> Iterator[Shard]:
    """Makes the shards, here or in so many processes at a time; gives each one when it is finished."""
    if workers == 1 or len(shards) == 1:
        for shard in shards:
            shard.make(folder)
            yield shard
        return
    waiting = list(reversed(shards))
    running: dict[subprocess.Popen[str], Shard] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                shard = waiting.pop()
                running[_start(shard, folder)] = shard
            time.sleep(POLL_SECONDS)
            for process in [process for process in running if process.poll() is not None]:
                shard = running.pop(process)
                _raise_error_of(process, shard)
                yield shard
    finally:  # of an error, or of Ctrl-C
        for process in running:
            process.kill()
            process.communicate()


def _start(shard: Shard, folder: Path) -> "subprocess.Popen[str]":
    # One thread each: the processes are the parallelism. A session of their own: Ctrl-C is ours to handle.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", "lrga.data.datasets.shards", str(folder), json.dumps(asdict(shard))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", env=environment, start_new_session=True)


def _raise_error_of(process: "subprocess.Popen[str]", shard: Shard) -> None:
    """Raises the error that the process of ``shard`` ended with, if any."""
    answer = process.communicate()[0]
    if process.returncode == 0:
        return
    if not answer:
        raise DataError(
            f"shard {shard.name} from a worker process",
            f"the end of that process (exit code {process.returncode})",
            "start again: finished shards are kept; if memory is short, use --workers 1",
        )
    kind, *arguments = json.loads(answer)
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, LRGAError):
        raise found(*arguments)
    raise DataError(f"to make shard {shard.name}", f"{kind}: {arguments[0]}", "start again, or report this")


def main(folder: str, shard: str) -> None:
    """What the process of a shard does; an error is written to its output."""
    # Compiled libraries print to file descriptor 1 as they like: the error gets a descriptor of its own.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        Shard(**json.loads(shard)).make(Path(folder))
    except Exception as error:  # whatever it is, the process that asked must hear of it
        words = (error.expected, error.got, error.remedy) if isinstance(error, LRGAError) else (str(error),)
        json.dump([type(error).__name__, *words], output)
        output.close()
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
