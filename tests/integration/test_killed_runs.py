"""A run killed at any moment, by SIGKILL in a real process, ends with the very weights of one that was not."""

import json
import multiprocessing
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lrga.data.datasets.building import load
from lrga.io.progress import silent
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, train
from lrga.training.presets import make_config
from lrga.training.runs import checkpoint

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX's")


@pytest.fixture(scope="module")
def processes():
    """Starts processes that have the library imported already, and one thread each."""
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lrga.training", "lrga.data.datasets.building", "lrga.data.own.reading"])
    first = context.Process(target=time.monotonic)  # the server imports once, before anything is timed
    first.start()
    first.join()
    yield context
    del os.environ["OMP_NUM_THREADS"]
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = threads


def graph_config(folder, **options):
    """A run of a second with everything random in it, and a checkpoint at every batch."""
    load("CLUSTER", folder, sizes=(40, 8, 8), progress=silent)
    config = TrainingConfig(
        data=DataConfig(name="CLUSTER", root=str(folder), options={"sizes": (40, 8, 8)}),
        model=ModelConfig(model="gatedgcn", hidden=12, layers=2, rank=4, dropout=0.2),
        optimizer=OptimizerConfig(max_epochs=3, batch_size=8, patience=0, recalibrate_norm=2),
        run=RunConfig(seed=3, device="cpu", checkpoint_minutes=0.0),
    )
    return config.changed(**options)


def link_config(folder, model, **options):
    drawn = random.Random(5)
    pairs = {tuple(sorted(drawn.sample(range(40), 2))) for _ in range(200)}
    (folder / "edges.csv").write_text("".join(f"{a},{b}\n" for a, b in sorted(pairs)))
    return make_config(
        str(folder / "edges.csv"), data_options={"task": "link"}, model=model, hidden=8, max_epochs=4, batch_size=20,
        seed=3, device="cpu", dropout=0.2, checkpoint_minutes=0.0, **options,
    )  # fmt: skip


CONFIGS = {
    "graphs": graph_config,
    "captured graphs": lambda folder: graph_config(folder, engine="captured"),
    "links": lambda folder: link_config(folder, "gcn"),
    "walks": lambda folder: link_config(
        folder, "node2vec", walk_epochs=3, walk_length=6, walk_context=3, walk_batch_size=8
    ),
}


@dataclass
class Whole:
    """A run that nobody disturbed, and the seconds it took."""

    config: TrainingConfig
    folder: Path
    seconds: float
    context: Any


@pytest.fixture(scope="module")
def whole_run(processes, tmp_path_factory):
    """``whole_run(kind)``, made once for all tests."""
    made = {}

    def make(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp("whole")
            config, start = CONFIGS[kind](folder), time.monotonic()
            finish(processes, config, folder / "run")
            made[kind] = Whole(config, folder / "run", time.monotonic() - start, processes)
        return made[kind]

    return make


def train_and_save_every_epoch(config, folder):
    checkpoint.MIN_SECONDS = 0.0
    train(config, folder)


def finish(context, config, folder):
    process = context.Process(target=train, args=(config, folder))
    process.start()
    process.join(120)
    assert process.exitcode == 0


def kill_when(context, config, folder, ready, target=train):
    """Starts the run, kills it as soon as ``ready()``; returns whether it was still running then."""
    process = context.Process(target=target, args=(config, folder))
    process.start()
    limit = time.monotonic() + 120
    while process.is_alive() and not ready():
        assert time.monotonic() < limit
        time.sleep(0.0005)
    alive = process.is_alive()
    process.kill()
    process.join()
    return alive


def numbers(folder):
    """Lines of metrics.jsonl without their times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "elapsed")} for line in lines]


def assert_ends_as(whole, killed, config=None):
    """Finished now, the killed run is the whole one, and nothing half written is left."""
    finish(whole.context, config or whole.config, killed)
    for name in ("model.safetensors", "best.safetensors"):
        assert (killed / name).read_bytes() == (whole.folder / name).read_bytes(), name
    assert numbers(killed) == numbers(whole.folder)
    assert [line["epoch"] for line in numbers(killed)] == list(range(1, len(numbers(killed)) + 1))
    ours, theirs = (json.loads((folder / "result.json").read_text()) for folder in (killed, whole.folder))
    for key in ("test", "epochs", "stopped_by"):
        assert ours[key] == theirs[key]
    assert not list((killed / "checkpoints").glob(".writing-*"))


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("graphs", 2),
        ("links", 2),
        pytest.param("captured graphs", 2, marks=pytest.mark.slow),
        pytest.param("walks", 2, marks=pytest.mark.slow),
        pytest.param("graphs", 20, marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_at_random_moments_ends_bit_equal(whole_run, tmp_path, kind, count):
    whole = whole_run(kind)
    killed, chance, hits, tries = tmp_path / "killed", random.Random(count), 0, 0
    while hits < count:
        tries += 1
        assert tries < 5 * count, "the run ends before it can be killed"
        if (killed / "result.json").exists():  # a moment after its end: begin another run to kill
            assert_ends_as(whole, killed)
            killed = tmp_path / f"killed-{tries}"
        until = time.monotonic() + chance.uniform(0.05, 0.6) * whole.seconds
        hits += kill_when(whole.context, whole.config, killed, lambda until=until: time.monotonic() >= until)
    assert_ends_as(whole, killed)


def test_a_run_killed_within_a_checkpoint_and_within_an_epoch_ends_bit_equal(whole_run, tmp_path):
    whole, killed = whole_run("graphs"), tmp_path / "killed"
    folder = killed / "checkpoints"

    def writing_one():
        return any(name.startswith(".writing-") for name in os.listdir(folder)) if folder.is_dir() else False

    assert kill_when(whole.context, whole.config, killed, writing_one)

    def within_epoch_two():
        return any("0-000001-0000002" <= name < "0-000002" for name in os.listdir(folder))

    assert kill_when(whole.context, whole.config, killed, within_epoch_two)
    assert not (killed / "result.json").exists()
    assert_ends_as(whole, killed)


def a_checkpoint_of_the_first_epoch(run):
    return (run / "checkpoints" / "0-000001-0000000").is_dir()


def an_epoch_and_no_checkpoint(run):
    lines = run / "metrics.jsonl"
    return lines.is_file() and lines.read_bytes().count(b"\n") >= 1 and not (run / "checkpoints").exists()


@pytest.mark.parametrize(
    ("ready", "target"),
    [(a_checkpoint_of_the_first_epoch, train_and_save_every_epoch), (an_epoch_and_no_checkpoint, train)],
)
def test_epochs_after_the_last_checkpoint_are_repeated_bit_equal(whole_run, tmp_path, ready, target):
    whole, killed = whole_run("graphs"), tmp_path / "killed"
    config = whole.config.changed(checkpoint_minutes=10.0)
    assert kill_when(whole.context, config, killed, lambda: ready(killed), target)
    assert_ends_as(whole, killed, config)
