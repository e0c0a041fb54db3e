"""Results: what they say, and the same after JSON."""

import json

import pytest

from lrga.errors import CheckpointError
from lrga.training.callbacks.events import EpochRecord
from lrga.training.runs.result import TrainingResult

LAST = EpochRecord(
    epoch=2, lr=1e-3, train_loss=1.0, train_metric=60.0, val_loss=1.1, val_metric=55.0, test_loss=1.2, test_metric=54.0,
    seconds=0.1, elapsed=0.2,
)  # fmt: skip


def result(**changes):
    values = {
        "stopped_by": "max_epochs", "metric": "accuracy", "last": LAST, "best": LAST, "epochs": 2, "seconds": 0.2,
        "parameters": 10, "seed": 41,
    }  # fmt: skip
    return TrainingResult(**(values | changes))


def test_the_reported_number_is_the_last_epoch_s_on_test():
    assert result().test == 54.0
    assert result(last=None, best=None, epochs=0).test is None


def test_a_paused_run_is_not_finished():
    assert result().finished
    assert result(stopped_by="min_lr").finished
    assert not result(stopped_by="time_limit").finished


def test_digits_fit_the_metric():
    assert result().format_metric(54.123) == "54.12"
    assert result(metric="mae").format_metric(0.35512) == "0.355"


def test_a_result_survives_json():
    made = result()
    assert TrainingResult.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_foreign_result_is_refused():
    with pytest.raises(CheckpointError, match="metric"):
        TrainingResult.from_json({"stopped_by": "max_epochs"})
    with pytest.raises(CheckpointError):
        TrainingResult.from_json(result().to_json() | {"last": {"epoch": 1}})
