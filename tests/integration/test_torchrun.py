"""Training by several processes under torchrun: one is killed, the others name it, the restart loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

TRAIN = ["train", "CLUSTER", "--sizes", "24,4,4", "--hidden", "8", "--layers", "2", "--batch-size", "4"]
EPOCHS = 20


def start(folder, *more, restarts=0):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "--max-restarts", str(restarts), "-m", "lrga", *TRAIN, "--device", "cpu", *more]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "LRGA_DATA": str(folder / "data")}
    with open(folder / "errors.txt", "w") as errors:
        return subprocess.Popen(
            [*command, "--output", str(folder / "runs")], env=variables, stdout=subprocess.DEVNULL, stderr=errors
        )


def children_of(pid):
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout  # 1: none
    return [int(word) for word in text.split()]


def wait_for_epochs(folder, epochs, process):
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        lines = [line for path in folder.glob("runs/*/metrics.jsonl") for line in path.read_text().splitlines()]
        if len(lines) >= epochs:
            return
        time.sleep(0.05)
    pytest.fail((folder / "errors.txt").read_text()[-3000:])


def run_to_the_end(process, folder):
    try:
        assert process.wait(timeout=150) == 0, (folder / "errors.txt").read_text()[-3000:]
    finally:
        process.kill()
        process.wait()


def wait_for_ranks(process):
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if len(ranks := children_of(process.pid)) == 2:
            return ranks
        time.sleep(0.05)
    return pytest.fail("torchrun started no two processes")


def kill_one_after_two_epochs(folder, epochs):
    """Trains with one rank killed on the way and one restart allowed; its run folder and the number of the victim."""
    folder.mkdir()
    process = start(folder, "--epochs", str(epochs), "--checkpoint-minutes", "0", restarts=1)
    try:
        victim = wait_for_ranks(process)[-1]
        wait_for_epochs(folder, 2, process)
        os.kill(victim, signal.SIGKILL)
        # The epochs are many, so that the kill comes before the last one on a slow machine, too.
        assert not list(folder.glob("runs/*/result.json")), "the run ended before its rank was killed"
    finally:
        run_to_the_end(process, folder)
    (run,) = (folder / "runs").iterdir()  # the restart took no other folder, and no note of it is left
    return run, victim


@pytest.mark.slow  # test_launch.py kills a rank of processes that need not import PyTorch anew
def test_a_killed_rank_is_named_and_the_restart_ends_as_an_undisturbed_run_to_the_last_bit(tmp_path):
    folder, victim = kill_one_after_two_epochs(tmp_path / "run", EPOCHS)
    assert f"got rank 1 (process {victim} on" in (tmp_path / "run" / "errors.txt").read_text()
    assert "continues at epoch" in (folder / "log.txt").read_text()
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, EPOCHS + 1))
    assert (folder / "result.json").is_file()
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    run_to_the_end(start(quiet, "--epochs", str(EPOCHS)), quiet)
    (other,) = (quiet / "runs").iterdir()
    for name in ("model.safetensors", "best.safetensors"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()
