"""A campaign trains each run once, whatever interrupts it, and one that fails does not cost the others."""

import os
import signal
import time

import pytest

from lrga.data import load
from lrga.errors import DataMissingError, DeviceError, OptionError
from lrga.experiments.campaign import Campaign, run_title, say_on_stderr
from lrga.experiments.cell import run_name
from lrga.experiments.records import find_record, read_records
from lrga.paper.protocols import table1
from lrga.training import Interrupted, train
from lrga.training.callbacks.base import Callback
from lrga.training.runs.folder import RunFolder


class Counter(Callback):
    """Counts epochs of all runs, and does something after one of them."""

    def __init__(self, after=None):
        self.epochs, self.titles, self.after = 0, [], after or {}

    def make(self, titles):
        self.titles += titles
        return [(self,)] * len(titles)

    def on_epoch_end(self, record):
        self.epochs += 1
        if self.epochs in self.after:
            self.after[self.epochs]()


def statuses(outcomes):
    return [outcome.status for outcome in outcomes]


def test_what_has_a_record_is_skipped(tiny, tmp_path):
    cells = [table1("CLUSTER", lrga=lrga, seeds=[41, 95], **tiny) for lrga in (False, True)]
    first, again = Counter(), Counter()
    assert statuses(Campaign(cells, tmp_path).outcomes()) == ["pending"] * 4
    made = Campaign(cells, tmp_path, callbacks=first.make).run()
    assert statuses(made) == ["finished"] * 4
    assert all(outcome.fresh for outcome in made)
    assert first.epochs == 4
    found = Campaign(cells, tmp_path, callbacks=again.make).run()
    assert [outcome.record for outcome in found] == [outcome.record for outcome in made]
    assert not any(outcome.fresh for outcome in found)
    assert again.titles == []
    assert len(read_records(tmp_path)) == 4


def test_only_what_is_missing_is_made(tiny, tmp_path):
    Campaign([table1("CLUSTER", seeds=[41], **tiny)], tmp_path).run()
    outcomes = Campaign([table1("CLUSTER", seeds=[41, 95], **tiny)], tmp_path).run()
    assert [outcome.fresh for outcome in outcomes] == [False, True]


def test_a_record_stands_for_its_run_even_without_the_run_folder(tiny, tmp_path):
    import shutil

    cell = table1("CLUSTER", seeds=[41], **tiny)
    Campaign([cell], tmp_path).run()
    shutil.rmtree(tmp_path / run_name(cell.runs()[0]))
    assert not Campaign([cell], tmp_path).run()[0].fresh


def test_a_finished_run_folder_without_a_record_is_recorded_and_not_trained_again(tiny, tmp_path):
    cell, counter = table1("CLUSTER", seeds=[41], **tiny), Counter()
    config = cell.runs()[0]
    result = train(config, tmp_path / run_name(config))
    outcomes = Campaign([cell], tmp_path, callbacks=counter.make).run()
    assert statuses(outcomes) == ["finished"]
    assert counter.epochs == 0
    assert outcomes[0].record.test == result.test


def test_interrupted_it_continues_and_ends_as_if_it_had_not_been(tiny, tmp_path):
    tiny["max_epochs"] = 3
    cell = table1("CLUSTER", seeds=[41, 95], **tiny)
    undisturbed = Campaign([cell], tmp_path / "a").run()
    stop = Counter({2: lambda: os.kill(os.getpid(), signal.SIGINT)})
    said = []
    with pytest.raises(Interrupted):
        Campaign([cell], tmp_path / "b", callbacks=stop.make, say=said.append).run()
    assert "run the same command to resume" in said[-1]
    stopped = Campaign([cell], tmp_path / "b").outcomes()
    assert [(outcome.status, outcome.begun) for outcome in stopped] == [("pending", True), ("pending", False)]
    rest = Counter()
    continued = Campaign([cell], tmp_path / "b", callbacks=rest.make).run()
    assert rest.epochs == 1 + 3
    assert [o.record.last["test_loss"] for o in continued] == [o.record.last["test_loss"] for o in undisturbed]


