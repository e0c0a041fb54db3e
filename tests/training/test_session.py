"""A run batch by batch: it can be left and taken up between any two."""

import itertools

import torch

from lrga.training import train
from lrga.training.callbacks.events import Listener
from lrga.training.problems.kinds import load_run_data
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.session import Session
from lrga.training.runs.signals import StopRequest


def open_session(config, folder, splits, request):
    run = load_run_data(config, splits)
    folder.mkdir(parents=True, exist_ok=True)
    return Session(RunFolder(folder), config, run, run.fingerprint(), Listener(), request, None)


def test_steps_one_by_one_are_a_run(make_config, make_splits, tmp_path):
    splits = make_splits()
    whole = train(make_config(), tmp_path / "whole", data=splits)
    with StopRequest() as request:
        session = open_session(make_config(), tmp_path / "run", splits, request)
        assert len(list(session.steps())) == 9  # 3 epochs of 3 batches
        result = session.outcome(request)
    assert result.test == whole.test
    assert all(torch.equal(v, whole.model.state_dict()[k]) for k, v in result.model.state_dict().items())
    assert RunFolder(tmp_path / "run").result()["test"] == whole.test


def test_left_in_the_middle_it_is_closed_and_has_no_result(make_config, make_splits, tmp_path):
    closed = []
    with StopRequest() as request:
        session = open_session(make_config(), tmp_path / "run", make_splits(), request)
        session.listener.closed = lambda: closed.append(True)
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
