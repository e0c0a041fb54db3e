"""Runs from a configuration to a result."""

import itertools
import json
import os
import signal
import threading
from dataclasses import replace

import pytest
import torch
from link_graphs import communities, config_of

from lrga.errors import CheckpointError, DataError, OptionError
from lrga.training import Callback, Interrupted, continue_run, evaluate, load_run, new_folder, train
from lrga.training.problems.data import load_link_source, load_run_data, plan_run
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import Session, StopRequest

resource = pytest.importorskip("resource", reason="limits on file sizes need a POSIX system")


def same_weights(a, b):
    return all(torch.equal(value, b.state_dict()[name]) for name, value in a.state_dict().items())


class At(Callback):
    """Does something after a batch."""

    def __init__(self, epoch, batch, act):
        self.when, self.act = (epoch, batch), act

    def on_batch_end(self, epoch, batch, batches):
        if (epoch, batch) == self.when:
            self.act()


def test_a_run_gives_numbers_a_model_and_a_complete_folder(make_config, make_splits, tmp_path):
    splits = make_splits()
    result = train(make_config(), tmp_path / "run", data=splits)
    assert result.finished
    assert (result.stopped_by, result.epochs, result.seed) == ("max_epochs", 3, 7)
    assert result.test == result.history[-1].test_metric
    assert result.parameters == sum(p.numel() for p in result.model.parameters())
    assert not result.model.training
    written = {path.name for path in result.folder.iterdir()}
    assert written == {
        ".lock", "best.safetensors", "checkpoints", "config.json", "environment.json", "log.txt", "metrics.jsonl",
        "model.json", "model.safetensors", "result.json",
    }  # fmt: skip
    model, config = load_run(result.folder)
    assert config == make_config()
    assert same_weights(model, result.model)
    _, metric = evaluate(model, splits["test"], RunFolder(result.folder).model_facts()[1], batch_size=8)
    assert metric == result.test


def test_the_same_seed_gives_the_same_weights_and_another_one_others(make_config, make_splits, tmp_path):
    runs = [
        train(make_config(seed=seed, dropout=0.2, max_epochs=1), tmp_path / name, data=make_splits())
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert same_weights(runs[0].model, runs[1].model)
    assert not same_weights(runs[0].model, runs[2].model)


def test_the_caller_s_random_state_is_left_alone(kind, tmp_path):
    data = kind.data()
    state = torch.get_rng_state()
    result = train(kind.config(), tmp_path / "run", data=data)
    load_run(result.folder)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("level", "model"), [("node", "gin"), ("graph", "gatedgcn"), ("edge", "gatedgcn")])
def test_every_level_is_trained(make_config, make_splits, tmp_path, level, model):
    result = train(make_config(model=model, max_epochs=4, lr=0.02), tmp_path / "run", data=make_splits(level))
    assert result.history[-1].train_loss < result.history[0].train_loss


def test_a_finished_run_is_returned_and_not_repeated(make_config, make_splits, tmp_path):
    first = train(make_config(), tmp_path / "run", data=make_splits())
    said = []
    again = train(make_config(), tmp_path / "run", data=make_splits(), callbacks=[At(1, 1, lambda: said.append(1))])
    assert again == first
    assert same_weights(again.model, first.model)
    assert said == []


def test_a_signal_stops_after_a_checkpoint_and_says_how_to_go_on(make_config, make_splits, tmp_path):
    whole = train(make_config(), tmp_path / "whole", data=make_splits())
    folder = tmp_path / "run"
    with pytest.raises(Interrupted, match=f"lrga train --resume {folder}"):
        train(
            make_config(), folder, data=make_splits(), callbacks=[At(2, 2, lambda: os.kill(os.getpid(), signal.SIGINT))]
        )
    assert (folder / "checkpoints" / "0-000001-0000002").is_dir()
    assert RunFolder(folder).result() is None
    after = continue_run(folder, data=make_splits())
    assert same_weights(after.model, whole.model)
    assert [r.epoch for r in after.history] == [1, 2, 3]


