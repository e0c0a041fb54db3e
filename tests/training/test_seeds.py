"""One configuration under several seeds, at once or one after the other."""

import pytest
import torch

import lrga.training.runs.seeds as together
from lrga.errors import OptionError, RankLostError
from lrga.experiments.notes import notes_of_seeds
from lrga.training import train
from lrga.training.callbacks.base import Callback
from lrga.training.runs.folder import RunFolder, TrainingResult
from lrga.training.runs.run import Interrupted
from lrga.training.runs.seeds import train_interleaved, train_seeds


def test_every_seed_has_a_folder_and_a_result(make_config, make_splits, tmp_path):
    done = train_seeds(make_config(max_epochs=1), (41, 95, 12), tmp_path, data=make_splits())
    written = done.to_json()
    assert [run["seed"] for run in written] == [41, 95, 12]
    assert [run["test"] for run in written] == [outcome.test for outcome in done.outcomes]
    assert not done.failed
    assert all(folder.is_dir() for folder in done.folders)


def test_runs_with_a_name_are_continued(make_config, make_splits, tmp_path):
    splits = make_splits()
    paused = train_seeds(make_config(), (41, 95), tmp_path, "both", data=splits, time_limit=1e-9)
    assert paused.folders == (tmp_path / "both" / "seed41", tmp_path / "both" / "seed95")
    assert f"lrga train --resume {paused.folders[0]}" in notes_of_seeds(paused)[0]
    done = train_seeds(make_config(), (41, 95), tmp_path, "both", data=splits)
    assert [outcome.epochs for outcome in done.outcomes] == [3, 3]


def test_a_run_that_fails_is_named(make_config, make_splits, tmp_path):
    splits = make_splits()
    splits["train"].columns["x"].values[0] = 3e38  # the first layer overflows
    done = train_seeds(make_config(), (41, 95), tmp_path, data=splits)
    assert done.failed
    assert "seed 41 failed: expected a finite loss" in notes_of_seeds(done)[0]
    assert "NonFiniteError" in done.to_json()[1]["error"]


SEEDS = (41, 95, 12)


@pytest.fixture
def in_turns(monkeypatch):
    """As on a GPU: the runs take turns."""
    monkeypatch.setattr(together, "worth_interleaving", lambda config, device: True)


def configs_of(make_config, **options):
    options = {"engine": "captured", "dropout": 0.3, "random_features": True, "max_epochs": 2} | options
    return [make_config(seed=seed, **options) for seed in SEEDS]


def folders_of(path):
    return [path / f"seed{seed}" for seed in SEEDS]


def same(one, other):
    theirs = other.model.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.model.state_dict().items())


def test_seeds_at_once_are_those_one_after_the_other(make_config, make_splits, tmp_path, in_turns):
    configs, splits = configs_of(make_config), make_splits()
    before = torch.get_rng_state()
    results = train_interleaved(configs, folders_of(tmp_path / "both"), data=splits)
    assert torch.equal(torch.get_rng_state(), before)
    for config, result in zip(configs, results, strict=True):
        alone = train(config, tmp_path / f"alone{config.run.seed}", data=splits)
        assert same(alone, result)
        assert [r.train_loss for r in alone.history] == [r.train_loss for r in result.history]
        assert RunFolder(result.folder).config() == config
    assert not same(results[0], results[1])


def test_on_a_cpu_they_come_one_after_the_other(make_config, make_splits, tmp_path):
    said = []

    class Ear(Callback):
        def __init__(self, name):
            self.name = name

        def on_epoch_end(self, record):
            said.append((self.name, record.epoch))

    configs = configs_of(make_config, max_epochs=2, device="cpu")
    heard = [[Ear(seed)] for seed in SEEDS]
    results = train_interleaved(configs, folders_of(tmp_path), data=make_splits(), callbacks=heard)
    assert all(isinstance(result, TrainingResult) for result in results)
    assert said == [(seed, epoch) for seed in SEEDS for epoch in (1, 2)]


def test_a_run_that_fails_does_not_cost_the_others(make_config, make_splits, tmp_path, in_turns):
    class Bad(Callback):
        def on_epoch_end(self, record):
            raise KeyError("broken")

    folders = folders_of(tmp_path)
    (folders[2]).mkdir(parents=True)
    train(make_config(seed=99), folders[2], data=make_splits())  # another run is there
    configs = configs_of(make_config)
    results = train_interleaved(configs, folders, data=make_splits(), callbacks=[[Bad()], [], []])
    assert isinstance(results[0], KeyError)
    assert results[1].finished
    assert "seed" in str(results[2])


def test_a_time_limit_pauses_all_and_the_same_call_continues(make_config, make_splits, tmp_path, in_turns):
    configs, splits, folders = configs_of(make_config), make_splits(), folders_of(tmp_path / "run")
    paused = train_interleaved(configs, folders, data=splits, time_limit=1e-9)
    assert {result.stopped_by for result in paused} == {"time_limit"}
    after = train_interleaved(configs, folders, data=splits)
    whole = train_interleaved(configs, folders_of(tmp_path / "whole"), data=splits)
    assert all(same(one, other) for one, other in zip(after, whole, strict=True))
    again = train_interleaved(configs, folders, data=splits)  # finished: nothing is done
    assert [result.test for result in again] == [result.test for result in after]


def test_on_ctrl_c_all_write_a_checkpoint(make_config, make_splits, tmp_path, in_turns):
    import os
    import signal

    class Stop(Callback):
        def on_batch_end(self, epoch, batch, batches):
            if (epoch, batch) == (2, 1):
                os.kill(os.getpid(), signal.SIGINT)

    configs, splits, folders = configs_of(make_config), make_splits(), folders_of(tmp_path / "run")
    with pytest.raises(Interrupted, match="--resume"):
        train_interleaved(configs, folders, data=splits, callbacks=[[Stop()], [], []])
    assert all(RunFolder(folder).checkpoint()[0] is not None for folder in folders)
    after = train_interleaved(configs, folders, data=splits)
    assert all(result.finished for result in after)


def test_runs_that_differ_in_more_than_their_seeds_are_refused(make_config, tmp_path):
    with pytest.raises(OptionError, match="only in their seeds"):
        train_interleaved([make_config(seed=1), make_config(seed=2, lr=0.1)], [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(OptionError, match="only in their seeds"):
        train_interleaved([make_config(seed=1)] * 2, [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(OptionError, match="folders"):
        train_interleaved([make_config(seed=1)], [])


def test_interleaving_is_worth_it_for_captured_steps_on_a_gpu_alone(make_config, monkeypatch):
    gpu, cpu = torch.device("cuda", 0), torch.device("cpu")
    assert together.worth_interleaving(make_config(), gpu)
    assert not together.worth_interleaving(make_config(), cpu)
    assert not together.worth_interleaving(make_config(engine="plain"), gpu)
    monkeypatch.setattr(together, "launched", lambda: True)
    assert not together.worth_interleaving(make_config(), gpu)


def test_a_lost_rank_ends_all_runs(make_config, make_splits, tmp_path, monkeypatch):
    """The next seed would wait for it."""

    def lose(*args, **kwargs):
        raise RankLostError("all 2 ranks to keep running", "rank 1 is gone", "restart")

    monkeypatch.setattr(together, "train", lose)
    with pytest.raises(RankLostError, match="rank 1 is gone"):
        train_interleaved(configs_of(make_config), folders_of(tmp_path), data=make_splits())
