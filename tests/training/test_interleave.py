"""Several seeds at once end as one after the other, each in its own folder, and none costs the others."""

import pytest
import torch

import lrga.training.runs.interleave as together
from lrga.errors import OptionError, RankLostError
from lrga.training import train
from lrga.training.callbacks.events import Listener
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.interleave import train_together
from lrga.training.runs.result import TrainingResult
from lrga.training.runs.signals import Interrupted

SEEDS = (41, 95, 12)


@pytest.fixture
def in_turns(monkeypatch):
    """As on a GPU: the runs take turns."""
    monkeypatch.setattr(together, "pays", lambda config, device: True)


def configs_of(make_config, **options):
    options = {"engine": "captured", "dropout": 0.3, "random_features": True} | options
    return [make_config(seed=seed, **options) for seed in SEEDS]


def folders_of(path):
    return [path / f"seed{seed}" for seed in SEEDS]


def same(one, other):
    theirs = other.model.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.model.state_dict().items())


def test_seeds_at_once_are_those_one_after_the_other(make_config, make_splits, tmp_path, in_turns):
    configs, splits = configs_of(make_config), make_splits()
    before = torch.get_rng_state()
    results = train_together(configs, folders_of(tmp_path / "both"), data=splits)
    assert torch.equal(torch.get_rng_state(), before)
    for config, result in zip(configs, results, strict=True):
        alone = train(config, tmp_path / f"alone{config.run.seed}", data=splits)
        assert same(alone, result)
        assert [r.train_loss for r in alone.history] == [r.train_loss for r in result.history]
        assert RunFolder(result.folder).config() == config
    assert not same(results[0], results[1])


def test_on_a_cpu_they_come_one_after_the_other(make_config, make_splits, tmp_path):
    said = []

    class Ear(Listener):
        def __init__(self, name):
            self.name = name

        def epoch_done(self, record):
            said.append((self.name, record.epoch))

    configs = configs_of(make_config, max_epochs=2, device="cpu")
    heard = [[Ear(seed)] for seed in SEEDS]
    results = train_together(configs, folders_of(tmp_path), data=make_splits(), listeners=heard)
    assert all(isinstance(result, TrainingResult) for result in results)
    assert said == [(seed, epoch) for seed in SEEDS for epoch in (1, 2)]


def test_a_run_that_fails_does_not_cost_the_others(make_config, make_splits, tmp_path, in_turns):
    class Bad(Listener):
        def epoch_done(self, record):
            raise KeyError("broken")

    folders = folders_of(tmp_path)
    (folders[2]).mkdir(parents=True)
    train(make_config(seed=99), folders[2], data=make_splits())  # another run is there
    configs = configs_of(make_config)
    results = train_together(configs, folders, data=make_splits(), listeners=[[Bad()], [], []])
    assert isinstance(results[0], KeyError)
    assert results[1].finished
    assert "seed" in str(results[2])


def test_a_time_limit_pauses_all_and_the_same_call_continues(make_config, make_splits, tmp_path, in_turns):
    configs, splits, folders = configs_of(make_config), make_splits(), folders_of(tmp_path / "run")
    paused = train_together(configs, folders, data=splits, time_limit=1e-9)
    assert {result.stopped_by for result in paused} == {"time_limit"}
    after = train_together(configs, folders, data=splits)
    whole = train_together(configs, folders_of(tmp_path / "whole"), data=splits)
    assert all(same(one, other) for one, other in zip(after, whole, strict=True))
    again = train_together(configs, folders, data=splits)  # finished: nothing is done
    assert [result.test for result in again] == [result.test for result in after]


def test_on_ctrl_c_all_write_a_checkpoint(make_config, make_splits, tmp_path, in_turns):
    import os
    import signal

    class Stop(Listener):
        def batch_done(self, epoch, batch, batches):
            if (epoch, batch) == (2, 1):
                os.kill(os.getpid(), signal.SIGINT)

    configs, splits, folders = configs_of(make_config), make_splits(), folders_of(tmp_path / "run")
    with pytest.raises(Interrupted, match="--resume"):
        train_together(configs, folders, data=splits, listeners=[[Stop()], [], []])
    assert all(RunFolder(folder).checkpoint()[0] is not None for folder in folders)
    after = train_together(configs, folders, data=splits)
    assert all(result.finished for result in after)


def test_runs_that_differ_in_more_than_their_seeds_are_refused(make_config, tmp_path):
    with pytest.raises(OptionError, match="seeds only"):
        train_together([make_config(seed=1), make_config(seed=2, lr=0.1)], [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(OptionError, match="seeds only"):
        train_together([make_config(seed=1)] * 2, [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(OptionError, match="folders"):
        train_together([make_config(seed=1)], [])


def test_it_pays_for_captured_steps_on_a_gpu_alone(make_config, monkeypatch):
    gpu, cpu = torch.device("cuda", 0), torch.device("cpu")
    assert together.pays(make_config(), gpu)
    assert not together.pays(make_config(), cpu)
    assert not together.pays(make_config(engine="plain"), gpu)
    monkeypatch.setattr(together, "launched", lambda: True)
    assert not together.pays(make_config(), gpu)


def test_a_lost_rank_ends_all_runs(make_config, make_splits, tmp_path, monkeypatch):
    """The next seed would wait for it."""

    def lose(*args, **kwargs):
        raise RankLostError("all 2 ranks to keep running", "rank 1 is gone", "restart")

    monkeypatch.setattr(together, "train", lose)
    with pytest.raises(RankLostError, match="rank 1 is gone"):
        train_together(configs_of(make_config), folders_of(tmp_path), data=make_splits())
