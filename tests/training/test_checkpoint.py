"""Checkpoints: what they hold, when they are written, and what is read of them."""

import json
import os
import time

import pytest
import torch

import lrga
from lrga.errors import CheckpointError, NonFiniteError
from lrga.models.zoo import Inputs
from lrga.tasks import Task
from lrga.training.callbacks.base import Callback
from lrga.training.config import ModelConfig, OptimizerConfig
from lrga.training.problems.architecture import resolve
from lrga.training.problems.graphs import GraphProblem
from lrga.training.runs.checkpoint import (
    FolderCheckpointer,
    checkpoint_name,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import StopRequest
from lrga.training.trainer import Trainer

PARTS = {"model": {"w": torch.arange(6.0).view(2, 3), "n": torch.tensor(3)}, "training": {"r": torch.arange(4).byte()}}


def write(folder, epoch=0, batch=0, value=1):
    return write_checkpoint(folder, checkpoint_name(0, epoch, batch), PARTS, {"value": value, "lr": 0.1})


def test_a_checkpoint_reads_back_bit_for_bit_without_pickles(tmp_path):
    found = read_checkpoint(write(tmp_path))
    assert found.state == {"value": 1, "lr": 0.1}
    for part, tensors in PARTS.items():
        assert set(found.parts[part]) == set(tensors)
        for name, tensor in tensors.items():
            assert found.parts[part][name].dtype == tensor.dtype
            assert torch.equal(found.parts[part][name], tensor)
    path = write(tmp_path)
    assert sorted(os.listdir(path)) == ["model.safetensors", "state.json", "training.safetensors"]
    assert json.loads((path / "state.json").read_text())["format"] == 1


def test_views_and_shared_tensors_are_written_as_they_are(tmp_path):
    base = torch.arange(12.0)
    path = write_checkpoint(
        tmp_path, checkpoint_name(0, 0, 0), {"model": {"a": base.view(3, 4).t(), "b": base[2:5]}}, {}
    )
    found = read_checkpoint(path).parts["model"]
    assert torch.equal(found["a"], base.view(3, 4).t())
    assert torch.equal(found["b"], base[2:5])


def test_the_newest_is_found_and_only_two_are_kept(tmp_path):
    for epoch, batch in ((0, 0), (0, 12), (9, 0), (10, 0)):
        write(tmp_path, epoch, batch, value=epoch)
    found, problems = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state["value"] == 10
    assert problems == []
    assert sorted(os.listdir(tmp_path)) == [checkpoint_name(0, 9, 0), checkpoint_name(0, 10, 0)]


def test_what_a_killed_writer_left_is_cleared_and_never_read(tmp_path):
    write(tmp_path, 1)
    left = tmp_path / ".writing-abc"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    assert newest_checkpoint(tmp_path)[0].path.name == checkpoint_name(0, 1, 0)
    write(tmp_path, 2)
    assert not left.exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "state cut", "state gone"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, damage):
    write(tmp_path, 1, value=1)
    path = write(tmp_path, 2, value=2)
    weights, state = path / "model.safetensors", path / "state.json"
    content = weights.read_bytes()
    if damage == "cut":
        weights.write_bytes(content[:-3])
    elif damage == "flipped":
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "missing":
        weights.unlink()
    elif damage == "state cut":
        state.write_bytes(state.read_bytes()[:40])
    else:
        state.unlink()
    found, problems = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state["value"] == 1
    assert len(problems) == 1
    assert checkpoint_name(0, 2, 0) in problems[0]


