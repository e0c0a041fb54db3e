"""A run killed at any moment, by SIGKILL in a real process, ends with the very weights of one that was not."""

import json
import multiprocessing
import os
import random
import time

import pytest

from lrga.data.datasets.building import load
from lrga.io.progress import silent
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, train
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


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    load("CLUSTER", folder, sizes=(40, 8, 8), progress=silent)
    return folder


def config_of(root, **options):
    """A run of some two seconds with everything random in it, and a checkpoint at every batch."""
    config = TrainingConfig(
        data=DataConfig(name="CLUSTER", root=str(root), options={"sizes": (40, 8, 8)}),
        model=ModelConfig(model="gatedgcn", hidden=12, layers=2, rank=4, dropout=0.2),
        optimizer=OptimizerConfig(max_epochs=6, batch_size=8, patience=0, recalibrate_norm=2),
        run=RunConfig(seed=3, device="cpu", checkpoint_minutes=0.0),
    )
    return config.changed(**options)


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


def assert_same_end(killed, whole):
    for name in ("model.safetensors", "best.safetensors"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert numbers(killed) == numbers(whole)
    assert [line["epoch"] for line in numbers(killed)] == list(range(1, len(numbers(killed)) + 1))
    ours, theirs = (json.loads((folder / "result.json").read_text()) for folder in (killed, whole))
    assert (ours["test"], ours["epochs"], ours["stopped_by"]) == (
        theirs["test"],
        theirs["epochs"],
        theirs["stopped_by"],
    )


def kill_at_random_moments(context, root, tmp_path, count, seed):
    config = config_of(root)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    start = time.monotonic()
    finish(context, config, whole)
    seconds = time.monotonic() - start
    chance, hits, tries = random.Random(seed), 0, 0
    while hits < count:
        tries += 1
        assert tries < 5 * count, "the run ends before it can be killed"
        if (killed / "result.json").exists():  # a moment after its end: begin another run to kill
            finish(context, config, killed)
            assert_same_end(killed, whole)
            killed = tmp_path / f"killed-{tries}"
        until = time.monotonic() + chance.uniform(0.05, 0.6) * seconds
        hits += kill_when(context, config, killed, lambda until=until: time.monotonic() >= until)
    finish(context, config, killed)
    assert_same_end(killed, whole)


def test_a_run_killed_at_random_moments_ends_bit_equal(processes, root, tmp_path):
    kill_at_random_moments(processes, root, tmp_path, count=5, seed=1)


@pytest.mark.slow
def test_a_run_killed_at_20_random_moments_ends_bit_equal(processes, root, tmp_path):
    kill_at_random_moments(processes, root, tmp_path, count=20, seed=2)


def test_a_run_killed_within_a_checkpoint_and_within_an_epoch_ends_bit_equal(processes, root, tmp_path):
    config = config_of(root, max_epochs=3)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(processes, config, whole)
    folder = killed / "checkpoints"

    def writing_one():
        return any(name.startswith(".writing-") for name in os.listdir(folder)) if folder.is_dir() else False

    assert kill_when(processes, config, killed, writing_one)

    def within_epoch_two():
        return any("0-000001-0000002" <= name < "0-000002" for name in os.listdir(folder))

    assert kill_when(processes, config, killed, within_epoch_two)
    assert not (killed / "result.json").exists()
    finish(processes, config, killed)
    assert_same_end(killed, whole)


def test_without_checkpoints_within_epochs_the_epoch_is_repeated_bit_equal(processes, root, tmp_path):
    config = config_of(root, max_epochs=3, checkpoint_minutes=10.0)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(processes, config, whole)

    def after_one_epoch():
        return (killed / "checkpoints" / "0-000001-0000000").is_dir()

    assert kill_when(processes, config, killed, after_one_epoch, train_and_save_every_epoch)
    finish(processes, config, killed)
    assert_same_end(killed, whole)


def test_epochs_after_the_last_checkpoint_are_repeated_bit_equal(processes, root, tmp_path):
    config = config_of(root, checkpoint_minutes=10.0)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(processes, config, whole)

    def after_two_epochs():
        lines = killed / "metrics.jsonl"
        return lines.is_file() and lines.read_bytes().count(b"\n") >= 2

    assert kill_when(processes, config, killed, after_two_epochs)
    assert not (killed / "checkpoints").exists()
    finish(processes, config, killed)
    assert_same_end(killed, whole)


def test_a_run_of_captured_steps_killed_within_an_epoch_ends_bit_equal(processes, root, tmp_path):
    config = config_of(root, engine="captured", max_epochs=3)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(processes, config, whole)

    def within_the_second_epoch():
        folder = killed / "checkpoints"
        return folder.is_dir() and any(path.name >= "0-000001-0000002" for path in folder.glob("0*"))

    assert kill_when(processes, config, killed, within_the_second_epoch)
    finish(processes, config, killed)
    assert_same_end(killed, whole)
    assert json.loads((killed / "environment.json").read_text())[-1]["engine"] == "captured"
