"""Curves for TensorBoard."""

import sys

import pytest

from lrga.errors import MissingDependencyError
from lrga.training import continue_run, train
from lrga.training.callbacks.tensorboard import TensorBoardLog

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard's own imports


def test_every_epoch_is_a_point_of_each_curve_also_over_a_pause(make_config, make_splits, tmp_path):
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "run"
    train(make_config(max_epochs=2, tensorboard=True, log_metrics=["f1_positive"]), folder, data=make_splits())
    result = continue_run(folder, data=make_splits(), max_epochs=3)
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    points = events.Scalars("accuracy/val")
    assert [point.step for point in points] == [1, 2, 3]
    assert [point.value for point in points] == pytest.approx([record.val_metric for record in result.history])
    logged = [point.value for point in events.Scalars("f1_positive/test")]
    assert logged == pytest.approx([record.numbers["f1_positive/test"] for record in result.history])
    assert {"lr", "loss/train", "loss/val", "loss/test"} <= set(events.Tags()["scalars"])


def test_a_missing_package_is_told_of_before_training(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingDependencyError, match=r"lrga\[tensorboard\]"):
        TensorBoardLog()