def test_no_sound_checkpoint_is_an_error_and_none_at_all_is_not(tmp_path):
    assert newest_checkpoint(tmp_path / "none") == (None, [])
    (write(tmp_path) / "state.json").unlink()
    with pytest.raises(CheckpointError, match="complete checkpoint"):
        newest_checkpoint(tmp_path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    path = write(tmp_path)
    written = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(written | {"format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        read_checkpoint(path)


class Saves(Callback):
    def __init__(self):
        self.names = []

    def on_checkpoint(self, path):
        self.names.append(path.name)


@pytest.fixture
def run(make_config, make_splits, tmp_path):
    def start(minutes=10.0, deadline=None):
        home, saves, request = RunFolder(tmp_path / "run"), Saves(), StopRequest()
        home.lock()
        architecture = resolve(ModelConfig(hidden=8, layers=1), Inputs("node", 2, "linear", 3))
        task = Task(level="node", kind="classification", out_channels=2)
        home.create(make_config(), architecture, task, "")
        checkpointer = FolderCheckpointer(home, request, minutes, deadline)
        torch.manual_seed(0)
        model = lrga.GNN(3, 8, 2, 1)
        options = OptimizerConfig(batch_size=8, max_epochs=2)
        problem = GraphProblem(model, task, make_splits(), options)
        return Trainer(problem, callbacks=[saves], checkpointer=checkpointer), saves, request

    return start


def test_epochs_are_saved_where_the_last_checkpoint_is_some_seconds_old(run, monkeypatch):
    monkeypatch.setattr("lrga.training.runs.checkpoint.MIN_SECONDS", 0.0)
    trainer, saves, _ = run()
    trainer.fit()
    assert saves.names == ["0-000001-0000000", "0-000002-0000000"]


def test_short_epochs_are_not_each_saved_but_the_last_is(run, monkeypatch):
    monkeypatch.setattr("lrga.training.runs.checkpoint.MIN_SECONDS", 3600.0)
    trainer, saves, _ = run()
    trainer.fit()
    assert saves.names == ["0-000002-0000000"]


def test_long_epochs_are_saved_within_and_all_are_recorded(run):
    trainer, saves, _ = run(minutes=0.0)
    trainer.fit()
    assert [record.epoch for record in trainer.checkpointer.folder.history()] == [1, 2]
    assert saves.names[:5] == [f"0-000000-000000{b}" for b in range(3)] + ["0-000001-0000000", "0-000001-0000001"]


def test_what_is_saved_is_not_saved_twice(run):
    trainer, saves, _ = run()
    trainer.checkpointer.save(trainer)
    trainer.checkpointer.save(trainer)
    assert saves.names == ["0-000000-0000000"]


def test_a_deadline_pauses(run):
    trainer, saves, _ = run(deadline=time.monotonic())
    assert trainer.fit() == "time_limit"
    assert saves.names == ["0-000000-0000000"]


def test_a_signal_pauses_first(run):
    trainer, _, request = run(deadline=time.monotonic())
    request.received = "SIGINT"
    assert trainer.fit() == "interrupted"


class DeadlineAfter(Callback):
    """Lets the time be over after a batch."""

    def __init__(self, checkpointer, batch):
        self.checkpointer, self.batch = checkpointer, batch

    def on_batch_end(self, epoch, batch, batches):
        if batch == self.batch:
            self.checkpointer.deadline = time.monotonic()


@pytest.mark.parametrize("due", ["checkpoint", "time_limit", "signal"])
def test_a_checkpoint_due_while_the_loss_is_nan_is_not_written_and_the_batch_is_named(run, due):
    """As on a GPU, where losses are looked at now and then."""
    trainer, saves, request = run(minutes=0.0 if due == "checkpoint" else 10.0)
    trainer.guard.every = 50
    first = next(iter(trainer.problem.epoch_batches(trainer.epoch, trainer.batch)))
    values = trainer.problem.splits["train"].columns["x"].values
    values[(values == first.x[0]).all(dim=1)] = float("nan")
    if due == "time_limit":
        trainer.callbacks = [DeadlineAfter(trainer.checkpointer, 1)]
    elif due == "signal":
        trainer.callbacks[0].on_batch_end = lambda epoch, batch, batches: setattr(request, "received", "SIGTERM")
    with pytest.raises(NonFiniteError, match="epoch 1, batch 1 of 3.*in x of the batch"):
        trainer.fit()
    assert saves.names == (["0-000000-0000000"] if due == "checkpoint" else [])
