"""A link-prediction run killed by SIGKILL in a real process ends with the very weights of one that was not."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX's")

SCRIPT = """
import sys
from lrga.training import train
from lrga.training.presets import make_config
walks = {"walk_epochs": 3, "walk_length": 6, "walk_context": 3, "walk_batch_size": 8}
config = make_config(
    sys.argv[1], data_options={"task": "link"}, model=sys.argv[3], hidden=8, max_epochs=12, batch_size=20, seed=3,
    device="cpu", dropout=0.2, checkpoint_minutes=0.0, **(walks if sys.argv[3] == "node2vec" else {}),
)
print("ready", flush=True)
train(config, sys.argv[2])
"""


def start(edges, folder, model):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(edges), str(folder), model]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "ready\n"
    return process


def numbers(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "elapsed")} for line in lines]


@pytest.mark.parametrize("model", ["gcn", pytest.param("node2vec", marks=pytest.mark.slow)])
def test_a_run_killed_at_random_moments_ends_bit_equal(tmp_path, model):
    drawn = random.Random(5)
    edges = tmp_path / "edges.csv"
    pairs = {tuple(sorted(drawn.sample(range(40), 2))) for _ in range(200)}
    edges.write_text("".join(f"{a},{b}\n" for a, b in sorted(pairs)))
    with start(edges, tmp_path / "whole", model) as process:
        begin = time.monotonic()  # what it imports is not counted
        assert process.wait() == 0
    seconds = time.monotonic() - begin
    killed = 0
    for _ in range(2):
        with start(edges, tmp_path / "killed", model) as process:
            time.sleep(drawn.uniform(0.05, 0.4) * seconds)
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
    assert killed
    with start(edges, tmp_path / "killed", model) as process:
        assert process.wait() == 0
    for name in ("model.safetensors", "best.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")
    assert not list(Path(tmp_path / "killed" / "checkpoints").glob(".writing-*"))
