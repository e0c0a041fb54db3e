"""Resuming: the same run on the same data goes on; anything else is refused and changes nothing."""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import contextmanager

import pytest
import torch
from link_graphs import communities, config_of, on_graphs

from lrga.errors import CheckpointError, DataError, FolderInUseError, LRGAError, OptionError
from lrga.training import continue_run, train
from lrga.training.runs.folder import RunFolder


@pytest.fixture
def paused(make_config, make_splits, tmp_path):
    folder = tmp_path / "run"
    train(make_config(), folder, data=make_splits(), time_limit=1e-9)
    return folder


def test_another_run_in_the_same_folder_is_refused(make_config, make_splits, paused):
    for key, value in {"lr": 0.1, "seed": 8, "hidden": 9, "name": "others", "batch_size": 4}.items():
        with pytest.raises(CheckpointError, match=key):
            train(make_config(**{key: value}), paused, data=make_splits())


def test_where_and_how_it_is_saved_may_change(make_config, make_splits, paused):
    config = make_config(device="auto", checkpoint_minutes=1.0, root="elsewhere")
    assert train(config, paused, data=make_splits()).finished
    assert RunFolder(paused).config() == config


def test_another_network_from_the_same_configuration_is_refused(make_config, make_splits, paused):
    facts = json.loads((paused / "model.json").read_text())
    facts["architecture"]["num_layers"] = 5
    del facts["sha256"]
    (paused / "model.json").write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match="another network"):
        train(make_config(), paused, data=make_splits())


def test_a_finished_run_can_be_extended(kind, tmp_path):
    whole = train(kind.config(max_epochs=5), tmp_path / "whole", data=kind.data())
    train(kind.config(max_epochs=3), tmp_path / "run", data=kind.data())
    longer = continue_run(tmp_path / "run", data=kind.data(), max_epochs=5)
    assert longer.epochs == 5
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, longer.model.state_dict()[name])
    assert RunFolder(tmp_path / "run").config().optimizer.max_epochs == 5


def test_a_damaged_checkpoint_costs_an_epoch_and_not_the_run(make_config, make_splits, tmp_path, monkeypatch):
    monkeypatch.setattr("lrga.training.runs.checkpoint.MIN_SECONDS", 0.0)
    whole = train(make_config(), tmp_path / "whole", data=make_splits())
    folder = tmp_path / "run"
    train(make_config(), folder, data=make_splits())
    (folder / "result.json").unlink()
    weights = folder / "checkpoints" / "0-000003-0000000" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    after = train(make_config(), folder, data=make_splits())
    assert [record.epoch for record in after.history] == [1, 2, 3]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, after.model.state_dict()[name])
    assert "skipped a damaged checkpoint" in (folder / "log.txt").read_text()


def test_a_run_killed_before_its_first_checkpoint_begins_again(make_config, make_splits, paused):
    shutil.rmtree(paused / "checkpoints")
    (paused / "metrics.jsonl").write_text('{"epoch": 1, "lr')
    result = train(make_config(), paused, data=make_splits())
    assert [record.epoch for record in result.history] == [1, 2, 3]


def test_a_folder_without_a_run_cannot_be_continued(tmp_path):
    with pytest.raises(CheckpointError, match="lrga train"):
        continue_run(tmp_path)