def test_a_time_limit_pauses_and_the_same_call_continues(kind, tmp_path):
    train(kind.config(), tmp_path / "whole", data=kind.data())
    paused = train(kind.config(), tmp_path / "run", data=kind.data(), time_limit=1e-9)
    assert (paused.stopped_by, paused.finished, paused.epochs, paused.test) == ("time_limit", False, 0, None)
    after = train(kind.config(), tmp_path / "run", data=kind.data(), time_limit=10)
    assert after.finished
    for name in ("model.safetensors", "best.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    with pytest.raises(OptionError, match="time limit"):
        train(kind.config(), tmp_path / "run", data=kind.data(), time_limit=0)


def test_a_full_disk_is_told_of_and_the_last_checkpoint_stays(make_config, make_splits, tmp_path, monkeypatch):
    monkeypatch.setattr("lrga.training.runs.checkpoint.MIN_SECONDS", 0.0)
    whole = train(make_config(), tmp_path / "whole", data=make_splits())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    folder = tmp_path / "run"
    full = At(3, 1, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard)))
    try:
        with pytest.raises(CheckpointError, match="free disk space"):
            train(make_config(), folder, data=make_splits(), callbacks=[full])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    checkpoint, problems = RunFolder(folder).checkpoint()
    assert (checkpoint.state["epoch"], problems) == (2, [])
    assert same_weights(train(make_config(), folder, data=make_splits()).model, whole.model)


def test_a_folder_or_network_that_cannot_be_made_leaves_nothing(make_config, make_splits, tmp_path):
    with pytest.raises(OptionError, match="multiple"):
        train(make_config(model="gat", hidden=10, heads=4), tmp_path / "run", data=make_splits())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="to write"):
        train(make_config(), tmp_path / "file" / "run", data=make_splits())


def test_a_run_in_use_is_refused(make_config, make_splits, tmp_path):
    refused = []

    def second():
        def attempt():
            with pytest.raises(CheckpointError, match="to be free"):
                train(make_config(), tmp_path / "run", data=make_splits())
            refused.append(True)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()

    train(make_config(), tmp_path / "run", data=make_splits(), callbacks=[At(1, 2, second)])
    assert refused == [True]


def test_weights_of_the_best_epoch_can_be_taken(make_config, make_splits, tmp_path):
    result = train(make_config(max_epochs=6, lr=0.05), tmp_path / "run", data=make_splits())
    model, _ = load_run(result.folder, which="best")
    _, task, _ = RunFolder(result.folder).model_facts()
    _, metric = evaluate(model, make_splits()["val"], task, batch_size=8)
    assert metric == result.best.val_metric
    with pytest.raises(OptionError, match="which"):
        load_run(result.folder, which="first")


def test_folders_have_names_of_their_own_below_runs(make_config, tmp_path, make_splits, monkeypatch):
    config = make_config(name="my/graphs.pt", lrga=False)
    first = new_folder(config, tmp_path)
    assert first == tmp_path / "graphs-plain-gcn-seed7"  # its width is given, so its budget has no effect
    first.mkdir()
    assert new_folder(config, tmp_path).name == "graphs-plain-gcn-seed7-2"
    assert new_folder(config.changed(hidden=None), tmp_path).name == "graphs-plain-gcn-100k-seed7"
    monkeypatch.chdir(tmp_path)
    result = train(make_config(max_epochs=1), data=make_splits())
    assert result.folder.parent.name == "runs"


def test_callbacks_are_closed_even_after_an_error(make_config, make_splits, tmp_path):
    said = []

    class Ear(Callback):
        def on_batch_end(self, epoch, batch, batches):
            raise ValueError("a callback's own")

        def on_close(self):
            said.append("closed")

    with pytest.raises(ValueError, match="own"):
        train(make_config(), tmp_path / "run", data=make_splits(), callbacks=[Ear()])
    assert said == ["closed"]


