"""A study is listed, run and printed; interrupted, it hands over what it has."""

import os
import signal

import pytest

from lrga.experiments import study as module
from lrga.experiments.comparison import comparison
from lrga.experiments.study import CampaignInterrupted
from lrga.training.callbacks.base import Callback


class Stopper(Callback):
    def on_epoch_end(self, record):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_table_of_what_is_done_needs_no_training(tiny, tmp_path):
    study = comparison("CLUSTER", **tiny)
    assert [row.outcomes[0].status for row in study.table(tmp_path).rows] == ["pending", "pending"]
    assert list(tmp_path.iterdir()) == []
    made = study.run(tmp_path, progress=False)
    assert study.table(tmp_path).to_json() == made.to_json()


def test_progress_goes_to_stderr_and_can_be_switched_off(tiny, tmp_path, capsys):
    comparison("CLUSTER", **tiny).run(tmp_path)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "[1/2] GCN (100K) on CLUSTER, seed 41" in shown.err
    assert "epoch 1/1" in shown.err
    comparison("CLUSTER", **tiny).run(tmp_path / "again", progress=False)
    assert capsys.readouterr() == ("", "")


def test_interrupted_it_raises_with_the_table_so_far(tiny, tmp_path, monkeypatch):
    study = comparison("CLUSTER", **tiny | {"max_epochs": 3})
    monkeypatch.setattr(module, "ProgressDisplay", lambda title: Stopper())
    with pytest.raises(CampaignInterrupted) as caught:
        study.run(tmp_path)
    assert caught.value.exit_code == 130
    assert not caught.value.table.complete
    assert isinstance(caught.value, KeyboardInterrupt)
    assert study.run(tmp_path, progress=False).complete
