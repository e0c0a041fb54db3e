"""A study is listed, run and printed; interrupted, it hands over what it has."""

import os
import signal

import pytest

from lrga.experiments import study as module
from lrga.experiments.cell import run_name
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
    assert "[1/2] GCN on CLUSTER, seed 41" in shown.err  # no budget: the width is given
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


def test_parts_are_disjoint_together_all_and_empty_where_there_are_more_than_runs(tmp_path):
    study = comparison("CLUSTER", seeds=[1, 2, 3])
    parts = [[run_name(c) for cell in study.shard(i, 8).cells for c in cell.runs()] for i in range(1, 9)]
    assert sorted(name for part in parts for name in part) == sorted(
        run_name(c) for cell in study.cells for c in cell.runs()
    )
    assert parts[6] == parts[7] == []
    empty = study.shard(8, 8)
    assert empty.plan(tmp_path).notes == ["0 runs: nothing to do."]
    table = empty.run(tmp_path, progress=False)
    assert table.complete
    assert table.to_text() == "GCN on CLUSTER, with and without LRGA, part 8 of 8: no runs\n\n"