def test_a_run_leaves_a_whole_folder_and_reports_the_best_epoch(tmp_path):
    heard = []

    class Ear(Callback):
        def on_start(self, facts):
            heard.append(facts)

    result = train(config_of(), tmp_path / "run", data=communities(), callbacks=[Ear()])
    assert result.finished
    assert result.test == result.best.test_metric
    assert heard[0].unit == "edges"
    assert heard[0].graphs["train"] == communities().edge.size(0)
    for name in ("config.json", "model.json", "environment.json", "metrics.jsonl", "log.txt", "result.json"):
        assert (tmp_path / "run" / name).is_file()
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["test"] == result.test
    again = train(config_of(), tmp_path / "run", data=communities())
    assert (again.test, again.epochs) == (result.test, 4)
    model, config = load_run(tmp_path / "run", which="best")
    assert config == config_of()
    assert not model.training


def test_other_options_of_links_or_graphs_in_place_of_links_are_refused(tmp_path):
    train(config_of(), tmp_path / "run", data=communities(), time_limit=1e-6)
    with pytest.raises(CheckpointError, match="skip"):
        train(config_of(skip=False), tmp_path / "run", data=communities())
    with pytest.raises(DataError, match="LinkData"):
        train(config_of(), tmp_path / "other", data={"train": [], "val": [], "test": []})
    assert not (tmp_path / "other").exists()


def test_an_edge_list_is_trained_from_its_file(tmp_path):
    edges = communities().edge.tolist()
    (tmp_path / "graph.csv").write_text("".join(f"n{a},n{b}\n" for a, b in edges))
    config = config_of().changed(name=str(tmp_path / "graph.csv"))
    result = train(config, tmp_path / "run")
    assert result.metric == "auc"
    plan = plan_run(config)
    assert plan["parameters"] == result.parameters
    assert sum(plan["data"]["graphs"].values()) == len(edges)
    with pytest.raises(OptionError, match="options of an edge list"):
        load_link_source(replace(config.data, options={"task": "link", "level": "node"}))


def test_the_metric_of_a_run_can_be_chosen(tmp_path):
    result = train(config_of(metric="mrr", max_epochs=1), tmp_path / "run", data=communities())
    assert result.metric == "mrr"
    assert 0 < result.test < 1
    with pytest.raises(OptionError, match="metric"):
        train(config_of(metric="accuracy"), tmp_path / "wrong", data=communities())


def open_session(config, folder, splits, request):
    run = load_run_data(config, splits)
    folder.mkdir(parents=True, exist_ok=True)
    return Session(RunFolder(folder), config, run, run.data.fingerprint(), [Callback()], request, None)


def test_left_in_the_middle_it_is_closed_and_has_no_result(make_config, make_splits, tmp_path):
    closed = []
    with StopRequest() as request:
        session = open_session(make_config(), tmp_path / "run", make_splits(), request)
        session.trainer.callbacks[0].on_close = lambda: closed.append(True)
        steps = session.steps()
        list(itertools.islice(steps, 4))
        steps.close()
    assert closed == [True]
    assert session.result is None


def test_which_loop_trains_is_written_down(make_config, make_splits, tmp_path):
    train(make_config(engine="captured"), tmp_path / "a", data=make_splits())
    train(make_config(), tmp_path / "b", data=make_splits())
    assert RunFolder(tmp_path / "a").environments()[-1]["engine"] == "captured"
    assert "captured steps for" in (tmp_path / "a" / "log.txt").read_text()
    assert RunFolder(tmp_path / "b").environments()[-1]["why_plain"] == "there is no GPU"
    assert "plain loop: there is no GPU" in (tmp_path / "b" / "log.txt").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_noted_and_the_second_stops_at_once(number):
    with StopRequest() as request:
        assert request.received is None
        os.kill(os.getpid(), number)
        assert request.received == number.name
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_signals_are_handled_in_the_main_thread_alone_and_until_the_end():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest() as request:
            seen.append((signal.getsignal(signal.SIGINT), request.received))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, None)]


def test_the_exit_code_is_the_shell_s():
    assert Interrupted("", "SIGINT").exit_code == 130
    assert Interrupted("", "SIGTERM").exit_code == 143
    assert Interrupted("", "SIGHUP").exit_code == 129


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert request.received is None
    finally:
        signal.signal(signal.SIGHUP, before)
