"""Runs scripts in processes of their own, alone or as the ranks of a process group, and collects what they report.

They are forked from one process that has imported PyTorch and this package already: to import both takes longer than
most of what the ranks compute.
"""

import json
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
import torch

import lrga

MAIN = Path(lrga.__file__).with_name("__main__.py")
# With a GPU each process starts afresh: what the server imports initialises CUDA, which a forked process cannot use.
CONTEXT = multiprocessing.get_context("spawn" if torch.cuda.is_available() else "forkserver")
multiprocessing.get_context("forkserver").set_forkserver_preload(
    ["torch", "torch_geometric.nn", "lrga.training.problems.links", "lrga.models.gnn"]
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Rank:
    """A process with the interface of :class:`subprocess.Popen`, as far as tests use it."""

    def __init__(self, rank: int, world: int, port: int, arguments: list[str]) -> None:
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        self.port = port
        self._start(arguments, environment)

    def _start(self, arguments: list[str], environment: dict[str, str], *more: str | None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.texts = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        texts = [str(text) for text in self.texts]
        self.process = CONTEXT.Process(target=_run, args=(arguments, environment, texts, *more))
        # The server keeps the environment of its first use, and a test may have switched the interpreter off by then.
        with pytest.MonkeyPatch.context() as patch:
            if not torch.cuda.is_available():
                patch.setenv("TRITON_INTERPRET", "1")
            self.process.start()

    @property
    def pid(self) -> int | None:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def communicate(self, timeout: float) -> tuple[str, str]:
        self.process.join(timeout)
        out, errors = (text.read_text() if text.exists() else "" for text in self.texts)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout, out, errors)
        return out, errors


class Command(Rank):
    """``lrga …`` in the current folder, with a terminal of its own where the name of one is given."""

    def __init__(self, *arguments: str, terminal: str | None = None) -> None:
        self._start([str(MAIN), *arguments], dict(os.environ), os.getcwd(), terminal)

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *error: object) -> None:
        end([self])


def _run(
    arguments: list[str],
    environment: dict[str, str],
    texts: list[str],
    folder: str | None = None,
    terminal: str | None = None,
) -> None:
    if terminal is not None:
        os.setsid()  # the terminal that a session opens first is its own
        texts = [terminal, terminal]
        os.dup2(os.open(terminal, os.O_RDWR), 0)
    for descriptor, path in zip((1, 2), texts, strict=True):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    if folder is not None:
        os.chdir(folder)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")  # as Python opens it
    os.environ.update(environment)
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


def start(script: Path, world: int, *arguments: str) -> list[Rank]:
    """One process for each rank; none of them is waited for."""
    port = free_port()
    return [Rank(rank, world, port, [str(script), *arguments]) for rank in range(world)]


def end(ranks: list[Rank]) -> None:
    """Ends whatever still runs."""
    for rank in ranks:
        rank.process.kill()
        rank.process.join()
        rank._folder.cleanup()


def run_alone(script: Path, *arguments: str, timeout: float = 300) -> tuple[int | None, str, str]:
    """Exit code, output and errors of a script."""
    (process,) = processes = start(script, 1, *arguments)
    try:
        texts = process.communicate(timeout)
        return process.returncode, *texts
    finally:
        end(processes)


def run_text(code: str, folder: Path) -> tuple[int | None, str, str]:
    """Exit code, output and errors of a script with this text."""
    (folder / "script.py").write_text(textwrap.dedent(code))
    return run_alone(folder / "script.py")


def run(script: Path, world: int, folder: Path, *arguments: str, timeout: float = 300) -> list[dict]:
    """Runs the script on all ranks; each writes ``folder/RANK.json``, which is returned."""
    ranks = start(script, world, str(folder), *arguments)
    try:
        ends = [rank.communicate(timeout=timeout) for rank in ranks]
        for number, (rank, (_, errors)) in enumerate(zip(ranks, ends, strict=True)):
            assert rank.returncode == 0, f"rank {number} ended with {rank.returncode}:\n{errors[-3000:]}"
    finally:
        end(ranks)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]