def test_the_time_limit_holds_for_all_runs_together_and_the_same_call_continues(tiny, tmp_path, monkeypatch):
    tiny["max_epochs"] = 4
    cell = table1("CLUSTER", seeds=[41, 95], **tiny)
    load("CLUSTER", tiny["root"], sizes=(8, 4, 4))
    said = []
    real, passed = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + passed[0])
    slow = Counter({1: lambda: passed.append(passed.pop() + 3600)})  # the first epoch takes an hour
    limited = Campaign([cell], tmp_path, time_limit=30, callbacks=slow.make, say=said.append).run()
    assert statuses(limited) == ["time-limited", "pending"]
    assert limited[0].record.reason == "time_limit"
    assert any("Time limit" in line for line in said)
    rest = Counter()
    outcomes = Campaign([cell], tmp_path, callbacks=rest.make).run()
    assert statuses(outcomes) == ["finished", "finished"]
    assert rest.epochs == 3 + 4


@pytest.mark.parametrize("name", ["config.json", "model.json", "environment.json", "metrics.jsonl", "result.json"])
def test_a_damaged_folder_is_a_failed_run_and_the_others_go_on(tiny, tmp_path, name):
    cell = table1("CLUSTER", seeds=[41, 95], **tiny)
    train(cell.runs()[0], tmp_path / run_name(cell.runs()[0]))
    (tmp_path / run_name(cell.runs()[0]) / name).write_text("[NaN]\n")
    assert statuses(Campaign([cell], tmp_path).run()) == ["failed", "finished"]


def test_a_run_that_fails_is_recorded_and_the_others_go_on(tiny, tmp_path):
    broken = table1(
        "CLUSTER", "gat", seeds=[41], **tiny | {"heads": 3, "layers": 2}
    )  # 8 channels are no multiple of 3 heads
    sound = table1("CLUSTER", seeds=[41], **tiny)
    outcomes = Campaign([broken, sound], tmp_path).run()
    assert statuses(outcomes) == ["failed", "finished"]
    assert outcomes[0].record.reason.startswith("OptionError: expected")
    assert find_record(tmp_path, outcomes[0].name).status == "failed"
    assert [o.fresh for o in Campaign([broken, sound], tmp_path).run()] == [True, False]  # failures are tried again


def test_a_programming_error_is_recorded_with_its_trace(tiny, tmp_path):
    def blow_up(titles):
        raise KeyError("a callback that is broken")

    outcome = Campaign([table1("CLUSTER", seeds=[41], **tiny)], tmp_path, callbacks=blow_up).run()[0]
    assert outcome.status == "failed"
    assert "Traceback" in outcome.record.reason


def test_a_run_that_diverged_is_not_tried_again_unless_asked(tiny, tmp_path):
    wild = table1("CLUSTER", seeds=[41], **tiny | {"lr": 1e20, "max_epochs": 3})
    outcome = Campaign([wild], tmp_path).run()[0]
    assert outcome.status == "diverged"
    assert outcome.record.seconds > 0
    assert "a finite loss" in outcome.record.reason
    assert not Campaign([wild], tmp_path).run()[0].fresh
    assert Campaign([wild], tmp_path, retry=True).run()[0].fresh


def test_a_run_that_another_process_trains_is_left_to_it(tiny, tmp_path):
    cell = table1("CLUSTER", seeds=[41], **tiny)
    config = cell.runs()[0]
    home = RunFolder(tmp_path / run_name(config))
    home.continue_with(config)
    with home.lock():
        assert statuses(Campaign([cell], tmp_path).run()) == ["busy"]
    assert find_record(tmp_path, run_name(config)) is None


