"""Who listens is told, in order."""

from pathlib import Path

from lrga.training.callbacks.events import EpochRecord, Listener, Listeners

RECORD = EpochRecord(
    epoch=1, lr=1e-3, train_loss=1.0, train_metric=2.0, val_loss=3.0, val_metric=4.0, test_loss=5.0, test_metric=6.0,
    seconds=0.1, elapsed=0.1,
)  # fmt: skip


class Log(Listener):
    def __init__(self, calls, name):
        self.calls, self.name = calls, name

    def started(self, facts):
        self.calls.append((self.name, "started"))

    def batch_done(self, epoch, batch, batches):
        self.calls.append((self.name, f"batch {batch}"))

    def evaluating(self, epoch):
        self.calls.append((self.name, "evaluating"))

    def epoch_done(self, record):
        self.calls.append((self.name, f"epoch {record.epoch}"))

    def checkpointed(self, path):
        self.calls.append((self.name, "checkpoint"))

    def stopped(self, reason):
        self.calls.append((self.name, reason))

    def closed(self):
        self.calls.append((self.name, "closed"))


def tell_all(listener):
    listener.started(None)
    listener.batch_done(1, 1, 2)
    listener.evaluating(1)
    listener.epoch_done(RECORD)
    listener.checkpointed(Path("x"))
    listener.stopped("max_epochs")
    listener.closed()


def test_several_listeners_hear_everything_in_turn():
    calls = []
    tell_all(Listeners([Log(calls, "a"), Log(calls, "b")]))
    said = ["started", "batch 1", "evaluating", "epoch 1", "checkpoint", "max_epochs", "closed"]
    assert calls == [(name, what) for what in said for name in "ab"]


def test_a_listener_need_not_listen_to_anything():
    tell_all(Listener())


def test_an_epoch_is_json():
    assert EpochRecord(**RECORD.to_json()) == RECORD
