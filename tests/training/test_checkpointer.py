"""When a run is saved and when it pauses."""

import time

import pytest
import torch

import lrga
from lrga.errors import NonFiniteError
from lrga.models.zoo import Inputs
from lrga.tasks import Task
from lrga.training.architecture import resolve
from lrga.training.callbacks.events import Listener
from lrga.training.config import ModelConfig, OptimizerConfig
from lrga.training.problems.graphs import GraphProblem
from lrga.training.runs.checkpointer import FolderCheckpointer
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.signals import StopRequest
from lrga.training.trainer import Trainer


class Saves(Listener):
    def __init__(self):
        self.names = []

    def checkpointed(self, path):
        self.names.append(path.name)


@pytest.fixture
def run(make_config, make_splits, tmp_path):
    def start(minutes=10.0, deadline=None):
        home, saves, request = RunFolder(tmp_path / "run"), Saves(), StopRequest()
        home.lock()
        architecture = resolve(ModelConfig(hidden=8, layers=1), Inputs("node", 2, "linear", 3))
        task = Task(level="node", kind="classification", out_channels=2)
        home.create(make_config(), architecture, task, "")
        keeper = FolderCheckpointer(home, saves, request, minutes, deadline)
        torch.manual_seed(0)
        model = lrga.GNN(3, 8, 2, 1)
        options = OptimizerConfig(batch_size=8, max_epochs=2)
        problem = GraphProblem(model, task, make_splits(), options)
        return Trainer(problem, checkpointer=keeper), saves, request

    return start


def test_epochs_are_saved_where_the_last_checkpoint_is_some_seconds_old(run, monkeypatch):
    monkeypatch.setattr("lrga.training.runs.checkpointer.EPOCH_SECONDS", 0.0)
    trainer, saves, _ = run()
    trainer.fit()
    assert saves.names == ["0-000001-0000000", "0-000002-0000000"]


def test_short_epochs_are_not_each_saved_but_the_last_is(run, monkeypatch):
    monkeypatch.setattr("lrga.training.runs.checkpointer.EPOCH_SECONDS", 3600.0)
    trainer, saves, _ = run()
    trainer.fit()
    assert saves.names == ["0-000002-0000000"]


def test_long_epochs_are_saved_within(run):
    trainer, saves, _ = run(minutes=0.0)
    trainer.fit()
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


def test_epochs_are_recorded(run):
    trainer, _, _ = run()
    trainer.fit()
    assert [record.epoch for record in trainer.checkpointer.home.history()] == [1, 2]


class DeadlineAfter(Listener):
    """Lets the time be over after a batch."""

    def __init__(self, keeper, batch):
        self.keeper, self.batch = keeper, batch

    def batch_done(self, epoch, batch, batches):
        if batch == self.batch:
            self.keeper.deadline = time.monotonic()


@pytest.mark.parametrize("due", ["checkpoint", "time_limit", "signal"])
def test_a_checkpoint_due_while_the_loss_is_nan_is_not_written_and_the_batch_is_named(run, due):
    """As on a GPU, where losses are looked at now and then."""
    trainer, saves, request = run(minutes=0.0 if due == "checkpoint" else 10.0)
    trainer.guard.every = 50
    first = next(iter(trainer.problem.epoch_batches(trainer.epoch, trainer.batch)))
    values = trainer.problem.splits["train"].columns["x"].values
    values[(values == first.x[0]).all(dim=1)] = float("nan")
    if due == "time_limit":
        trainer.listener = DeadlineAfter(trainer.checkpointer, 1)
    elif due == "signal":
        trainer.listener.batch_done = lambda epoch, batch, batches: setattr(request, "received", "SIGTERM")
    with pytest.raises(NonFiniteError, match="epoch 1, batch 1 of 3.*in x of the batch"):
        trainer.fit()
    assert saves.names == (["0-000000-0000000"] if due == "checkpoint" else [])