def content(folder):
    """All files but the lock, which names the process that held it last."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.fixture
def finished(copy_run):
    return copy_run(finished=True)


@contextmanager
def refused(folder, match=None, error=CheckpointError):
    """What the block does is refused, and leaves the folder as it was."""
    before = content(folder)
    with pytest.raises(error, match=match):
        yield
    assert content(folder) == before


def test_a_finished_run_is_not_continued_on_other_data(kind, finished):
    with refused(finished, "of the same name"):
        continue_run(finished, data=kind.data(seed=1), max_epochs=4)


@on_graphs
def test_a_run_is_not_continued_while_another_process_trains_it_or_with_fewer_epochs_than_are_done(kind, finished):
    with RunFolder(finished).lock(), refused(finished, error=FolderInUseError):
        continue_run(finished, data=kind.data(), max_epochs=4)
    with refused(finished, "2 epochs", OptionError):
        continue_run(finished, data=kind.data(), max_epochs=1)


def damaged_checkpoints(folder):
    for state in (folder / "checkpoints").glob("*/state.json"):
        state.write_text(state.read_text().replace('"epoch"', '"epochs"', 1))


def no_checkpoints(folder):
    shutil.rmtree(folder / "checkpoints")


def damaged_environment(folder):
    (folder / "environment.json").write_text("null")


def metrics(change):
    def rewrite(folder):
        path = folder / "metrics.jsonl"
        path.write_bytes(change(path.read_text()).encode())

    return rewrite


DAMAGES = {
    "checkpoints": (damaged_checkpoints, "checksum"),
    "no checkpoints": (no_checkpoints, "a checkpoint in .* to continue from"),
    "environment": (damaged_environment, r"environment\.json"),
    "metrics with words": (metrics(lambda text: text.replace('"lr": ', '"lr": "a", "x": ', 1)), r"metrics\.jsonl"),
    "shorter metrics": (metrics(lambda text: text.replace(" ", "")), r"metrics\.jsonl"),
    "metrics of Windows": (metrics(lambda text: text.replace("\n", "\r\n")), r"metrics\.jsonl"),
    "metrics in another order": (
        metrics(lambda text: "".join(reversed(text.splitlines(keepends=True)))), r"metrics\.jsonl",
    ),
}  # fmt: skip


@on_graphs
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_not_continued(kind, finished, damage):
    change, match = DAMAGES[damage]
    change(finished)
    with refused(finished, match):
        continue_run(finished, data=kind.data(), max_epochs=4)


@on_graphs
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
@pytest.mark.parametrize("special", ["pipe", "folder", "link"])
@pytest.mark.parametrize(
    "name", ["log.txt", "metrics.jsonl", "environment.json", "result.json", "model.safetensors", "checkpoints"]
)
def test_with_something_else_in_place_of_a_file(kind, finished, tmp_path, name, special):
    path = finished / name
    moved = path.rename(tmp_path / "moved")
    if special == "pipe":
        os.mkfifo(path)
    elif special == "link":
        path.symlink_to(moved)
    else:
        (path / "folder").mkdir(parents=True)
    with refused(tmp_path, name):
        continue_run(finished, data=kind.data(), max_epochs=4)


@on_graphs
def test_with_an_environment_that_cannot_be_written_again(kind, finished):
    (finished / "environment.json").write_text('[{"load": 1e400}]')
    with refused(finished, r"environment\.json.*1e400"):
        continue_run(finished, data=kind.data(), max_epochs=4)
    (finished / "environment.json").write_text('[{"host": "\\ud800"}]')  # half of a pair, which UTF-8 does not have
    assert continue_run(finished, data=kind.data(), max_epochs=4).epochs == 4
    assert RunFolder(finished).environments()[0] == {"host": "\ud800"}


class Slow(Mapping):
    """Graphs that take so long to read that another process trains meanwhile."""

    def __init__(self, splits, meanwhile):
        self.splits, self.meanwhile = splits, meanwhile

    def __getitem__(self, key):
        self.meanwhile()
        self.meanwhile = lambda: None
        return self.splits[key]

    def __iter__(self):
        return iter(self.splits)

    def __len__(self):
        return len(self.splits)


def test_another_run_that_began_meanwhile_keeps_its_configuration(make_config, make_splits, tmp_path):
    splits, folder = make_splits(), tmp_path / "run"
    slow = Slow(splits, lambda: train(make_config(lr=0.1), folder, data=splits, time_limit=1e-9))
    with pytest.raises(CheckpointError, match=r"lr=0\.1"):
        train(make_config(lr=0.2), folder, data=slow)
    assert RunFolder(folder).config().optimizer.lr == 0.1
    assert train(make_config(lr=0.1), folder, data=splits).finished


def test_a_run_that_is_refused_leaves_no_folder(make_config, make_splits, tmp_path):
    with pytest.raises(OptionError, match="memory"):
        train(make_config(hidden=10**8), tmp_path / "runs" / "new", data=make_splits())
    assert not (tmp_path / "runs" / "new").exists()


def write_graphs(folder, end=""):
    folder.mkdir(exist_ok=True)
    names = [f"{g}" for g in range(12)]
    (folder / "nodes.csv").write_text("graph,node,x\n" + "".join(f"{g},{n},{n}\n" for g in names for n in range(3)))
    (folder / "edges.csv").write_text("graph,source,target\n" + "".join(f"{g},0,1\n{g},1,0\n" for g in names) + end)
    (folder / "graphs.csv").write_text("graph,y\n" + "".join(f"{g},{int(g) % 2}\n" for g in names))


@pytest.mark.parametrize("end", ["0,0\n", "0,0,9\n", "0,0,2\n0,2,0\n"], ids=["malformed", "no node", "changed"])
def test_own_graphs_that_changed_cost_nothing(make_config, tmp_path, end):
    write_graphs(tmp_path / "own")
    config = make_config(name=str(tmp_path / "own"), max_epochs=1)
    train(config, tmp_path / "run")
    write_graphs(tmp_path / "own", end)
    with refused(tmp_path / "run", error=(DataError, CheckpointError)):
        continue_run(tmp_path / "run", max_epochs=2)
    write_graphs(tmp_path / "own")
    assert continue_run(tmp_path / "run", max_epochs=2).epochs == 2


@pytest.mark.parametrize("end", ["a\n", "n0,n59\nn59,new\n"], ids=["malformed", "changed"])
def test_own_edges_that_changed_cost_nothing(tmp_path, end):
    lines = "".join(f"n{a},n{b}\n" for a, b in communities().edge.tolist())
    (tmp_path / "edges.csv").write_text(lines)
    train(config_of(max_epochs=1).changed(name=str(tmp_path / "edges.csv")), tmp_path / "run")
    (tmp_path / "edges.csv").write_text(lines + end)
    with refused(tmp_path / "run", error=LRGAError):
        continue_run(tmp_path / "run", max_epochs=2)
