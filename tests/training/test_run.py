"""Training in one call: results, folders, pauses, refusals."""

import os
import signal
import threading

import pytest
import torch

from lrga.errors import CheckpointError, OptionError
from lrga.training import Interrupted, Listener, continue_run, evaluate, load_run, new_folder, train
from lrga.training.runs.folder import RunFolder

resource = pytest.importorskip("resource", reason="limits on file sizes need a POSIX system")


def same_weights(a, b):
    return all(torch.equal(value, b.state_dict()[name]) for name, value in a.state_dict().items())


class At(Listener):
    """Does something after a batch."""

    def __init__(self, epoch, batch, act):
        self.when, self.act = (epoch, batch), act

    def batch_done(self, epoch, batch, batches):
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
        train(make_config(seed=seed, dropout=0.2), tmp_path / name, data=make_splits())
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert same_weights(runs[0].model, runs[1].model)
    assert not same_weights(runs[0].model, runs[2].model)


def test_the_caller_s_random_state_is_left_alone(make_config, make_splits, tmp_path):
    splits = make_splits()
    state = torch.get_rng_state()
    result = train(make_config(), tmp_path / "run", data=splits)
    load_run(result.folder)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("level", ["node", "graph", "edge"])
@pytest.mark.parametrize("model", ["gatedgcn", "gin"])
def test_every_level_is_trained(make_config, make_splits, tmp_path, level, model):
    result = train(make_config(model=model, max_epochs=4, lr=0.02), tmp_path / "run", data=make_splits(level))
    assert result.history[-1].train_loss < result.history[0].train_loss


def test_random_features_train_and_come_back(make_config, make_splits, tmp_path):
    config = make_config(random_features=True)
    whole = train(config, tmp_path / "whole", data=make_splits())
    stop = At(2, 1, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", data=make_splits(), listeners=[stop])
    assert same_weights(train(config, tmp_path / "run", data=make_splits()).model, whole.model)


def test_a_finished_run_is_returned_and_not_repeated(make_config, make_splits, tmp_path):
    first = train(make_config(), tmp_path / "run", data=make_splits())
    said = []
    again = train(make_config(), tmp_path / "run", data=make_splits(), listeners=[At(1, 1, lambda: said.append(1))])
    assert again == first
    assert same_weights(again.model, first.model)
    assert said == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_a_checkpoint_and_says_how_to_go_on(make_config, make_splits, tmp_path, number):
    whole = train(make_config(), tmp_path / "whole", data=make_splits())
    folder = tmp_path / "run"
    with pytest.raises(Interrupted, match=f"lrga train --resume {folder}"):
        train(make_config(), folder, data=make_splits(), listeners=[At(2, 2, lambda: os.kill(os.getpid(), number))])
    assert (folder / "checkpoints" / "0-000001-0000002").is_dir()
    assert RunFolder(folder).result() is None
    after = continue_run(folder, data=make_splits())
    assert same_weights(after.model, whole.model)
    assert [r.epoch for r in after.history] == [1, 2, 3]


def test_a_time_limit_pauses_and_the_same_call_continues(make_config, make_splits, tmp_path):
    whole = train(make_config(), tmp_path / "whole", data=make_splits())
    paused = train(make_config(), tmp_path / "run", data=make_splits(), time_limit=1e-9)
    assert (paused.stopped_by, paused.finished, paused.epochs, paused.test) == ("time_limit", False, 0, None)
    after = train(make_config(), tmp_path / "run", data=make_splits(), time_limit=10)
    assert after.finished
    assert same_weights(after.model, whole.model)
    with pytest.raises(OptionError, match="time limit"):
        train(make_config(), tmp_path / "run", data=make_splits(), time_limit=0)


def test_a_full_disk_is_told_of_and_the_last_checkpoint_stays(make_config, make_splits, tmp_path, monkeypatch):
    monkeypatch.setattr("lrga.training.runs.checkpointer.EPOCH_SECONDS", 0.0)
    whole = train(make_config(), tmp_path / "whole", data=make_splits())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    folder = tmp_path / "run"
    full = At(3, 1, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard)))
    try:
        with pytest.raises(CheckpointError, match="free some space"):
            train(make_config(), folder, data=make_splits(), listeners=[full])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    checkpoint, problems = RunFolder(folder).checkpoint()
    assert (checkpoint.state["epoch"], problems) == (2, [])
    assert same_weights(train(make_config(), folder, data=make_splits()).model, whole.model)


def test_a_folder_that_cannot_be_made_is_told_of_before_training(make_config, make_splits, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="to write"):
        train(make_config(), tmp_path / "file" / "run", data=make_splits())


def test_a_network_that_cannot_be_made_leaves_no_folder(make_config, make_splits, tmp_path):
    with pytest.raises(OptionError, match="multiple"):
        train(make_config(model="gat", hidden=10, heads=4), tmp_path / "run", data=make_splits())
    assert list(tmp_path.iterdir()) == []


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

    train(make_config(), tmp_path / "run", data=make_splits(), listeners=[At(1, 2, second)])
    assert refused == [True]


def test_weights_of_the_best_epoch_can_be_taken(make_config, make_splits, tmp_path):
    result = train(make_config(max_epochs=6, lr=0.05), tmp_path / "run", data=make_splits())
    model, _ = load_run(result.folder, which="best")
    _, task, _ = RunFolder(result.folder).model_facts()
    _, metric = evaluate(model, make_splits()["val"], task, batch_size=8)
    assert metric == result.best.val_metric
    with pytest.raises(OptionError, match="which"):
        load_run(result.folder, which="first")


def test_new_folders_have_names_of_their_own(make_config, tmp_path):
    config = make_config(name="my/graphs.pt", lrga=False)
    first = new_folder(config, tmp_path)
    assert first == tmp_path / "graphs-plain-gcn-100k-seed7"
    first.mkdir()
    assert new_folder(config, tmp_path).name == "graphs-plain-gcn-100k-seed7-2"


def test_a_default_folder_is_made_below_runs(make_config, make_splits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = train(make_config(max_epochs=1), data=make_splits())
    assert result.folder.parent.name == "runs"


def test_listeners_are_closed_even_after_an_error(make_config, make_splits, tmp_path):
    said = []

    class Ear(Listener):
        def batch_done(self, epoch, batch, batches):
            raise ValueError("a listener's own")

        def closed(self):
            said.append("closed")

    with pytest.raises(ValueError, match="own"):
        train(make_config(), tmp_path / "run", data=make_splits(), listeners=[Ear()])
    assert said == ["closed"]