@pytest.mark.parametrize("written", [True, False])
def test_a_run_that_another_process_takes_at_the_same_moment_is_left_to_it(tiny, tmp_path, monkeypatch, written):
    cell = table1("CLUSTER", seeds=[41], **tiny)
    config = cell.runs()[0]
    home = RunFolder(tmp_path / run_name(config))
    home.path.mkdir()
    if written:
        home.continue_with(config)
    monkeypatch.setattr(Campaign, "_in_use", lambda self, name: False)  # when one looked it was free
    with home.lock():
        assert statuses(Campaign([cell], tmp_path).run()) == ["busy"]
    assert read_records(tmp_path) == []


def test_cells_that_share_a_run_make_it_once(tiny, tmp_path):
    cell, counter = table1("CLUSTER", seeds=[41], **tiny), Counter()
    assert statuses(Campaign([cell, cell], tmp_path, callbacks=counter.make).run()) == ["finished", "finished"]
    assert counter.epochs == 1


def test_graphs_passed_in_are_trained_on(tiny, tmp_path):
    splits = load("CLUSTER", tiny["root"], sizes=(8, 4, 4))
    cell = table1("CLUSTER", seeds=[41], **tiny | {"root": str(tmp_path / "no-data-here")})
    outcome = Campaign([cell], tmp_path / "runs", data=splits).run()[0]
    assert outcome.status == "finished"
    assert outcome.record.data["origin"] == "graphs passed in"
    assert not (tmp_path / "no-data-here").exists()


def test_what_no_run_could_do_is_refused_before_anything_is_made(tiny, tmp_path):
    for change, error in (
        ({"device": "abacus"}, DeviceError),
        ({"data_options": {"colour": "red"}}, OptionError),
    ):
        with pytest.raises(error):
            Campaign([table1("CLUSTER", **tiny | change)], tmp_path / "runs").run()
    with pytest.raises(OptionError, match="time limit"):
        Campaign([], tmp_path, time_limit=0)
    zinc = table1("ZINC", seeds=[41], **tiny | {"source": str(tmp_path)})
    with pytest.raises(DataMissingError):  # nothing can run without the only data set
        Campaign([zinc], tmp_path / "runs").run()
    assert not (tmp_path / "runs").exists()


def test_a_data_set_that_is_missing_does_not_cost_the_others(tiny, tmp_path):
    zinc = table1("ZINC", seeds=[41], **tiny | {"source": str(tmp_path)})
    outcomes = Campaign([zinc, table1("CLUSTER", seeds=[41], **tiny)], tmp_path / "runs").run()
    assert statuses(outcomes) == ["failed", "finished"]
    assert outcomes[0].record.reason.startswith("DataMissingError")


def test_lines_go_to_stderr(capsys):
    say_on_stderr(run_title(table1("CLUSTER").config))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "LRGA + GCN (100K) on CLUSTER, seed 41\n")


def test_the_seeds_of_a_cell_are_trained_at_once_where_that_pays(tiny, tmp_path, monkeypatch):
    alone = Campaign([table1("CLUSTER", seeds=[41, 95, 12], **tiny)], tmp_path / "alone").run()
    monkeypatch.setattr("lrga.experiments.campaign.worth_interleaving", lambda config, device: True)
    monkeypatch.setattr("lrga.training.runs.seeds.worth_interleaving", lambda config, device: True)
    cell, counter, said = table1("CLUSTER", seeds=[41, 95, 12], **tiny), Counter(), []
    Campaign([table1("CLUSTER", seeds=[95], **tiny)], tmp_path / "both").run()
    outcomes = Campaign([cell], tmp_path / "both", callbacks=counter.make, say=said.append).run()
    assert statuses(outcomes) == ["finished"] * 3
    assert [outcome.fresh for outcome in outcomes] == [True, False, True]
    assert sorted(title[-7:] for title in counter.titles) == ["seed 12", "seed 41"]
    assert sum("at once" in line for line in said) == 2
    assert [o.record.test for o in outcomes] == [o.record.test for o in alone]
