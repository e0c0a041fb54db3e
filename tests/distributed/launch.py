"""Starts real processes that form a process group on this machine, and collects what each of them reports."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment(rank: int, world: int, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def start(script: str, world: int, *arguments: str) -> list[subprocess.Popen]:
    """One process for each rank; none of them is waited for."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, str(HERE / script), *arguments],
            env=environment(rank, world, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def end(processes: list[subprocess.Popen]) -> None:
    """Ends whatever still runs, and closes its pipes."""
    for process in processes:
        process.kill()
        for pipe in (process.stdout, process.stderr):
            pipe.close()
        process.wait()


def run(script: str, world: int, folder: Path, *arguments: str, timeout: float = 300) -> list[dict]:
    """Runs the script on all ranks; each writes ``folder/RANK.json``, which is returned."""
    processes = start(script, world, str(folder), *arguments)
    try:
        ends = [process.communicate(timeout=timeout) for process in processes]
    finally:
        end(processes)
    for rank, (process, (_, errors)) in enumerate(zip(processes, ends, strict=True)):
        assert process.returncode == 0, f"rank {rank} ended with {process.returncode}:\n{errors[-3000:]}"
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]
